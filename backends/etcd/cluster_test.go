package etcd

import (
	"context"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/leaderrun/leaderrun/backends"
	"github.com/leaderrun/leaderrun/test/servers"
	"github.com/leaderrun/leaderrun/test/suite"
)

// TestMemberStopped: the first of two endpoints is stopped. Its requests run out, the next ones go to the other.
func TestMemberStopped(t *testing.T) {
	t.Parallel()
	set := servers.EtcdCluster(t, 3)
	leader := set.Agreed(t)
	members := slices.DeleteFunc(slices.Clone(set.Members), func(m *servers.EtcdServer) bool { return m == leader })
	d := open(t, "etcd://"+members[0].Endpoint()+","+members[1].Endpoint())
	other := open(t, leader.URL())
	steps := suite.On(t)
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
	set := servers.EtcdCluster(t, 3)
	d, other := open(t, set.URL()), open(t, set.URL())
	steps := suite.On(t)
	g := steps.Acquire(d, newClaim("job"))
	old := set.Agreed(t)
	old.Kill()
	set.Changed(t, old)
	steps.Survives(d, other, g)
}

// TestClusterMadeAnew: behind an open driver the cluster is replaced by an empty one. Who has met the old one takes nothing
// there for free, and a grant of the old one touches nothing of a lease that has, by chance, the revisions of its own.
func TestClusterMadeAnew(t *testing.T) {
	w := newWorld(t)
	other := servers.Etcd(t, servers.EtcdOptions{UnsafeNoFsync: true})
	anew := open(t, other.URL())
	operator := operator{open(t, other.URL()).store}
	g := w.Acquire(w.d, newClaim("job"))
	theirs := w.Acquire(anew, newClaim("job"))
	if g.Native != theirs.Native {
		t.Fatalf("revisions %s and %s: this test shows nothing", g.Native, theirs.Native)
	}
	defer func(c client) { _ = c.Close() }(w.d.store.client)
	w.d.store.client = anew.store.client
	before := operator.state(t, "job")
	_, renewed := w.d.Renew(t.Context(), g)
	_, claimed := w.d.Acquire(t.Context(), newClaim("another job"))
	for step, err := range map[string]error{
		"Renew": renewed, "Acquire": claimed, "Finish": w.d.Finish(t.Context(), g, backends.Outcome{State: backends.Done}),
	} {
		if !backends.IsPermanent(err) || !strings.Contains(err.Error(), "different etcd clusters") {
			t.Errorf("%s: %v", step, err)
		}
	}
	if now := operator.state(t, "job"); now.written != before.written || now.beaten != before.beaten || !now.sameLease(before) {
		t.Errorf("written: %+v, and before %+v", now, before)
	}
	w.Renew(anew, theirs)
}
