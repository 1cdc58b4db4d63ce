package consul

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/leaderrun/leaderrun/backends"
	"github.com/leaderrun/leaderrun/internal/checkup"
	"github.com/leaderrun/leaderrun/test/servers"
	"github.com/leaderrun/leaderrun/test/suite"
)

func examine(t *testing.T, url string) suite.Findings {
	t.Helper()
	return examined(t, open(t, url).Examine(t.Context(), 15*time.Second))
}

func examined(t *testing.T, findings []backends.Finding) suite.Findings {
	t.Helper()
	return suite.Examined(t, findings, management)
}

func TestExamine(t *testing.T) {
	t.Parallel()
	s := server(t)
	e := examine(t, s.URL())
	e.Expect(t, checkup.Reachable, backends.Fine, s.Addr())
	e.Expect(t, checkup.Clock, backends.Fine, s.Addr())
	e.Expect(t, "servers", backends.Warning, "one")
	e.Expect(t, "leader", backends.Fine, "")
	e.Expect(t, "version", backends.Fine, "Consul 1.")
	e.Expect(t, "agent", backends.Fine, "on this host")
	e.Expect(t, "log", backends.Fine, "Leader")
	e.Expect(t, "connections", backends.Fine, "200 from one address")
	e.Expect(t, checkup.Rights, backends.Fine, "leaderrun/")
	e.Expect(t, "session", backends.Fine, "15s")
	if keys, _ := s.TryAPI("GET", "/v1/kv/?keys", ""); strings.Trim(keys, "[] \n") != "" {
		t.Errorf("keys were left behind: %s", keys)
	}
	if sessions := s.API(t, "GET", "/v1/session/list", ""); strings.TrimSpace(sessions) != "[]" {
		t.Errorf("sessions were left behind: %s", sessions)
	}
}

func TestExamineADatacenter(t *testing.T) {
	t.Parallel()
	set := servers.ConsulCluster(t, 3)
	examine(t, set.URL()).Expect(t, "servers", backends.Fine, "3, of which 1 may fail")
	leader := set.Agreed(t)
	leader.Kill()
	set.Changed(t, leader)
	e := examine(t, set.URL())
	e.Expect(t, checkup.Reachable, backends.Warning, leader.Addr())
	e.Expect(t, "session", backends.Fine, "")
	for _, m := range set.Members {
		m.Kill()
	}
	e = examine(t, set.URL())
	e.Expect(t, checkup.Reachable, backends.Bad, leader.Addr())
	if len(e[checkup.Reachable]) != 3 || len(e) != 1 {
		t.Errorf("%+v", e)
	}
}

// Hosts of two datacenters in one URL: each would give the job to somebody.
func TestExamineTwoDatacenters(t *testing.T) {
	t.Parallel()
	a, b := server(t), server(t)
	examine(t, a.URL()+","+b.Addr()).Expect(t, "datacenter", backends.Bad, b.Addr()+" follows")
}

func TestExamineRights(t *testing.T) {
	t.Parallel()
	s := servers.Consul(t, servers.ConsulOptions{Token: management})
	o := operate(t, s.URL())
	token := func(name, rules string) string {
		return strings.Replace(s.URL(), "://", "://:"+newToken(t, o, name, rules)+"@", 1)
	}
	const keys, sessions = `key_prefix "leaderrun/" { policy = "write" }`, `session_prefix "" { policy = "write" }`

	e := examine(t, token("enough", keys+sessions))
	e.Expect(t, checkup.Rights, backends.Fine, "")
	e.Expect(t, "session", backends.Fine, "")
	e.Expect(t, "version", backends.Fine, "not shown")
	e = examine(t, token("no-sessions", keys))
	e.Expect(t, checkup.Rights, backends.Fine, "")
	e.Expect(t, "session", backends.Bad, "Permission denied")
	readonly := token("readonly", `key_prefix "leaderrun/" { policy = "read" }`+sessions)
	examine(t, readonly).Expect(t, checkup.Rights, backends.Bad, "Permission denied")
	examine(t, s.URL()).Expect(t, checkup.Rights, backends.Bad, "Permission denied")
	if keys, _ := s.TryAPI("GET", "/v1/kv/?keys", ""); strings.Trim(keys, "[] \n") != "" {
		t.Errorf("keys were left behind: %s", keys)
	}
}

// A token that everybody can read is everybody's.
func TestExamineTheTokenFile(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "token")
	if err := os.WriteFile(file, []byte(management), 0o600); err != nil {
		t.Fatal(err)
	}
	url := "consul://127.0.0.1:1?token-file=" + file
	if e := examine(t, url); len(e["token file"]) > 0 {
		t.Errorf("%+v", e)
	}
	if err := os.Chmod(file, 0o644); err != nil { //nolint:gosec // that is the case
		t.Fatal(err)
	}
	examine(t, url).Expect(t, "token file", backends.Warning, file)
}

func TestExamineALogThatIsBehind(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		applied string
		grade   backends.Grade
	}{{"9000", backends.Fine}, {"5000", backends.Warning}} {
		x := &examination{}
		x.raft(map[string]any{"raft": map[string]any{"commit_index": "9000", "applied_index": c.applied, "state": "Follower"}})
		examined(t, x.Findings).Expect(t, "log", c.grade, "")
	}
	x := &examination{}
	if x.raft(map[string]any{}); len(x.Findings) > 0 {
		t.Errorf("an agent that is no server has no log: %+v", x.Findings)
	}
}

func TestExamineConnections(t *testing.T) {
	t.Parallel()
	for limit, grade := range map[int]backends.Grade{0: backends.Fine, 6: backends.Warning, 200: backends.Fine} {
		x := &examination{}
		x.connections(limit)
		examined(t, x.Findings).Expect(t, "connections", grade, "")
	}
}
