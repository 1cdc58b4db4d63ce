package zookeeper

import (
	"testing"
	"time"

	"github.com/leaderrun/leaderrun/backends"
	"github.com/leaderrun/leaderrun/backends/backendtest"
	"github.com/leaderrun/leaderrun/backends/zookeeper/wire"
	"github.com/leaderrun/leaderrun/internal/testserver"
)

// TestWatch: a watch tells each beat, and says to look when a lease is gone, was made by hand, or its holder is asked to
// stop. It outlives its connection.
func TestWatch(t *testing.T) {
	w := newWorld(t)
	proxy := testserver.NewProxy(t, w.server.Addr())
	d := open(t, "zk://"+proxy.Addr())
	ch, err := d.Watch(t.Context(), "job")
	if err != nil {
		t.Fatal(err)
	}
	w.News("it stands, before there is a node", ch, backendtest.Looks)
	k := w.nodes("job")
	g := w.Acquire(w.d, newClaim("job"))
	beat := func(what string) {
		t.Helper()
		w.Renew(w.d, g)
		want := backends.Evidence{Token: g.Token, Beat: stateOf(t, w.operator, "job").record.Beat}
		w.News(what, ch, func(n backends.News) bool { return n.Seen == want })
	}
	beat("a beat")
	beat("another one")
	ask(t, w.operator, "job", backends.BreakRequest{Token: g.Token})
	w.News("a request to stop", ch, backendtest.Looks)
	proxy.Cut()
	w.News("it stands again", ch, backendtest.Looks)
	beat("a beat after that")
	operate(t, w.operator, wire.Delete(k.lease, -1))
	w.News("the lease is gone", ch, backendtest.Looks)
	operate(t, w.operator, wire.Create(k.lease, []byte("x"), wire.World(), false))
	operate(t, w.operator, wire.SetData(k.lease, []byte("y"), -1))
	w.News("a lease that was written by hand", ch, backendtest.Looks)
	operate(t, w.operator, wire.Delete(k.lease, -1))
	w.News("it is gone", ch, backendtest.Looks)
	w.Finish(w.d, g)
	w.News("the job is free", ch, backendtest.Looks)
	operate(t, w.operator, wire.Delete(k.record, -1))
	w.News("the record is gone", ch, backendtest.Looks)
	if err := d.Close(); err != nil {
		t.Fatal(err)
	}
	for range ch { // it ends
	}
}

// TestWatchHoldsItsSession: a watch is pinged: it lives for longer than its session would without.
func TestWatchHoldsItsSession(t *testing.T) {
	w := newWorld(t)
	ch, err := w.other.Watch(t.Context(), "job")
	if err != nil {
		t.Fatal(err)
	}
	w.News("it stands", ch, backendtest.Looks)
	select {
	case n := <-ch:
		t.Errorf("%+v about a job that nobody runs", n)
	case <-time.After(watchTimeout + watchTimeout/3):
	}
	w.Acquire(w.d, newClaim("job"))
	w.News("a grant", ch, func(n backends.News) bool { return n.Seen.Token != 0 })
}
