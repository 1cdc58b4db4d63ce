package zookeeper

import (
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/leaderrun/leaderrun/backends"
	"github.com/leaderrun/leaderrun/backends/zookeeper/wire"
	"github.com/leaderrun/leaderrun/test/suite"
)

// asked notes what the sessions of drivers ask: a bracket is one round trip.
type asked struct {
	mu    sync.Mutex
	trips []string
}

func (a *asked) of(d *driver) {
	d.store.between = func(calls []*wire.Call, send func() error) error {
		var names []string
		for _, c := range calls {
			names = append(names, nameOf(c.Op))
		}
		a.mu.Lock()
		a.trips = append(a.trips, "["+strings.Join(names, " ")+"]")
		a.mu.Unlock()
		return send()
	}
}

// nameOf names a request, and a watch by a w behind it.
func nameOf(o wire.Op) string {
	name := map[int32]string{
		1: "create", 2: "delete", 3: "exists", 4: "get", 5: "set", 6: "acl", 8: "children", 9: "sync", 11: "ping", 13: "check", -11: "close",
	}[o.Code]
	if o.Watch {
		name += "w"
	}
	if o.Ops == nil {
		return name
	}
	var ops []string
	for _, sub := range o.Ops {
		ops = append(ops, nameOf(sub))
	}
	return "multi(" + strings.Join(ops, ",") + ")"
}

// take returns what was asked since the last time.
func (a *asked) take() string {
	a.mu.Lock()
	defer a.mu.Unlock()
	all := strings.Join(a.trips, " ")
	a.trips = nil
	return all
}

// TestRequests: what each step costs beside the session that a claim opens. Whatever is decided without a write is decided
// on what was read after a Sync: a server that lags would answer for the past.
func TestRequests(t *testing.T) {
	const read = "[sync get get exists]"
	w := newWorld(t)
	w.Finish(w.operator, w.Acquire(w.operator, newClaim("job"))) // makes the folder
	var a asked
	a.of(w.d)
	a.of(w.other)
	step := func(what, want string, f func()) {
		t.Helper()
		f()
		if diff := cmp.Diff(want, a.take()); diff != "" {
			t.Errorf("%s (-want +got):\n%s", what, diff)
		}
	}
	var g backends.Grant
	step("a claim", read+" [multi(set,create) get]", func() { g = w.Acquire(w.d, newClaim("job")) })
	step("a renewal", "[multi(set,check) get]", func() { w.Renew(w.d, g) })
	step("the next one", "[multi(set,check) get]", func() { w.Renew(w.d, g) })
	step("a host that is refused", read, func() { w.Refused(w.other, newClaim("job"), backends.Held) })
	step("the same claim again", read+" [multi(set,delete,create) get]", func() { g = w.Acquire(w.d, g.Claim) })
	step("the end of a run", read+" [multi(set,delete)]", func() { w.Finish(w.d, g) })
	step("a first claim", read+" [multi(create,set,create) get]", func() { w.Acquire(w.d, newClaim("new")) })
	step("a claim that is taken back", read+" [multi(set)]", func() {
		if err := w.other.Abandon(t.Context(), newClaim("job")); err != nil {
			t.Error(err)
		}
	})
}

// TestWatchRequests: a beat costs each standby one request.
func TestWatchRequests(t *testing.T) {
	w := newWorld(t)
	g := w.Acquire(w.d, newClaim("job"))
	var a asked
	a.of(w.other)
	ch, err := w.other.Watch(t.Context(), "job")
	if err != nil {
		t.Fatal(err)
	}
	w.News("it stands", ch, suite.Looks)
	if got, want := a.take(), "[sync] [getw] [getw]"; got != want {
		t.Errorf("a watch that is set: %s, want %s", got, want)
	}
	for range 3 {
		w.Renew(w.d, g)
		beat := stateOf(t, w.operator, "job").record.Beat
		w.News("a beat", ch, func(n backends.News) bool { return n.Seen.Beat == beat })
		if got := strings.ReplaceAll(a.take(), "[ping]", ""); strings.TrimSpace(got) != "[getw]" {
			t.Errorf("a beat: %s", got)
		}
	}
}
