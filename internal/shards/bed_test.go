package shards

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strconv"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/leaderrun/leaderrun/backends"
	"github.com/leaderrun/leaderrun/internal/lifeline"
	"github.com/leaderrun/leaderrun/internal/slots"
	"github.com/leaderrun/leaderrun/runner"
	"github.com/leaderrun/leaderrun/test/suite"
)

// The tests of this package run in virtual time.

const ttl = 6 * time.Second

// bed is a store, and hosts that run commands for the shards of one job.
type bed struct {
	t     *testing.T
	store *suite.Mem
	began time.Time

	mu     sync.Mutex
	runs   map[string]string // the host that runs a shard, by the shard's name
	tokens map[string]int64  // the last one of a shard
	parts  map[string]string // into how many shards a tick or key is divided
	starts map[string]int    // how often a shard was started for a tick or key
	done   map[string]int    // the same: how often its command ended well
	ran    []string          // "host shard", in order
	fails  map[string]int    // the codes with which the commands of shards end; 0: well
	all    []*host
}

// stop ends all hosts.
func (b *bed) stop() {
	for _, h := range b.all {
		h.end()
	}
}

func newBed(t *testing.T) *bed {
	t.Helper()
	return &bed{
		t: t, store: suite.NewMem(nil), began: time.Now(), runs: map[string]string{}, tokens: map[string]int64{},
		parts: map[string]string{}, starts: map[string]int{}, done: map[string]int{},
	}
}

// host is one host with its connection to the store.
type host struct {
	*bed
	*backends.Engine
	name string

	mu     sync.Mutex
	dead   bool
	cut    bool                                                      // the store does not answer
	answer func(c backends.Claim, g backends.Grant, err error) error // what becomes of the answer to a claim; nil: it arrives
	claims []string                                                  // the shards that were claimed
	trees  []*tree
	warned string

	looks  atomic.Int64
	alive  context.Context //nolint:containedctx // ends with the host
	end    context.CancelFunc
	wanted context.Context //nolint:containedctx // ends when it is to start nothing more
	giveUp context.CancelFunc
}

func (b *bed) host(name string) *host {
	h := &host{bed: b, Engine: b.store.Client(), name: name}
	h.alive, h.end = context.WithCancel(context.Background())
	h.wanted, h.giveUp = context.WithCancel(h.alive)
	b.mu.Lock()
	defer b.mu.Unlock()
	b.all = append(b.all, h)
	return h
}

var errCut = errors.New("the network is cut")

func (h *host) reach(ctx context.Context) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.cut || h.dead {
		return errCut
	}
	return ctx.Err()
}

func (h *host) Acquire(ctx context.Context, c backends.Claim) (backends.Grant, error) {
	h.mu.Lock()
	h.claims = append(h.claims, c.Job)
	answer := h.answer
	h.mu.Unlock()
	if err := h.reach(ctx); err != nil {
		return backends.Grant{}, err
	}
	g, err := h.Engine.Acquire(ctx, c)
	if answer != nil {
		if lost := answer(c, g, err); lost != nil {
			return backends.Grant{}, lost
		}
	}
	return g, err
}

func (h *host) Renew(ctx context.Context, g backends.Grant) (backends.RenewAnswer, error) {
	if err := h.reach(ctx); err != nil {
		return backends.RenewAnswer{}, err
	}
	return h.Engine.Renew(ctx, g)
}

func (h *host) Finish(ctx context.Context, g backends.Grant, o backends.Outcome) error {
	if err := h.reach(ctx); err != nil {
		return err
	}
	return h.Engine.Finish(ctx, g, o)
}

func (h *host) Abandon(ctx context.Context, c backends.Claim) error {
	if err := h.reach(ctx); err != nil {
		return err
	}
	return h.Engine.Abandon(ctx, c)
}

func (h *host) Inspect(ctx context.Context, job string) (backends.Status, error) {
	h.looks.Add(1)
	if err := h.reach(ctx); err != nil {
		return backends.Status{}, err
	}
	return h.Engine.Inspect(ctx, job)
}

// die ends all that runs on the host at once. Nobody is told.
func (h *host) die() {
	h.mu.Lock()
	h.dead = true
	trees := h.trees
	h.mu.Unlock()
	h.end()
	for _, t := range trees {
		t.end(lifeline.Status{Known: true, Signal: syscall.SIGKILL})
	}
}

// set changes what the host can reach.
func (h *host) set(cut bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.cut = cut
}

// tick is the n-th tick of every test. The first one is due when it begins.
func (b *bed) tick(n int) int64 { return b.began.Unix() + int64(n)*60 }

