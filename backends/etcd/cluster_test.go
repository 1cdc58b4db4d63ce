package etcd

import (
	"strings"
	"testing"

	"github.com/leaderrun/leaderrun/backends"
	"github.com/leaderrun/leaderrun/test/servers"
)

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
