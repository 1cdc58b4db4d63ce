package etcd

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/leaderrun/leaderrun/backends"
	"github.com/leaderrun/leaderrun/backends/etcd/rpc"
	"github.com/leaderrun/leaderrun/test/servers"
	"github.com/leaderrun/leaderrun/test/suite"
)

// tells waits for news that has what want has.
func (w *world) tells(what string, ch <-chan backends.News, want backends.News) {
	w.Helper()
	w.News(fmt.Sprintf("%s: want %+v", what, want), ch, func(n backends.News) bool {
		return (n.Look || !want.Look) && (n.Seen == want.Seen || want.Seen == backends.LastSeen{})
	})
}

func (w *world) silent(what string, ch <-chan backends.News) {
	w.Helper()
	select {
	case n := <-ch:
		w.Errorf("%s: %+v", what, n)
	case <-time.After(50 * time.Millisecond):
	}
}

func TestWatch(t *testing.T) {
	w := newWorld(t)
	ch, err := w.other.Watch(t.Context(), "job")
	if err != nil {
		t.Fatal(err)
	}
	look := backends.News{Look: true}
	seen := func(g backends.Grant) backends.News {
		return backends.News{Seen: backends.LastSeen{Token: g.Token, Beat: w.operator.state(t, "job").beaten}}
	}

	w.tells("the watch stands", ch, look)
	g := w.Acquire(w.d, newClaim("job"))
	w.tells("a grant", ch, seen(g))
	w.Finish(w.other, w.Acquire(w.other, newClaim("job2")))
	w.Finish(w.other, w.Acquire(w.other, newClaim("jo")))
	w.silent("other jobs", ch)
	w.Renew(w.d, g)
	w.tells("a renewal", ch, seen(g))
	w.operator.change(t, "job", suite.WithBreak(backends.BreakRequest{Token: g.Token - 1}))
	w.silent("a request to stop another run", ch)
	w.operator.change(t, "job", suite.WithBreak(backends.BreakRequest{Token: g.Token}))
	w.tells("a request to stop", ch, look)
	w.Finish(w.d, g)
	w.tells("the end", ch, look)

	g = w.Acquire(w.d, newClaim("job"))
	w.tells("the next grant", ch, seen(g))
	w.operator.deleteLease(t, "job")
	w.tells("the lease is deleted", ch, look)
	w.operator.deleteRecord(t, "job")
	w.tells("the record is deleted", ch, look)

	g = w.Acquire(w.d, newClaim("job"))
	w.tells("one more grant", ch, seen(g))
	w.operator.do(t, rpc.Op{Put: &rpc.Put{Key: w.d.store.cfg.keys("job").lease, Value: backends.Marshal(backends.LabelOf(g))}})
	w.tells("the lease is written by hand", ch, look)
	w.operator.do(t, rpc.Op{Put: &rpc.Put{Key: w.d.store.cfg.keys("job").record, Value: []byte("x")}})
	w.tells("the record is written by hand", ch, look)
	w.operator.do(t, rpc.Op{Put: &rpc.Put{Key: append(w.d.store.cfg.keys("job").record, 'x'), Value: []byte("x")}})
	w.silent("another program's key", ch)
}

// TestWatchGoesOn: after an interruption, what happened meanwhile is to be looked for.
func TestWatchGoesOn(t *testing.T) {
	w := newWorld(t)
	proxy := servers.NewProxy(t, w.server.Endpoint())
	d := open(t, "etcd://"+proxy.Addr())
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	ch, err := d.Watch(ctx, "job")
	if err != nil {
		t.Fatal(err)
	}
	w.tells("the watch stands", ch, backends.News{Look: true})
	for range 3 {
		proxy.Cut()
		w.tells("the connection was cut", ch, backends.News{Look: true})
	}
	w.server.Restart(t, true)
	w.tells("the server was restarted", ch, backends.News{Look: true})
	g := w.Acquire(w.d, newClaim("job"))
	w.tells("a grant", ch, backends.News{Seen: backends.LastSeen{Token: g.Token, Beat: w.operator.state(t, "job").beaten}})
	cancel()
	for range ch { // until it is closed
	}
}
