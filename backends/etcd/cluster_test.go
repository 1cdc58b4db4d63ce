package etcd

import (
	"context"
	"slices"
	"testing"
	"time"

	"github.com/leaderrun/leaderrun/backends"
	"github.com/leaderrun/leaderrun/backends/backendtest"
	"github.com/leaderrun/leaderrun/internal/testserver"
)

// TestMemberStopped: the first of two endpoints is stopped. Its requests run out, the next ones go to the other.
func TestMemberStopped(t *testing.T) {
	t.Parallel()
	set := testserver.EtcdCluster(t, 3)
	leader := set.Agreed(t)
	members := slices.DeleteFunc(slices.Clone(set.Members), func(m *testserver.EtcdServer) bool { return m == leader })
	d := open(t, "etcd://"+members[0].Endpoint()+","+members[1].Endpoint())
	other := open(t, leader.URL())
	steps := backendtest.On(t)
	g := steps.Acquire(d, newClaim("job"))
	members[0].Stop(t)
	defer members[0].Cont(t)
	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	if _, err := d.Renew(ctx, g); err == nil || backends.IsAnswer(err) {
		t.Errorf("Renew at a member that is stopped: %v, want an unknown outcome", err)
	}
	steps.Renew(d, g)
	steps.Finish(d, g)
	steps.Finish(other, steps.Acquire(other, newClaim("job")))
}

// TestLeaderKilled: the lease outlives the leader, and nobody else is granted meanwhile.
func TestLeaderKilled(t *testing.T) {
	t.Parallel()
	set := testserver.EtcdCluster(t, 3)
	d, other := open(t, set.URL()), open(t, set.URL())
	steps := backendtest.On(t)
	c := newClaim("job")
	c.TTL = 30 * time.Second
	g := steps.Acquire(d, c)
	old := set.Agreed(t)
	old.Kill()
	set.Changed(t, old)
	steps.Survives(d, other, g)
}

// TestAgreed: a cluster that was made anew takes the place of the one before, if most hosts are of it. Two clusters behind
// one URL never do: each would give the lease to somebody.
func TestAgreed(t *testing.T) {
	t.Parallel()
	const was, is, silent = 1, 2, 0
	for _, x := range []struct {
		said      []uint64
		ok        bool
		permanent bool
	}{
		{[]uint64{is}, true, false},
		{[]uint64{is, is, is}, true, false},
		{[]uint64{silent, is, is}, true, false},
		{[]uint64{is, was}, false, true},
		{[]uint64{is, is, was}, false, true},
		{[]uint64{is, is, 3}, false, true},
		{[]uint64{silent}, false, false},
		{[]uint64{is, silent}, false, false}, // what if the other one is of the old cluster
		{[]uint64{is, silent, silent}, false, false},
	} {
		if err := agreed(is, x.said); (err == nil) != x.ok || backends.IsPermanent(err) != x.permanent {
			t.Errorf("hosts of %v: %v", x.said, err)
		}
	}
}

// TestClusterMadeAnew: behind an open driver the cluster is replaced by an empty one. It serves; and a grant of the old
// one touches nothing of a lease that has, by chance, the revisions of its own.
func TestClusterMadeAnew(t *testing.T) {
	w := newWorld(t)
	other := testserver.Etcd(t, testserver.EtcdOptions{UnsafeNoFsync: true})
	anew := open(t, other.URL())
	operator := operator{open(t, other.URL())}
	g := w.Acquire(w.d, newClaim("job"))
	theirs := w.Acquire(anew, newClaim("job"))
	if g.Native != theirs.Native {
		t.Fatalf("revisions %s and %s: this test shows nothing", g.Native, theirs.Native)
	}
	defer func(c client) { _ = c.Close() }(w.d.client)
	w.d.client, w.d.cfg = anew.client, anew.cfg
	before := operator.state(t, "job")
	_, err := w.d.Renew(t.Context(), g)
	w.WantLost("Renew", err)
	w.WantLost("Finish", w.d.Finish(t.Context(), g, backends.Outcome{State: backends.Done}))
	if now := operator.state(t, "job"); now.written != before.written || now.beaten != before.beaten || !now.sameLease(before) {
		t.Errorf("written: %+v, and before %+v", now, before)
	}
	w.Renew(anew, theirs)
	w.Finish(w.d, w.Acquire(w.d, newClaim("another job")))
	if id := w.d.cluster.Load(); id != anew.cluster.Load() {
		t.Errorf("cluster %x is not known: each step asks all hosts which one they are of", id)
	}
}
