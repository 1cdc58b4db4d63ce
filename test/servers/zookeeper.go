package servers

import (
	"cmp"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// zookeeperJar is where Debian's package has the server. Its manifest names what else it needs, but for what TLS and a
// log need, which are in the same folder.
const zookeeperJar = "/usr/share/java/zookeeper.jar"

const (
	quickTick      = 500 * time.Millisecond // short, for sessions of a second: the shortest one is two ticks
	longestSession = 40 * time.Second       // that of ZooKeeper's own defaults: twenty ticks of two seconds
)

// ZooKeeperOptions say how a ZooKeeper server differs from an empty one on ports of its own that trusts everybody. It does
// not sync to disk: a crash of the machine is no part of what a test can show, one of the server is.
type ZooKeeperOptions struct {
	At
	Short             bool          // it starts in the short run, too
	TLS               *Certificates // it has no port without
	ClientCert        bool          // with TLS: a client without a certificate is turned away
	TickTime          time.Duration // 0: half a second; ZooKeeper's own default is two
	MaxSessionTimeout time.Duration // 0: 40 s, as by default
	Lines             []string      // more lines of zoo.cfg; the last of two counts
}

// ZooKeeperServer is one running ZooKeeper server, alone or a member of an ensemble.
type ZooKeeperServer struct {
	*server
	peer, vote int // its ports for the other members, and for elections
	id         int // of a member; 0: alone
	opts       ZooKeeperOptions
}

// ZooKeeperSet is a ZooKeeper ensemble.
type ZooKeeperSet = Set[*ZooKeeperServer]

// ZooKeeper starts a ZooKeeper server that is alone. Its shortest session is of one second.
func ZooKeeper(t testing.TB, o ZooKeeperOptions) *ZooKeeperServer {
	t.Helper()
	return alone(t, newZooKeeper(t, o))
}

// ZooKeeperEnsembleOf starts a ZooKeeper ensemble.
func ZooKeeperEnsembleOf(t testing.TB, members ...ZooKeeperOptions) *ZooKeeperSet {
	t.Helper()
	SkipShort(t)
	return newSet(t, newZooKeeper, members)
}

func newZooKeeper(t testing.TB, o ZooKeeperOptions) *ZooKeeperServer {
	t.Helper()
	if !o.Short {
		SkipShort(t)
	}
	if _, err := os.Stat(zookeeperJar); err != nil {
		Lack(t, "zookeeper", zookeeperJar+" is not installed: make servers")
	}
	s := &ZooKeeperServer{opts: o}
	s.server = newServer(t, "zookeeper", o.At, o.TLS, s)
	s.peer, s.vote = FreePort(t), FreePort(t)
	return s
}

func (s *ZooKeeperServer) configure(t testing.TB, all []*ZooKeeperServer) {
	t.Helper()
	lines := []string{
		"dataDir=" + s.Data(), fmt.Sprintf("tickTime=%d", cmp.Or(s.opts.TickTime, quickTick).Milliseconds()),
		"initLimit=60", "syncLimit=12", "maxClientCnxns=0", "forceSync=no", "preAllocSize=64", "admin.enableServer=false",
		"4lw.commands.whitelist=ruok,srvr,mntr",
		fmt.Sprintf("maxSessionTimeout=%d", cmp.Or(s.opts.MaxSessionTimeout, longestSession).Milliseconds()),
	}
	if c := s.opts.TLS; c != nil {
		auth := "none"
		if s.opts.ClientCert {
			auth = "need"
		}
		lines = append(lines,
			fmt.Sprintf("secureClientPort=%d", s.Port), "secureClientPortAddress="+s.place.host(),
			"serverCnxnFactory=org.apache.zookeeper.server.NettyServerCnxnFactory", "ssl.clientAuth="+auth,
			"ssl.keyStore.location="+s.keyStore(t, "server.pem", c.ServerCert, c.ServerKey), "ssl.keyStore.type=PEM",
			"ssl.trustStore.location="+c.CA, "ssl.trustStore.type=PEM")
	} else {
		lines = append(lines, fmt.Sprintf("clientPort=%d", s.Port), "clientPortAddress="+s.place.host())
	}
	for i, m := range all {
		if len(all) == 1 {
			break
		}
		if m == s {
			s.id = i + 1
		}
		lines = append(lines, fmt.Sprintf("server.%d=%s:%d:%d", i+1, m.place.host(), m.peer, m.vote))
	}
	writeFile(t, s.dir, "zoo.cfg", strings.Join(append(lines, s.opts.Lines...), "\n")+"\n")
}

// keyStore writes what a server or a client has to show, as they want it: the key as PKCS #8, and the certificate in the same
// file.
func (s *ZooKeeperServer) keyStore(t testing.TB, name, cert, certKey string) string {
	t.Helper()
	pair, err := tls.LoadX509KeyPair(cert, certKey)
	if err != nil {
		t.Fatal(err)
	}
	key, err := x509.MarshalPKCS8PrivateKey(pair.PrivateKey)
	if err != nil {
		t.Fatal(err)
	}
	text := pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: key})
	for _, der := range pair.Certificate {
		text = append(text, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})...)
	}
	return writeFile(t, s.dir, name, string(text))
}

