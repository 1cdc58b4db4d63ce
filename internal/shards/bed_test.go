package shards

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/leaderrun/leaderrun/backends"
	"github.com/leaderrun/leaderrun/internal/lifeline"
	"github.com/leaderrun/leaderrun/internal/slots"
	"github.com/leaderrun/leaderrun/runner"
	"github.com/leaderrun/leaderrun/test/suite"
	"github.com/leaderrun/leaderrun/test/virtual"
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
		h.End()
	}
}

func newBed(t *testing.T) *bed {
	t.Helper()
	return &bed{
		t: t, store: suite.NewMem(nil), began: time.Now(), runs: map[string]string{}, tokens: map[string]int64{},
		parts: map[string]string{}, starts: map[string]int{}, done: map[string]int{},
	}
}

// inBed runs a test in virtual time.
func inBed(t *testing.T, test func(t *testing.T, b *bed)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) { test(t, newBed(t)) })
}

// host is one host with its connection to the store.
type host struct {
	*bed
	*virtual.Connection
	*virtual.Host
	name string
	slow bool // it can start no command in time

	mu     sync.Mutex
	claims []string // the shards that were claimed
	warned string

	looks  atomic.Int64
	wanted context.Context //nolint:containedctx // ends when it is to start nothing more
	giveUp context.CancelFunc
}

func (b *bed) host(name string) *host {
	h := &host{bed: b, Host: virtual.NewHost(), name: name}
	h.Connection = &virtual.Connection{Engine: b.store.Client(), Reach: h.reach}
	h.wanted, h.giveUp = context.WithCancel(h.Alive)
	b.mu.Lock()
	defer b.mu.Unlock()
	b.all = append(b.all, h)
	return h
}

func (h *host) reach(ctx context.Context, request, job string) error {
	switch request {
	case "acquire":
		h.mu.Lock()
		defer h.mu.Unlock()
		h.claims = append(h.claims, job)
	case "look":
		h.looks.Add(1)
	}
	return h.Host.Reach(ctx)
}

// tick is the n-th tick of every test. The first one is due when it begins.
func (b *bed) tick(n int) int64 { return b.began.Unix() + int64(n)*60 }

// work works through a tick that is divided into n shards. Each command takes so long.
func (h *host) work(n int, takes time.Duration, with func(*Tick)) Outcome {
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
		with(t)
	}
	t.Run = func(ctx context.Context, s Shard) runner.Result {
		one := request
		one.Job, one.Trigger, one.Wanted = slots.Name("job", s.Number), s.Trigger, s.Wanted
		clock := virtual.Clock{Began: h.began}
		one.Tree = func() runner.Tree {
			if h.slow {
				return virtual.Late{Tree: h.newTree(takes), Clock: clock}
			}
			return h.newTree(takes)
		}
		return (&runner.Runner{Driver: leases, Clock: clock, Observe: func(e runner.Event) {
			if s.Observe != nil {
				s.Observe(e)
			}
		}}).Run(ctx, one)
	}
	alive, cancel := context.WithTimeout(h.Alive, 2*time.Hour) // what goes on for longer never ends
	defer cancel()
	return t.Work(alive)
}

// rerun runs what a dead host left again, and waits until all is over.
func rerun(t *Tick) { t.Trigger.OnLost, t.Wait = backends.Rerun, runner.Forever }

// newTree makes a command that ends by itself after a while, and at once when it is told to. It checks what this package promises:
// nobody else runs the shard, the tick has one number of shards, and the token is greater than all before.
func (h *host) newTree(takes time.Duration) *virtual.Tree {
	b, t := h.bed, virtual.NewTree()
	var slot, what string // the shard, and for which tick or key it runs
	t.Begin = func(env []string) error {
		slot = env[0]
		token, _ := strconv.ParseInt(env[1], 10, 64)
		if h.IsDead() {
			return errors.New("the host is dead")
		}
		b.mu.Lock()
		defer b.mu.Unlock()
		if other, taken := b.runs[slot]; taken {
			b.t.Errorf("%s starts in %s, where %s runs", h.name, slot, other)
		}
		if token <= b.tokens[slot] {
			b.t.Errorf("the token in %s is %d after %d", slot, token, b.tokens[slot])
		}
		b.runs[slot], b.tokens[slot] = h.name, token
		b.ran = append(b.ran, h.name+" "+slot)
		what = env[2]
		parts := env[3]
		if was, known := b.parts[what]; known && was != parts {
			b.t.Errorf("%s is divided into %s and into %s", what, was, parts)
		}
		b.parts[what] = parts
		what += " " + slot
		b.starts[what]++
		time.AfterFunc(takes, func() { t.End(lifeline.Status{Known: true, Code: b.fails[slot]}) })
		return nil
	}
	t.Over = func(s lifeline.Status) {
		b.mu.Lock()
		defer b.mu.Unlock()
		delete(b.runs, slot)
		if s.Known && s.ExitCode() == 0 {
			b.done[what]++
		}
	}
	h.Add(t)
	return t
}

// since says how much time has passed in the bed.
func (b *bed) since() time.Duration { return time.Since(b.began) }
