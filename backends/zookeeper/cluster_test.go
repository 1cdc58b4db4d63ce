package zookeeper

import (
	"context"
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/leaderrun/leaderrun/backends"
	"github.com/leaderrun/leaderrun/backends/backendtest"
	"github.com/leaderrun/leaderrun/backends/zookeeper/wire"
	"github.com/leaderrun/leaderrun/internal/testserver"
)

// patientServers are three servers that do not give each other up because the machine is busy, as they do after two seconds else.
func patientServers() []testserver.ZooKeeperOptions {
	o := testserver.ZooKeeperOptions{MaxSessionTimeout: longest, Lines: []string{"syncLimit=40"}}
	return []testserver.ZooKeeperOptions{o, o, o}
}

// ensemble starts three servers, and returns the two that follow, too.
func ensemble(t *testing.T) (set *testserver.ZooKeeperSet, followers []*testserver.ZooKeeperServer) {
	t.Helper()
	set = testserver.ZooKeeperEnsembleOf(t, patientServers()...)
	leader := set.Agreed(t)
	return set, slices.DeleteFunc(slices.Clone(set.Members), func(s *testserver.ZooKeeperServer) bool { return s == leader })
}

// TestServerStopped: the first of two servers is stopped. Its requests run out, the next ones go to the other, with the
// same session. When it wakes up, what it is told on the old connection is refused, which is no loss.
func TestServerStopped(t *testing.T) {
	t.Parallel()
	set, followers := ensemble(t)
	d := open(t, "zk://"+followers[0].Addr()+","+followers[1].Addr())
	other, operator := open(t, set.Agreed(t).URL()), open(t, set.Agreed(t).URL())
	steps := backendtest.On(t)
	g := steps.Acquire(d, newClaim("job"))
	s := sessionOf(g)
	id, old := s.id(), s.conn
	followers[0].Stop(t)
	ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
	defer cancel()
	_, err := d.Renew(ctx, g)
	steps.WantUnknown("Renew at a server that is stopped", err)
	steps.Renew(d, g)
	if s.id() != id || s.conn.Addr == old.Addr || stateOf(t, operator, "job").owner != id {
		t.Errorf("session %x at %s, was %x at %s", s.id(), s.conn.Addr, id, old.Addr)
	}
	followers[0].Cont(t)
	steps.Renew(d, g)
	steps.Refused(other, newClaim("job"), backends.Held)
	steps.Finish(d, g)
	steps.Finish(other, steps.Acquire(other, newClaim("job")))
}

// TestSessionMoved: a session goes to another server while its first connection is open. Whichever connection a
// renewal takes, it is done or its outcome is unknown; it is never a loss.
func TestSessionMoved(t *testing.T) {
	t.Parallel()
	_, followers := ensemble(t)
	d := open(t, "zk://"+followers[0].Addr()+","+followers[1].Addr())
	steps := backendtest.On(t)
	g := steps.Acquire(d, newClaim("job"))
	s := sessionOf(g)
	s.mu.Lock()
	old := s.conn
	s.conn = nil
	s.mu.Unlock()
	d.leave(old.Addr)
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
	testserver.Eventually(t, "renewed again", func() bool {
		_, err := d.Renew(t.Context(), g)
		if errors.Is(err, backends.ErrLost) {
			t.Fatal(err)
		}
		return err == nil
	})
	steps.Finish(d, g)
}

// TestFollowerLags: a server that slept answers from what it knew then, unless it is told to catch up first.
func TestFollowerLags(t *testing.T) {
	t.Parallel()
	set, followers := ensemble(t)
	leader := open(t, set.Agreed(t).URL())
	other := open(t, followers[0].URL())
	steps := backendtest.On(t)
	steps.Finish(leader, steps.Acquire(leader, newClaim("job")))
	for range 5 {
		late := other.newSession(longest)
		before, err := late.read(t.Context(), "job")
		if err != nil {
			t.Fatal(err)
		}
		followers[0].Stop(t)
		g := steps.Acquire(leader, newClaim("job"))
		followers[0].Cont(t)
		now, err := late.read(t.Context(), "job")
		if err != nil { // its leader has given it up meanwhile
			steps.WantUnknown("read", err)
		} else if !now.held || now.label != backends.LabelOf(g) {
			t.Errorf("read %+v, was %+v, want the lease of %+v", now, before, g)
		}
		late.drop()
		steps.Finish(leader, g)
	}
}

// TestLeaderKilled: the lease outlives the leader, and nobody else is granted meanwhile.
func TestLeaderKilled(t *testing.T) {
	t.Parallel()
	set, _ := ensemble(t)
	d, other := open(t, set.URL()), open(t, set.URL())
	steps := backendtest.On(t)
	g := steps.Acquire(d, newClaim("job"))
	set.Agreed(t).Kill()
	steps.Survives(d, other, g)
}
