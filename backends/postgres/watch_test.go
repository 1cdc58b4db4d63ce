package postgres

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/leaderrun/leaderrun/backends"
	"github.com/leaderrun/leaderrun/backends/postgres/wire"
	"github.com/leaderrun/leaderrun/test/servers"
	"github.com/leaderrun/leaderrun/test/suite"
)

// permanent returns the *backends.PermanentError in an error, or one that is empty.
func permanent(err error) backends.PermanentError {
	if p, ok := errors.AsType[*backends.PermanentError](err); ok {
		return *p
	}
	return backends.PermanentError{}
}

// tells waits for news.
func tells(t *testing.T, what string, ch <-chan backends.News) {
	t.Helper()
	select {
	case n, open := <-ch:
		if !open || !n.Look {
			t.Fatalf("%s: %+v, open %v", what, n, open)
		}
	case <-time.After(suite.Patience):
		t.Fatalf("%s: nothing is told", what)
	}
}

// TestWatch: what somebody waits for is told by the server, and a renewal is not.
func TestWatch(t *testing.T) {
	w := newOwnWorld(t)
	ch, err := w.other.Watch(t.Context(), "job")
	if err != nil {
		t.Fatal(err)
	}
	tells(t, "the watch stands", ch)
	if n := w.server.Do(t, "SELECT count(*) FROM pg_stat_activity WHERE application_name = 'leaderrun watch'"); n != "1" {
		t.Errorf("%s connections are shown as those of a watch", n)
	}
	g := w.Acquire(w.d, newSteady("job"))
	another := w.Acquire(w.d, newSteady("another"))
	for _, o := range []backends.Order{
		{Job: "another", Kind: backends.Stop, By: newClaim("").Holder, Token: another.Token},
		{Job: "job", Kind: backends.Stop, By: newClaim("").Holder, Token: g.Token},
	} {
		w.Renew(w.d, g)
		select {
		case n := <-ch:
			t.Errorf("%+v without a reason", n) // also at the next look
		default:
		}
		w.Order(w.other, o)
	}
	tells(t, "a request to stop", ch)
	if s := w.Renew(w.d, g); s.Break == nil {
		t.Error("a renewal does not carry the request")
	}
	w.FinishAs(w.d, g, backends.Outcome{State: backends.Stopped})
	tells(t, "the end", ch)
	w.server.Restart(t, true)
	tells(t, "the watch stands again", ch)
}

// TestTold: what wakes a waiter is a notification, and not that it looks now and then. Behind a pooler nobody listens.
func TestTold(t *testing.T) {
	w := newWorld(t)
	listen := func(d *driver) (*wire.Conn, bool) {
		t.Helper()
		conn, err := d.store.client.Dedicated(t.Context(), "watch")
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { d.store.client.Drop(conn) })
		listens, err := d.store.listen(t.Context(), conn)
		if err != nil {
			t.Fatal(err)
		}
		return conn, listens
	}
	conn, listens := listen(w.other)
	if !listens {
		t.Fatal("does not listen")
	}
	g := w.Acquire(w.d, newSteady("job"))
	w.Renew(w.d, g)
	w.Finish(w.d, g)
	ctx, cancel := context.WithTimeout(t.Context(), suite.Patience)
	defer cancel()
	if key, heard, err := conn.Wait(ctx, suite.Patience); key != keyOf("job") || !heard || err != nil {
		t.Errorf("an end: %q, %v, %v", key, heard, err)
	}
	pooler := servers.PgBouncer(t, w.server)
	if _, listens := listen(open(t, pooler.URL())); listens {
		t.Error("listens behind a pooler")
	}
}

func TestWakes(t *testing.T) {
	t.Parallel()
	now := time.Now()
	held := func(left time.Duration, version int64) *state {
		s := &state{row: true, version: version, holder: "a", token: 1, server: server{now: now}}
		s.record.Token, s.record.Until = 1, now.Add(left).UnixMilli()
		return s
	}
	released := held(time.Minute, 2)
	released.holder, released.record.Released = "", 1
	stop := held(time.Minute, 2)
	stop.record.Break = &backends.BreakRequest{Token: 1}
	earlier := held(time.Minute, 2)
	earlier.record.Break = &backends.BreakRequest{}
	vanished := held(time.Minute, 2)
	vanished.holder = ""
	for name, x := range map[string]struct {
		s    *state
		want bool
	}{
		"nothing":              {held(time.Minute, 1), false},
		"a renewal":            {held(2*time.Minute, 2), false},
		"a release":            {released, true},
		"a request":            {stop, true},
		"an old request":       {earlier, false},
		"a lease that is gone": {vanished, true},
		"a lease that ran out": {held(-time.Minute, 1), true},
		"a row that is gone":   {&state{}, true},
	} {
		if got := x.s.wakes(held(time.Minute, 1)); got != x.want {
			t.Errorf("%s: %v", name, got)
		}
	}
}
