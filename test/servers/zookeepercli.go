package servers

import (
	"os/exec"
	"strings"
	"testing"
)

// CLI has zkCli.sh do commands, a line each, in one session: as nobody, until an addauth says who. It returns what is
// printed. The last command has to go well.
func (s *ZooKeeperServer) CLI(t testing.TB, commands string) string {
	t.Helper()
	var args []string
	if c := s.opts.TLS; c != nil {
		args = []string{
			"-Dzookeeper.client.secure=true", "-Dzookeeper.clientCnxnSocket=org.apache.zookeeper.ClientCnxnSocketNetty",
			"-Dzookeeper.ssl.keyStore.location=" + s.keyStore(t, "client.pem", c.ClientCert, c.ClientKey), "-Dzookeeper.ssl.keyStore.type=PEM",
			"-Dzookeeper.ssl.trustStore.location=" + c.CA, "-Dzookeeper.ssl.trustStore.type=PEM",
		}
	}
	// That is all that zkCli.sh runs. Over TLS an addauth that does not wait for the session is answered before it, and the client
	// takes that for the session.
	args = append(args, "org.apache.zookeeper.ZooKeeperMain", "-waitforconnection", "-server", s.Addr())
	words := s.place.words(append([]string{program(t, "java")}, s.java(args...)...)...)
	c := exec.CommandContext(t.Context(), words[0], words[1:]...)
	c.Dir, c.Env = s.dir, environment()
	c.Stdin = strings.NewReader(strings.TrimSpace(commands) + "\nquit\n") // with the exit code of the command before
	out, err := c.CombinedOutput()
	if err != nil {
		t.Fatalf("zkCli.sh: %v: %s", err, out)
	}
	return string(out)
}
