package consul

import (
	"context"
	"net/http"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/leaderrun/leaderrun/backends"
	"github.com/leaderrun/leaderrun/test/servers"
	"github.com/leaderrun/leaderrun/test/suite"
)

// told waits for news that fits, for less time than a question takes that ends by itself.
func told(t *testing.T, what string, ch <-chan backends.News, fits func(n backends.News) bool) {
	t.Helper()
	suite.On(t).NewsWithin(watchWait/2, what, ch, fits)
}

func watch(t testing.TB, d *driver, job string) <-chan backends.News {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	t.Cleanup(cancel)
	ch, err := d.Watch(ctx, job)
	if err != nil {
		t.Fatal(err)
	}
	return ch
}

func TestWatch(t *testing.T) {
	t.Parallel()
	steps := suite.On(t)
	s := server(t)
	o, m := operate(t, s.URL()), between(t, s)
	d, other := open(t, m.url()), open(t, s.URL())
	g := steps.Acquire(other, claim("job", "a", time.Minute))
	ch := watch(t, d, "job")
	told(t, "the watch stands", ch, func(n backends.News) bool { return n.Look && n.Seen.Token == g.Token && n.Seen.Beat == 1 })

	steps.Renew(other, g)
	n := <-ch
	if want := (backends.News{Seen: backends.LastSeen{Token: g.Token, Beat: 2}}); n != want {
		t.Errorf("a beat is told as %+v, want %+v", n, want)
	}
	m.requests()
	for i := range 5 {
		steps.Finish(other, steps.Acquire(other, claim("another job", strconv.Itoa(i), time.Minute)))
	}
	steps.Renew(other, g)
	told(t, "another beat", ch, func(n backends.News) bool { return n.Seen.Beat == 3 })
	if got := m.requests(); strings.Count(got, "kv") > 2 { // one after each beat
		t.Errorf("other jobs made a waiter ask %s", got)
	}

	o.change(t, "job", suite.WithBreak(backends.BreakRequest{Token: g.Token, Reason: "r"}))
	told(t, "a break request", ch, suite.Looks)
	servers.Eventually(t, "told after the connection broke", func() bool {
		m.CloseClientConnections() // it may have been between two questions
		select {
		case n := <-ch:
			return n.Look
		case <-time.After(watchRest):
			return false
		}
	})
	steps.Finish(other, g)
	told(t, "released", ch, suite.Looks)
	takes := func(holder string) backends.Grant {
		next := steps.Acquire(other, claim("job", holder, time.Minute))
		told(t, "somebody else has it", ch, func(n backends.News) bool { return n.Look && n.Seen.Token == next.Token })
		return next
	}
	next := takes("b")
	o.remove(t, "job", lockName)
	told(t, "the lock is deleted", ch, suite.Looks)
	steps.Lost(other, next)
	steps.Finish(other, next)
	next = takes("c")
	o.destroySession(t, o.session(t, "job")) // at last: nobody is granted before the lock-delay is over
	told(t, "the session is gone", ch, suite.Looks)
	steps.Lost(other, next)

	if err := d.Close(); err != nil {
		t.Error(err)
	}
	for range ch { // until it is closed
	}
}

// TestWatchIndex: an index that went backwards is not waited for.
func TestWatchIndex(t *testing.T) {
	t.Parallel()
	steps := suite.On(t)
	s := server(t)
	m := between(t, s)
	m.hasty = true
	d, other := open(t, m.url()), open(t, s.URL())
	g := steps.Acquire(other, claim("job", "a", time.Minute))
	const future = "1099511627776"
	var inflated, after atomic.Int64
	m.strike(func(r *http.Response) bool {
		switch index := r.Request.URL.Query().Get("index"); {
		case inflated.Load() == 0:
			inflated.Add(1)
			r.Header.Set("X-Consul-Index", future)
		case index != "" && index != future:
			after.Add(1)
		}
		return true
	})
	ch := watch(t, d, "job")
	told(t, "the watch stands", ch, suite.Looks)
	servers.Eventually(t, "it waits for an index of this store", func() bool { return after.Load() > 0 })
	steps.Finish(other, g)
	told(t, "released", ch, suite.Looks)
}