// work works through a tick that is divided into n shards. Each command takes so long.
func (h *host) work(n int, takes time.Duration, with func(*Tick, *runner.Request)) Outcome {
	timeline, err := runner.NewTimeline(ttl, -1)
	if err != nil {
		h.t.Error(err)
	}
	request := runner.Request{
		Host: backends.Holder{Host: h.name, PID: 1}, Timeline: timeline, BackendWait: 5 * time.Second,
		Env: func(g backends.Grant) []string {
			return []string{g.Claim.Job, strconv.FormatInt(g.Token, 10), fmt.Sprint(g.Tick, g.Claim.Once), fmt.Sprint(g.Claim.Parts)}
		},
	}
	leases := Remember(h)
	t := &Tick{
		Store: leases, Job: "job", Parallel: 1, TTL: ttl, BackendWait: 5 * time.Second, Wanted: h.wanted,
		Trigger: backends.Trigger{Tick: h.tick(0), OnLost: backends.Skip, MaxAttempts: 3, Parts: n},
		Warn:    func(_, text, _ string) { h.mu.Lock(); h.warned = text; h.mu.Unlock() },
	}
	if with != nil {
		with(t, &request)
	}
	t.Run = func(ctx context.Context, s Shard) runner.Result {
		one := request
		one.Job, one.Trigger, one.Wanted = slots.Name("job", s.Number), s.Trigger, s.Wanted
		one.Tree = func() runner.Tree { return h.plant(takes) }
		return (&runner.Runner{Driver: leases, Clock: clock{h.began}, Observe: func(e runner.Event) {
			if s.Observe != nil {
				s.Observe(e)
			}
		}}).Run(ctx, one)
	}
	alive, cancel := context.WithTimeout(h.alive, 2*time.Hour) // what goes on for longer never ends
	defer cancel()
	return t.Work(alive)
}

// rerun runs what a dead host left again, and waits until all is over.
func rerun(t *Tick, _ *runner.Request) { t.Trigger.OnLost, t.Wait = backends.Rerun, runner.Forever }

// tree is a command that ends by itself after a while, and at once when it is told to.
type tree struct {
	*host
	takes  time.Duration
	events chan lifeline.Event

	mu   sync.Mutex
	slot string // the shard; "": nothing runs
	what string // it, and for which tick or key
}

func (h *host) plant(takes time.Duration) *tree {
	t := &tree{host: h, takes: takes, events: make(chan lifeline.Event, 8)}
	h.mu.Lock()
	defer h.mu.Unlock()
	h.trees = append(h.trees, t)
	return t
}

// Start checks what this package promises: nobody else runs the shard, the tick has one number of shards, and the token is greater than all before.
func (t *tree) Start(env []string, _, _ []*os.File, _ runner.Deadline) error {
	slot := env[0]
	token, _ := strconv.ParseInt(env[1], 10, 64)
	t.host.mu.Lock()
	dead := t.dead
	t.host.mu.Unlock()
	if dead {
		return errors.New("the host is dead")
	}
	b := t.bed
	b.mu.Lock()
	defer b.mu.Unlock()
	if other, taken := b.runs[slot]; taken {
		b.t.Errorf("%s starts in %s, where %s runs", t.name, slot, other)
	}
	if token <= b.tokens[slot] {
		b.t.Errorf("the token in %s is %d after %d", slot, token, b.tokens[slot])
	}
	b.runs[slot], b.tokens[slot] = t.name, token
	b.ran = append(b.ran, t.name+" "+slot)
	what, parts := env[2], env[3]
	if was, known := b.parts[what]; known && was != parts {
		b.t.Errorf("%s is divided into %s and into %s", what, was, parts)
	}
	b.parts[what] = parts
	b.starts[what+" "+slot]++
	t.mu.Lock()
	t.slot, t.what = slot, what+" "+slot
	t.mu.Unlock()
	time.AfterFunc(t.takes, func() { t.end(lifeline.Status{Known: true, Code: b.fails[slot]}) })
	return nil
}

func (t *tree) end(s lifeline.Status) {
	t.mu.Lock()
	slot := t.slot
	t.slot = ""
	t.mu.Unlock()
	if slot == "" {
		return
	}
	t.bed.mu.Lock()
	delete(t.runs, slot)
	if s.Known && s.ExitCode() == 0 {
		t.done[t.what]++
	}
	t.bed.mu.Unlock()
	t.events <- lifeline.Event{Kind: lifeline.Exited, Status: s}
	t.events <- lifeline.Event{Kind: lifeline.Dead, Status: s}
	close(t.events)
}

func (t *tree) Extend(runner.Deadline)        {}
func (t *tree) Signal(sig syscall.Signal)     { t.end(lifeline.Status{Known: true, Signal: sig}) }
func (t *tree) Terminate()                    { t.Signal(syscall.SIGTERM) }
func (t *tree) Kill(bool)                     { t.Signal(syscall.SIGKILL) }
func (t *tree) Events() <-chan lifeline.Event { return t.events }
func (t *tree) Close()                        {}

// clock is the virtual one.
type clock struct{ began time.Time }

func (c clock) Now() runner.Instant { return runner.Instant(time.Hour + time.Since(c.began)) }

func (c clock) NewTimer() (runner.Timer, error) {
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
	clock clock
	c     chan struct{}
}

func (t *timer) C() <-chan struct{}    { return t.c }
func (t *timer) Stop()                 { t.Timer.Stop() }
func (t *timer) Set(at runner.Instant) { t.Reset(max(min(at.Sub(t.clock.Now()), farAway), 0)) }

// since says how much time has passed in the bed.
func (b *bed) since() time.Duration { return time.Since(b.began) }
