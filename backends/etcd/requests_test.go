package etcd

import (
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/leaderrun/leaderrun/backends"
	"github.com/leaderrun/leaderrun/test/suite"
)

// TestRequests: what each step costs. What is asked at the same time stands in brackets.
func TestRequests(t *testing.T) {
	w := newWorld(t)
	var mu sync.Mutex
	var asked []string
	count := func(d *driver) {
		intercept(d, func(request string) {
			mu.Lock()
			defer mu.Unlock()
			asked = append(asked, request)
		}, nil)
	}
	count(w.d)
	count(w.other)
	step := func(what, want string, f func()) {
		t.Helper()
		asked = nil
		f()
		if rounds := strings.Fields(want); len(asked) > 1 && rounds[0] == "[grant" {
			slices.Sort(asked[:2])
		}
		if diff := cmp.Diff(strings.NewReplacer("[", "", "]", "").Replace(want), strings.Join(asked, " ")); diff != "" {
			t.Errorf("%s (-want +got):\n%s", what, diff)
		}
	}
	c, candidate := newClaim("job"), newClaim("job")
	var g backends.Grant
	step("a first claim of a free job", "[grant read] swap", func() { g = w.Acquire(w.d, c) })
	step("the same claim again", "[grant read] keepalive swap revoke", func() { g = w.Acquire(w.d, c) })
	step("a renewal", "keepalive swap", func() { w.Renew(w.d, g) })
	step("the next renewal", "keepalive swap", func() { w.Renew(w.d, g) })
	step("a host that is refused", "[grant read] revoke", func() { candidate.Seen = w.Refused(w.other, candidate, backends.Held).Seen })
	step("a standby", "read", func() { w.Refused(w.other, candidate, backends.Held) })
	step("what an operator sees", "read left status", func() { w.inspect("job") })
	step("a look", "read", func() {
		if s, err := w.other.Look(t.Context(), "job"); err != nil || s.Lease == nil || s.Lease.Left <= 0 || s.Lease.Left > c.TTL {
			t.Errorf("%+v, %v", s, err)
		}
	})
	step("the end of a run", "swap revoke", func() { w.Finish(w.d, g) })
	step("a standby whose turn it is", "read grant swap", func() { g = w.Acquire(w.other, candidate) })
	altered, elsewhere := g, g
	altered.Token--
	elsewhere.Claim.Holder.ID, elsewhere.Private = "another", nil
	step("a renewal of an altered grant", "read", func() {
		_, err := w.other.Renew(t.Context(), altered)
		w.WantLost("Renew", err)
	})
	step("a renewal of what another holds", "read", func() {
		_, err := w.other.Renew(t.Context(), elsewhere)
		w.WantLost("Renew", err)
	})
	g.Private = nil
	step("a renewal of a grant from elsewhere", "read keepalive swap", func() { w.Renew(w.d, g) })
	step("a claim that is taken back", "read swap revoke", func() {
		if err := w.other.Abandon(t.Context(), candidate); err != nil {
			t.Error(err)
		}
	})
	step("a stale renewal", "read", func() {
		_, err := w.d.Renew(t.Context(), g)
		w.WantLost("Renew", err)
	})
}

// TestNothingPilesUp: of etcd's leases only those stay that somebody holds.
func TestNothingPilesUp(t *testing.T) {
	w := newWorld(t)
	g := w.Acquire(w.d, newClaim("job"))
	for range 20 {
		w.Refused(w.other, newClaim("job"), backends.Held)
		w.Finish(w.other, w.Acquire(w.other, newClaim("other")))
	}
	c := newClaim("once")
	c.Once = "key"
	w.Finish(w.other, w.Acquire(w.other, c))
	again := newClaim("once")
	again.Once = "key"
	w.Refused(w.other, again, backends.IsDone)
	late := open(t, w.server.URL())
	var overtaken backends.Grant
	intercept(late, func(request string) {
		if request == "swap" { // somebody is quicker
			overtaken = w.Acquire(w.d, newClaim("race"))
		}
	}, nil)
	w.Refused(late, newClaim("race"), backends.Held)
	w.Finish(w.d, overtaken)
	w.Order(w.other, suite.NewOrder(backends.Revoke, w.Acquire(w.d, newClaim("revoked"))))
	if list := w.server.Ctl(t, "lease", "list"); !strings.Contains(list, "found 1 leases") {
		t.Errorf("etcdctl lease list: %s", list)
	}
	w.Finish(w.d, g)
	if list := w.server.Ctl(t, "lease", "list"); !strings.Contains(list, "found 0 leases") {
		t.Errorf("etcdctl lease list: %s", list)
	}
}
