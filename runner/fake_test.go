package runner

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/leaderrun/leaderrun/backends"
	"github.com/leaderrun/leaderrun/internal/lifeline"
	"github.com/leaderrun/leaderrun/test/suite"
)

// The tests of this package run in virtual time: the times they assert are exact.

// fakeClock is the virtual clock, with suspends: time that passes while no timer of Go's runs.
type fakeClock struct {
	mu     sync.Mutex
	began  time.Time
	slept  time.Duration
	timers []*fakeTimer
}

func newClock() *fakeClock { return &fakeClock{began: time.Now()} }

func (c *fakeClock) Now() Instant {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.now()
}

func (c *fakeClock) now() Instant { return boot.Add(time.Since(c.began) + c.slept) }

// boot is the instant at which a test begins: no machine is at zero.
const boot = Instant(time.Hour)

// suspend lets d pass at once, as a machine that wakes up sees it.
func (c *fakeClock) suspend(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.slept += d
	for _, t := range c.timers {
		t.t.Reset(max(t.at.Sub(c.now()), 0))
	}
}

func (c *fakeClock) NewTimer() (Timer, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	t := &fakeTimer{clock: c, c: make(chan struct{}, 1), at: never}
	t.t = time.AfterFunc(time.Hour*10000, func() {
		select {
		case t.c <- struct{}{}:
		default:
		}
	})
	c.timers = append(c.timers, t)
	return t, nil
}

type fakeTimer struct {
	clock *fakeClock
	t     *time.Timer
	c     chan struct{}
	at    Instant
}

func (t *fakeTimer) C() <-chan struct{} { return t.c }
func (t *fakeTimer) Stop()              { t.t.Stop() }
func (t *fakeTimer) Set(at Instant) {
	t.clock.mu.Lock()
	defer t.clock.mu.Unlock()
	t.at = at
	t.t.Reset(max(min(at.Sub(t.clock.now()), 10000*time.Hour), 0))
}

// bed is one store, one tree and one runner in virtual time.
type bed struct {
	t     *testing.T
	clock *fakeClock
	over  time.Duration // when Run returned

	mu  sync.Mutex
	log []string // "5s renew", "11s TERM", …

	// The store.
	lease     string    // holder, "" when free
	expires   time.Time // of the lease
	finished  []backends.Outcome
	abandoned int
	claims    []backends.Claim
	asked     *backends.BreakRequest                                // renewals carry it
	acquire   func(n int, c backends.Claim) (backends.Grant, error) // nil: grants
	renewal   func(n int) answer                                    // nil: answers at once
	finish    func(n int) answer
	counts    map[string]int
	ttl       time.Duration      // granted; 0: as asked
	news      chan backends.News // a watch, if not nil
	watches   bool               // also to the holder

	store  *suite.Mem      // decides and remembers, if not nil, what is granted and what is not
	driver backends.Driver // nil: the bed itself

	// The tree.
	trees     []*bedTree
	events    chan lifeline.Event // of the tree that was made last
	runs      bool                // a process is alive
	duration  time.Duration       // the command ends by itself after that; 0: it does not
	code      int
	each      func(try int) // sets the fields below for each start, if not nil
	ignores   bool          // SIGTERM
	immortal  bool          // survives SIGKILL, until die is called
	lingers   time.Duration // how long what the command leaves behind outlives it
	traps     bool          // the command ends well when it is told to
	lingering bool          // it does
	unguarded bool          // the guardian is lost while it does
	startErr  error
	signals   chan os.Signal
	request   Request
	ctx       context.Context
	told      []Event
	on        func(event string) // called with each event, if not nil
}

// answer says what becomes of a request: it reaches the store after one delay, and the reply arrives after
// another. A dropped request never does.
type answer struct {
	there, back time.Duration
	dropRequest bool
	deaf        bool // the reply arrives although nobody waits for it any more
	err         error
}

func newBed(t *testing.T) *bed {
	t.Helper()
	plan, err := NewTimeline(DefaultTTL, -1)
	if err != nil {
		t.Fatal(err)
	}
	b := &bed{
		t: t, clock: newClock(), counts: map[string]int{}, ctx: t.Context(),
		events: make(chan lifeline.Event, 16), signals: make(chan os.Signal, 8),
	}
	b.request = Request{Job: "job", Timeline: plan, BackendWait: 5 * time.Second, Signals: b.signals}
	b.request.Tree = b.newTree
	return b
}

// virtual runs a test in virtual time.
func virtual(t *testing.T, test func(t *testing.T, b *bed)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) { test(t, newBed(t)) })
}

// virtualRun runs one of several tests in virtual time.
func virtualRun(t *testing.T, name string, test func(t *testing.T, b *bed)) {
	t.Helper()
	t.Run(name, func(t *testing.T) { virtual(t, test) })
}

func (b *bed) run() Result {
	b.t.Helper()
	r := Runner{Driver: b, Clock: b.clock, Observe: b.observe, jitter: func(time.Duration) time.Duration { return 0 }}
	if b.driver != nil {
		r.Driver = b.driver
	}
	endless := time.AfterFunc(3*time.Hour, func() { panic("the run of " + b.t.Name() + " does not end") })
	result := r.Run(b.ctx, b.request)
	endless.Stop()
	b.over = b.now()
	time.Sleep(time.Hour) // requests still on their way arrive
	b.mu.Lock()
	if b.runs && result.Ending != Unconfirmed {
		b.t.Error("Run returned while a process is alive")
	}
	for i, tree := range b.trees {
		if tree.closed == (result.Ending == Unconfirmed) {
			b.t.Errorf("the guardian of start %d was sent away: %t", i+1, tree.closed)
		}
	}
	b.mu.Unlock()
	return result
}

