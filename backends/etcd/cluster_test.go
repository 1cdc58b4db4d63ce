package etcd

import (
	"context"
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/leaderrun/leaderrun/backends"
	"github.com/leaderrun/leaderrun/internal/testserver"
)

// TestMemberStopped: the first of two endpoints is stopped. Its requests run out, the next ones go to the other.
func TestMemberStopped(t *testing.T) {
	t.Parallel()
	set := testserver.EtcdCluster(t, 3)
	leader := set.Agreed(t)
	members := slices.DeleteFunc(slices.Clone(set.Members), func(m *testserver.EtcdServer) bool { return m == leader })
	d := open(t, "etcd://"+members[0].Endpoint()+","+members[1].Endpoint())
	w := &world{T: t, d: d, other: open(t, leader.URL()), operator: operator{open(t, leader.URL())}}
	g := w.acquire(d, newClaim("job"))
	members[0].Stop(t)
	defer members[0].Cont(t)
	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	if _, err := d.Renew(ctx, g); err == nil || backends.IsAnswer(err) {
		t.Errorf("Renew at a member that is stopped: %v, want an unknown outcome", err)
	}
	w.renew(d, g)
	w.finish(d, g)
	w.finish(w.other, w.acquire(w.other, newClaim("job")))
}

// TestLeaderKilled: the lease outlives the leader, and nobody else is granted meanwhile.
func TestLeaderKilled(t *testing.T) {
	t.Parallel()
	set := testserver.EtcdCluster(t, 3)
	w := &world{T: t, d: open(t, set.URL()), other: open(t, set.URL())}
	c := newClaim("job")
	c.TTL = 30 * time.Second
	g := w.acquire(w.d, c)
	old := set.Agreed(t)
	old.Kill()
	set.Changed(t, old)
	insist := func(what string, f func(ctx context.Context) error) {
		t.Helper()
		testserver.Eventually(t, what, func() bool {
			ctx, cancel := context.WithTimeout(t.Context(), 2*time.Second)
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
