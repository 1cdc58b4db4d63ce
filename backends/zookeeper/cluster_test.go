package zookeeper

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/leaderrun/leaderrun/backends"
	"github.com/leaderrun/leaderrun/backends/zookeeper/wire"
	"github.com/leaderrun/leaderrun/test/servers"
	"github.com/leaderrun/leaderrun/test/suite"
)

// patientServers are three servers that do not give each other up because the machine is busy, as they do after six seconds else.
func patientServers() []servers.ZooKeeperOptions {
	o := servers.ZooKeeperOptions{MaxSessionTimeout: longest, Lines: []string{"syncLimit=40"}}
	return []servers.ZooKeeperOptions{o, o, o}
}

// ensemble starts three servers, and returns the two that follow, too.
func ensemble(t *testing.T) (set *servers.ZooKeeperSet, followers []*servers.ZooKeeperServer) {
	t.Helper()
	set = servers.ZooKeeperEnsembleOf(t, patientServers()...)
	leader := set.Agreed(t)
	return set, slices.DeleteFunc(slices.Clone(set.Members), func(s *servers.ZooKeeperServer) bool { return s == leader })
}

// TestSessionMoved: a session goes to another server while its first connection is open. Whichever connection a
// renewal takes, it is done or its outcome is unknown; it is never a loss.
func TestSessionMoved(t *testing.T) {
	t.Parallel()
	_, followers := ensemble(t)
	d := open(t, "zk://"+followers[0].Addr()+","+followers[1].Addr())
	steps := suite.On(t)
	g := steps.Acquire(d, newClaim("job"))
	s := sessionOf(g)
	s.mu.Lock()
	old := s.conn
	s.conn = nil
	s.mu.Unlock()
	d.store.hosts.Leave(old.Addr)
	steps.Renew(d, g) // elsewhere
	s.mu.Lock()
	s.conn = old
	s.mu.Unlock()
	if _, err := d.Renew(t.Context(), g); err != nil {
		steps.WantUnknown("Renew on a connection that the session has left", err)
		if !wire.Is(err, wire.SessionMoved) {
			t.Logf("the server says it by %v", err)
		}
	}
	servers.Eventually(t, "renewed again", func() bool {
		_, err := d.Renew(t.Context(), g)
		if errors.Is(err, backends.ErrLost) {
			t.Fatal(err)
		}
		return err == nil
	})
	steps.Finish(d, g)
}

// TestServersGrantLess: hazard: a TTL above what each server of the URL grants is claimed again for ever, and nobody says why.
// Or one server that grants too little ends a run that another would serve, or its lease.
func TestServersGrantLess(t *testing.T) {
	t.Parallel()
	servers.SkipShort(t)
	const most = 30 * time.Second
	members := patientServers()
	members[0].MaxSessionTimeout, members[1].MaxSessionTimeout = most, most
	set := servers.ZooKeeperEnsembleOf(t, members...)
	generous := set.Members[2].Addr()
	mean := "zk://" + set.Members[0].Addr() + "," + set.Members[1].Addr()
	examine := func(d *driver) suite.Findings {
		return suite.Examined(t, d.Examine(t.Context(), time.Minute), secret)
	}
	steps := suite.On(t)

	d := open(t, mean)
	_, err := d.Acquire(t.Context(), newClaim("job"))
	p, ok := errors.AsType[*backends.PermanentError](err)
	if !ok || p.Kind != backends.Configuration || !strings.Contains(p.Hint, "maxSessionTimeout=60000") || !strings.Contains(p.Hint, "--ttl 30s") {
		t.Errorf("each grants too little: %v (%+v)", err, p)
	}
	examine(d).Expect(t, "sessions", backends.Bad, "sessions of 30s at most")

	const nowhere = "127.0.0.1:1"
	_, err = open(t, mean+","+nowhere).Acquire(t.Context(), newClaim("job"))
	steps.WantUnknown("one is down, and may grant more", err)
	if err == nil || !strings.Contains(err.Error(), nowhere) || !strings.Contains(err.Error(), "sessions of 30s at most") {
		t.Errorf("%v does not say what is wrong with each", err)
	}

	d = open(t, mean+","+generous)
	g := steps.Acquire(d, newClaim("job"))
	s := sessionOf(g)
	id := s.id()
	cut(s)
	d.store.hosts.Leave(generous) // the next connection is tried with the first one again
	steps.Renew(d, g)
	if s.id() != id || s.conn.Addr != generous || g.TTL != time.Minute {
		t.Errorf("session %x at %s, was %x at %s; TTL %v", s.id(), s.conn.Addr, id, generous, g.TTL)
	}
	steps.Finish(d, g)
	found := examine(d)
	found.Expect(t, "sessions", backends.Warning, set.Members[1].Addr())
	found.Expect(t, "sessions", backends.Fine, generous)
}