// comesTo runs, and compares how that ends.
func (b *bed) comesTo(want Ending) Result {
	b.t.Helper()
	result := b.run()
	wantEnding(b.t, result, want)
	return result
}

// ends runs, and compares how that ends and what has happened until then.
func (b *bed) ends(want Ending, log ...string) Result {
	b.t.Helper()
	result := b.comesTo(want)
	b.expect(log...)
	return result
}

func (b *bed) observe(e Event) {
	b.told = append(b.told, e)
	if b.on != nil {
		b.on(e.Name)
	}
}

// toldAs returns what was told under a name.
func (b *bed) toldAs(name string) []Event {
	return slices.DeleteFunc(slices.Clone(b.told), func(e Event) bool { return e.Name != name })
}

// now is the time since the test began, suspends included, and the server's clock.
func (b *bed) now() time.Duration { return b.clock.Now().Sub(boot) }

func (b *bed) note(format string, args ...any) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.log = append(b.log, fmt.Sprintf("%v ", b.now())+fmt.Sprintf(format, args...))
}

// expect compares what happened, and when.
func (b *bed) expect(want ...string) {
	b.t.Helper()
	b.mu.Lock()
	defer b.mu.Unlock()
	if len(want) != len(b.log) {
		b.t.Fatalf("got  %q\nwant %q", b.log, want)
	}
	for i := range want {
		if b.log[i] != want[i] {
			b.t.Fatalf("entry %d: got %q, want %q\nall: %q", i, b.log[i], want[i], b.log)
		}
	}
}

func (b *bed) count(what string) int {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.counts[what]++
	return b.counts[what]
}

// deliver carries one request to the store and its reply back.
func deliver(ctx context.Context, a answer, apply func() error) error {
	if a.dropRequest {
		<-ctx.Done()
		return ctx.Err()
	}
	time.Sleep(a.there) // the request is on its way, whatever becomes of its sender
	err := apply()
	if a.deaf {
		return err
	}
	select {
	case <-time.After(a.back):
	case <-ctx.Done():
		return ctx.Err()
	}
	if a.err != nil {
		return a.err
	}
	return err
}

func (b *bed) Acquire(ctx context.Context, c backends.Claim) (backends.Grant, error) {
	n := b.count("claim")
	b.note("claim")
	b.claims = append(b.claims, c)
	if b.acquire != nil {
		g, err := b.acquire(n, c)
		if err != nil {
			return g, err
		}
	}
	if b.store != nil {
		return b.store.Acquire(ctx, c)
	}
	ttl := c.TTL
	if b.ttl != 0 {
		ttl = b.ttl
	}
	b.mu.Lock()
	b.lease, b.expires = c.Holder.ID, time.Now().Add(ttl)
	b.mu.Unlock()
	return backends.Grant{Claim: c, Token: 7, TTL: ttl, Tick: c.Tick, Attempt: 1}, ctx.Err()
}

func (b *bed) Renew(ctx context.Context, g backends.Grant) (s backends.RenewAnswer, err error) {
	n := b.count("renew")
	b.note("renew")
	a := answer{}
	if b.renewal != nil {
		a = b.renewal(n)
	}
	err = deliver(ctx, a, func() error {
		if b.store != nil {
			s, err = b.store.Renew(ctx, g)
			return err
		}
		b.mu.Lock()
		defer b.mu.Unlock()
		if b.lease != g.Claim.Holder.ID {
			return backends.ErrLost
		}
		b.expires = time.Now().Add(g.TTL)
		return nil
	})
	if b.store == nil {
		s.Break = b.asked
	}
	return s, err
}

func (b *bed) Finish(ctx context.Context, g backends.Grant, o backends.Outcome) error {
	n := b.count("finish")
	b.note("finish %s %d", o.State, o.Exit)
	b.mu.Lock()
	alive := b.runs
	b.mu.Unlock()
	if alive {
		b.t.Error("the lease is released while a process is alive")
	}
	a := answer{}
	if b.finish != nil {
		a = b.finish(n)
	}
	return deliver(ctx, a, func() error {
		if b.store != nil {
			return b.store.Finish(ctx, g, o)
		}
		b.mu.Lock()
		defer b.mu.Unlock()
		if b.lease != g.Claim.Holder.ID {
			return backends.ErrLost
		}
		b.finished = append(b.finished, o)
		b.lease = ""
		return nil
	})
}

func (b *bed) Abandon(ctx context.Context, c backends.Claim) error {
	b.note("abandon")
	b.abandoned++
	if b.store != nil {
		return b.store.Abandon(ctx, c)
	}
	return nil
}

func (b *bed) Watch(ctx context.Context, _ string) (<-chan backends.News, error) {
	if b.news == nil {
		return nil, errors.New("no watch")
	}
	out := make(chan backends.News, 1)
	go func() {
		defer close(out)
		for {
			select {
			case n := <-b.news:
				backends.Tell(out, n)
			case <-ctx.Done():
				return
			}
		}
	}()
	return out, nil
}

func (b *bed) Limits() backends.Limits { return backends.Limits{HolderWatches: b.watches} }
func (b *bed) Close() error            { return nil }
