package command

import (
	"encoding/json"
	"sync"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/leaderrun/leaderrun/internal/testserver"
)

// consuls are the servers of all scripts, by address.
var consuls sync.Map

// consul [TOKEN] starts a server and sets CONSUL to its address. consul lose JOB destroys the session that holds
// the job's lock on it.
func startConsul(t *testing.T, ts *testscript.TestScript, args []string) {
	t.Helper()
	if len(args) == 2 && args[0] == "lose" {
		loseSession(ts, args[1])
		return
	}
	var o testserver.ConsulOptions
	if len(args) > 0 {
		o.Token = args[0]
	}
	s := testserver.Consul(t, o)
	consuls.Store(s.Addr(), s)
	ts.Setenv("CONSUL", s.Addr())
}

func loseSession(ts *testscript.TestScript, job string) {
	s, ok := consuls.Load(ts.Getenv("CONSUL"))
	server, isServer := s.(*testserver.ConsulServer)
	if !ok || !isServer {
		ts.Fatalf("no server")
	}
	text, err := server.TryAPI("GET", "/v1/kv/leaderrun/"+job+"/lock", "")
	ts.Check(err)
	var held []struct{ Session string }
	ts.Check(json.Unmarshal([]byte(text), &held))
	_, err = server.TryAPI("PUT", "/v1/session/destroy/"+held[0].Session, "")
	ts.Check(err)
}
