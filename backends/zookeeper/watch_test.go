package zookeeper

import (
	"testing"
	"time"

	"github.com/leaderrun/leaderrun/backends"
	"github.com/leaderrun/leaderrun/backends/zookeeper/wire"
	"github.com/leaderrun/leaderrun/test/servers"
	"github.com/leaderrun/leaderrun/test/suite"
)

// TestWatch: a watch tells each beat, and says to look when a lease is gone, was made by hand, or its holder is asked to
// stop. It outlives its connection.
func TestWatch(t *testing.T) {
	w := newWorld(t)
	proxy := servers.NewProxy(t, w.server.Addr())
	d := open(t, "zk://"+proxy.Addr())
	ch, err := d.Watch(t.Context(), "job")
	if err != nil {
		t.Fatal(err)
	}
	w.News("it stands, before there is a node", ch, suite.Looks)
	k := w.nodes("job")
	g := w.Acquire(w.d, newClaim("job"))
	beat := func(what string) {
		t.Helper()
		w.Renew(w.d, g)
		want := backends.LastSeen{Token: g.Token, Beat: stateOf(t, w.operator, "job").record.Beat}
		w.News(what, ch, func(n backends.News) bool { return n.Seen == want })
	}
	beat("a beat")
	beat("another one")
	edit(t, w.operator, "job", suite.WithBreak(backends.BreakRequest{Token: g.Token}))
	w.News("a request to stop", ch, suite.Looks)
	proxy.Cut()
	w.News("it stands again", ch, suite.Looks)
	beat("a beat after that")
	operate(t, w.operator, wire.Delete(k.lease, -1))
	w.News("the lease is gone", ch, suite.Looks)
	operate(t, w.operator, wire.Create(k.lease, []byte("x"), wire.World(), false))
	operate(t, w.operator, wire.SetData(k.lease, []byte("y"), -1))
	w.News("a lease that was written by hand", ch, suite.Looks)
	operate(t, w.operator, wire.Delete(k.lease, -1))
	w.News("it is gone", ch, suite.Looks)
	w.Finish(w.d, g)
	w.News("the job is free", ch, suite.Looks)
	operate(t, w.operator, wire.Delete(k.record, -1))
	w.News("the record is gone", ch, suite.Looks)
	if err := d.Close(); err != nil {
		t.Fatal(err)
	}
	for range ch { // it ends
	}
}

// TestWatchTakesWhatItGets: servers whose sessions are shorter than a watch asks for have room for leases, and a holder
// there must hear that it is to stop.
func TestWatchTakesWhatItGets(t *testing.T) {
	t.Parallel()
	const most = watchTimeout - time.Second
	s := servers.ZooKeeper(t, servers.ZooKeeperOptions{MaxSessionTimeout: most})
	w, d := suite.On(t), open(t, s.URL())
	ch, err := d.Watch(t.Context(), "job")
	if err != nil {
		t.Fatal(err)
	}
	w.News("it stands", ch, suite.Looks)
	c := newClaim("job")
	c.TTL = most
	g := w.Acquire(d, c)
	w.News("a grant", ch, func(n backends.News) bool { return n.Seen.Token == g.Token })
	edit(t, d, "job", suite.WithBreak(backends.BreakRequest{Token: g.Token}))
	w.News("a request to stop", ch, suite.Looks)
}

// TestWatchBreaksHalfWay: the connection breaks when the lease is watched and the record is not yet. What stands then must
// not be taken for a whole watch: nobody would tell that the lease is gone.
func TestWatchBreaksHalfWay(t *testing.T) {
	w := newWorld(t)
	w.Acquire(w.other, newClaim("job"))
	asked := 0
	w.d.store.between = func(_ []*wire.Call, send func() error) error {
		if asked++; asked == 3 { // after a sync and the lease
			for _, s := range w.d.store.all() {
				cut(s)
			}
		}
		return send()
	}
	ch, err := w.d.Watch(t.Context(), "job")
	if err != nil {
		t.Fatal(err)
	}
	w.News("it seems to stand", ch, suite.Looks)
	operate(t, w.operator, wire.Delete(w.nodes("job").lease, -1))
	w.News("the lease is gone", ch, suite.Looks)
}