func (s *ZooKeeperServer) initialize(t testing.TB) {
	t.Helper()
	s.server.initialize(t)
	if s.id > 0 {
		writeFile(t, s.Data(), "myid", fmt.Sprintln(s.id))
	}
}

func (s *ZooKeeperServer) command(testing.TB) []string {
	return s.java("-Dorg.slf4j.simpleLogger.log.org.apache.zookeeper.server.NIOServerCnxn=error", "-Dzookeeper.jmx.log4j.disable=true",
		"org.apache.zookeeper.server.quorum.QuorumPeerMain", filepath.Join(s.dir, "zoo.cfg"))
}

// java returns the words after "java" that run a program of ZooKeeper's.
func (s *ZooKeeperServer) java(args ...string) []string {
	jars := []string{zookeeperJar}
	for _, name := range []string{"netty-codec", "netty-resolver", "netty-transport-native-unix-common", "slf4j-simple"} {
		jars = append(jars, filepath.Join(filepath.Dir(zookeeperJar), name+".jar"))
	}
	words := []string{
		// It is small and starts often: little memory, and no time spent on compiling well.
		"-Xmx96m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-Xshare:auto", "-XX:-UsePerfData",
		"-Dorg.slf4j.simpleLogger.defaultLogLevel=warn", "-Djava.io.tmpdir=" + s.dir, "-cp", strings.Join(jars, ":"),
	}
	return append(words, args...)
}

// Answers opens a session at the server and closes it, which most members have to agree to.
func (s *ZooKeeperServer) Answers() error {
	return s.ask(statusTimeout, nil)
}

// Word sends one of the four-letter words that the server answers, ruok, srvr and mntr, and returns the answer.
func (s *ZooKeeperServer) Word(word string) (string, error) {
	c, err := s.dial(statusTimeout)
	if err != nil {
		return "", err
	}
	defer func() { _ = c.Close() }()
	if _, err := io.WriteString(c, word); err != nil {
		return "", err
	}
	text, err := io.ReadAll(c)
	return string(text), err
}

// follows returns the epoch that the server began, if it leads, and the epoch in which it follows: each has one leader.
func (s *ZooKeeperServer) follows() (self, leader string, err error) {
	text, err := s.Word("srvr")
	if err != nil {
		return "", "", err
	}
	_, mode, _ := strings.Cut(text, "\nMode: ")
	mode, _, _ = strings.Cut(mode, "\n")
	if mode != "leader" && mode != "follower" {
		return "", "", errors.New(strings.TrimSpace(text))
	}
	epoch, err := os.ReadFile(filepath.Join(s.Data(), "version-2", "currentEpoch"))
	if err != nil {
		return "", "", err
	}
	leader = strings.TrimSpace(string(epoch))
	if mode == "leader" {
		self = leader
	}
	return self, leader, nil
}
