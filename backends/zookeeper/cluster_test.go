package zookeeper

import (
	"context"
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/leaderrun/leaderrun/backends"
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
	w := &world{T: t, d: d, other: open(t, set.Agreed(t).URL()), operator: open(t, set.Agreed(t).URL())}
	g := w.acquire(d, newClaim("job"))
	s := sessionOf(g)
	id, old := s.id(), s.conn
	followers[0].Stop(t)
	ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
	defer cancel()
	_, err := d.Renew(ctx, g)
	w.wantUnknown("Renew at a server that is stopped", err)
	w.renew(d, g)
	if s.id() != id || s.conn.Addr == old.Addr || stateOf(t, w.operator, "job").owner != id {
		t.Errorf("session %x at %s, was %x at %s", s.id(), s.conn.Addr, id, old.Addr)
	}
	followers[0].Cont(t)
	w.renew(d, g)
	w.refused(w.other, newClaim("job"), backends.Held)
	w.finish(d, g)
	w.finish(w.other, w.acquire(w.other, newClaim("job")))
}

// TestSessionMoved: a session goes to another server while its first connection is open. Whichever connection a
// renewal takes, it is done or its outcome is unknown; it is never a loss.
func TestSessionMoved(t *testing.T) {
	t.Parallel()
	_, followers := ensemble(t)
	d := open(t, "zk://"+followers[0].Addr()+","+followers[1].Addr())
	w := &world{T: t, d: d, other: d, operator: d}
	g := w.acquire(d, newClaim("job"))
	s := sessionOf(g)
	s.mu.Lock()
	old := s.conn
	s.conn = nil
	s.mu.Unlock()
	d.leave(old.Addr)
	w.renew(d, g) // elsewhere
	s.mu.Lock()
	s.conn = old
	s.mu.Unlock()
	if _, err := d.Renew(t.Context(), g); err != nil {
		w.wantUnknown("Renew on a connection that the session has left", err)
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
	w.finish(d, g)
}

// TestFollowerLags: a server that slept answers from what it knew then, unless it is told to catch up first.
func TestFollowerLags(t *testing.T) {
	t.Parallel()
	set, followers := ensemble(t)
	leader := open(t, set.Agreed(t).URL())
	w := &world{T: t, d: leader, other: open(t, followers[0].URL()), operator: leader}
	w.finish(leader, w.acquire(leader, newClaim("job")))
	for range 5 {
		late := w.other.newSession(longest)
		before, err := late.read(t.Context(), "job")
		if err != nil {
			t.Fatal(err)
		}
		followers[0].Stop(t)
		g := w.acquire(leader, newClaim("job"))
		followers[0].Cont(t)
		now, err := late.read(t.Context(), "job")
		if err != nil { // its leader has given it up meanwhile
			w.wantUnknown("read", err)
		} else if !now.held || now.label != labelOf(g) {
			t.Errorf("read %+v, was %+v, want the lease of %+v", now, before, g)
		}
		late.drop()
		w.finish(leader, g)
	}
}

// TestLeaderKilled: the lease outlives the leader, and nobody else is granted meanwhile.
func TestLeaderKilled(t *testing.T) {
	t.Parallel()
	set, _ := ensemble(t)
	w := &world{T: t, d: open(t, set.URL()), other: open(t, set.URL())}
	g := w.acquire(w.d, newClaim("job"))
	set.Agreed(t).Kill()
	insist := func(what string, f func(ctx context.Context) error) {
		t.Helper()
		testserver.Eventually(t, what, func() bool {
			ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
			defer cancel()
			err := f(ctx)
			if backends.IsAnswer(err) {
				t.Fatalf("%s: %v", what, err)
			}
			return err == nil
		})
	}
	insist("Renew", func(ctx context.Context) error { _, err := w.d.Renew(ctx, g); return err })
	insist("refused", func(ctx context.Context) error {
		_, err := w.other.Acquire(ctx, newClaim("job"))
		if r, ok := errors.AsType[*backends.Refusal](err); ok && r.Verdict == backends.Held {
			return nil
		}
		return err
	})
	insist("Finish", func(ctx context.Context) error { return w.d.Finish(ctx, g, backends.Outcome{State: backends.Done}) })
}
