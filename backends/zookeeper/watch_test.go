package zookeeper

import (
	"testing"
	"time"

	"github.com/leaderrun/leaderrun/backends"
	"github.com/leaderrun/leaderrun/backends/zookeeper/wire"
	"github.com/leaderrun/leaderrun/internal/testserver"
)

// news waits for news that are as wanted.
func news(t *testing.T, ch <-chan backends.News, what string, want func(backends.News) bool) backends.News {
	t.Helper()
	limit := time.After(patience)
	for {
		select {
		case n, ok := <-ch:
			if !ok {
				t.Fatalf("%s: the watch has ended", what)
			}
			if want(n) {
				return n
			}
		case <-limit:
			t.Fatalf("%s: no news", what)
		}
	}
}

func looks(n backends.News) bool { return n.Look }

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
	news(t, ch, "it stands, before there is a node", looks)
	k := w.nodes("job")
	g := w.acquire(w.d, newClaim("job"))
	beat := func(what string) {
		t.Helper()
		w.renew(w.d, g)
		want := backends.Evidence{Token: g.Token, Beat: stateOf(t, w.operator, "job").record.Beat}
		news(t, ch, what, func(n backends.News) bool { return n.Seen == want })
	}
	beat("a beat")
	beat("another one")
	ask(t, w.operator, "job", backends.BreakRequest{Token: g.Token})
	news(t, ch, "a request to stop", looks)
	proxy.Cut()
	news(t, ch, "it stands again", looks)
	beat("a beat after that")
	operate(t, w.operator, wire.Delete(k.lease, -1))
	news(t, ch, "the lease is gone", looks)
	operate(t, w.operator, wire.Create(k.lease, []byte("x"), wire.World(), false))
	operate(t, w.operator, wire.SetData(k.lease, []byte("y"), -1))
	news(t, ch, "a lease that was written by hand", looks)
	operate(t, w.operator, wire.Delete(k.lease, -1))
	news(t, ch, "it is gone", looks)
	w.finish(w.d, g)
	news(t, ch, "the job is free", looks)
	operate(t, w.operator, wire.Delete(k.record, -1))
	news(t, ch, "the record is gone", looks)
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
	news(t, ch, "it stands", looks)
	select {
	case n := <-ch:
		t.Errorf("%+v about a job that nobody runs", n)
	case <-time.After(watchTimeout + watchTimeout/3):
	}
	w.acquire(w.d, newClaim("job"))
	news(t, ch, "a grant", func(n backends.News) bool { return n.Seen.Token != 0 })
}
