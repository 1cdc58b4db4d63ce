// Package virtual is what tests in virtual time (testing/synctest) have in common: a clock and a command for the runner, and a host's
// connection to the store, which can be cut.
package virtual

import (
	"context"
	"errors"
	"os"
	"sync"
	"syscall"
	"time"

	"github.com/leaderrun/leaderrun/backends"
	"github.com/leaderrun/leaderrun/internal/lifeline"
	"github.com/leaderrun/leaderrun/runner"
)

// Connection is a host's connection to a store.
type Connection struct {
	*backends.Engine
	// Reach is asked before each request, which does not arrive if it returns an error.
	Reach func(ctx context.Context, request, job string) error
	// Answer says what becomes of the answer to a claim that arrived; nil: that arrives, too.
	Answer func(c backends.Claim, g backends.Grant, err error) error
}

// Acquire implements backends.Driver.
func (s *Connection) Acquire(ctx context.Context, c backends.Claim) (backends.Grant, error) {
	if err := s.Reach(ctx, "acquire", c.Job); err != nil {
		return backends.Grant{}, err
	}
	g, err := s.Engine.Acquire(ctx, c)
	if answer := s.Answer; answer != nil {
		if lost := answer(c, g, err); lost != nil {
			return backends.Grant{}, lost
		}
	}
	return g, err
}

// Renew implements backends.Driver.
func (s *Connection) Renew(ctx context.Context, g backends.Grant) (backends.RenewAnswer, error) {
	if err := s.Reach(ctx, "renew", g.Claim.Job); err != nil {
		return backends.RenewAnswer{}, err
	}
	return s.Engine.Renew(ctx, g)
}

// Finish implements backends.Driver.
func (s *Connection) Finish(ctx context.Context, g backends.Grant, o backends.Outcome) error {
	if err := s.Reach(ctx, "finish", g.Claim.Job); err != nil {
		return err
	}
	return s.Engine.Finish(ctx, g, o)
}

// Abandon implements backends.Driver.
func (s *Connection) Abandon(ctx context.Context, c backends.Claim) error {
	if err := s.Reach(ctx, "abandon", c.Job); err != nil {
		return err
	}
	return s.Engine.Abandon(ctx, c)
}

// Order implements backends.Backend.
func (s *Connection) Order(ctx context.Context, o backends.Order) error {
	if err := s.Reach(ctx, "order", o.Job); err != nil {
		return err
	}
	return s.Engine.Order(ctx, o)
}

// Inspect is what an operator sees.
func (s *Connection) Inspect(ctx context.Context, job string) (backends.Status, error) {
	if err := s.Reach(ctx, "inspect", job); err != nil {
		return backends.Status{}, err
	}
	return s.Engine.Inspect(ctx, job)
}

// Look implements backends.Backend.
func (s *Connection) Look(ctx context.Context, job string) (backends.Status, error) {
	if err := s.Reach(ctx, "look", job); err != nil {
		return backends.Status{}, err
	}
	return s.Engine.Look(ctx, job)
}

// Tree is a command.
type Tree struct {
	Begin func(env []string) error // is called when it starts; it may start the clock of its end
	Over  func(lifeline.Status)    // is called when it ends
	Told  func(syscall.Signal)     // what a signal does; nil: it ends at once

	mu      sync.Mutex
	running bool
	events  chan lifeline.Event
}

// NewTree returns a command that has not started.
func NewTree() *Tree { return &Tree{events: make(chan lifeline.Event, 2)} }

// Start implements runner.Tree.
func (t *Tree) Start(env []string, _, _ []*os.File, _ runner.Deadline) error {
	t.set(true) // it may end at once
	err := t.Begin(env)
	if err != nil {
		t.set(false)
	}
	return err
}

func (t *Tree) set(running bool) (was bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	was, t.running = t.running, running
	return was
}

// Running says whether it has started and not ended.
func (t *Tree) Running() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.running
}

// End ends it, if it runs.
func (t *Tree) End(s lifeline.Status) {
	if !t.set(false) {
		return
	}
	t.Over(s)
	t.events <- lifeline.Event{Kind: lifeline.Exited, Status: s}
	t.events <- lifeline.Event{Kind: lifeline.Dead, Status: s}
	close(t.events)
}

// Signal implements runner.Tree.
func (t *Tree) Signal(sig syscall.Signal) {
	if t.Told != nil {
		t.Told(sig)
		return
	}
	t.End(lifeline.Status{Known: true, Signal: sig})
}

// Kill implements runner.Tree.
func (t *Tree) Kill(bool) { t.End(lifeline.Status{Known: true, Signal: syscall.SIGKILL}) }

// Terminate implements runner.Tree.
func (t *Tree) Terminate() { t.Signal(syscall.SIGTERM) }

// Events implements runner.Tree.
func (t *Tree) Events() <-chan lifeline.Event { return t.events }

// Extend implements runner.Tree.
func (t *Tree) Extend(runner.Deadline) {}

// Close implements runner.Tree.
func (t *Tree) Close() {}

// Late is a command that cannot be started in time.
type Late struct {
	*Tree
	Clock Clock
}

// Start implements runner.Tree.
func (t Late) Start(_ []string, _, _ []*os.File, d runner.Deadline) error {
	time.Sleep(d.Term.Sub(t.Clock.Now()))
	return errors.New("too late")
}

// Clock is a runner.Clock.
type Clock struct {
	Began time.Time
}

// Now implements runner.Clock.
func (c Clock) Now() runner.Instant { return runner.Instant(time.Hour + time.Since(c.Began)) }

// NewTimer implements runner.Clock.
func (c Clock) NewTimer() (runner.Timer, error) {
	t := &timer{clock: c, c: make(chan struct{}, 1)}
	t.Timer = time.AfterFunc(farAway, func() {
		select {
		case t.c <- struct{}{}:
		default:
		}
	})
	return t, nil
}

const farAway = 10_000 * time.Hour

type timer struct {
	*time.Timer
	clock Clock
	c     chan struct{}
}

func (t *timer) C() <-chan struct{}    { return t.c }
func (t *timer) Stop()                 { t.Timer.Stop() }
func (t *timer) Set(at runner.Instant) { t.Reset(max(min(at.Sub(t.clock.Now()), farAway), 0)) }
