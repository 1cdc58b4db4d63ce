package slots

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/leaderrun/leaderrun/backends"
	"github.com/leaderrun/leaderrun/internal/lifeline"
	"github.com/leaderrun/leaderrun/runner"
	"github.com/leaderrun/leaderrun/test/suite"
	"github.com/leaderrun/leaderrun/test/virtual"
)

// The tests of this package run in virtual time.

const ttl = 6 * time.Second

// bed is a store, and hosts that run commands in the slots of one job.
type bed struct {
	t     *testing.T
	store *suite.Mem
	began time.Time

	mu     sync.Mutex
	runs   map[string]string // the host that runs in a slot
	tokens map[string]int64  // the last one in a slot
	ran    []string          // "host slot", in order
}

func newBed(t *testing.T) *bed {
	t.Helper()
	return &bed{t: t, store: suite.NewMem(nil), began: time.Now(), runs: map[string]string{}, tokens: map[string]int64{}}
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

	mu     sync.Mutex
	broken func(slot string) error // why a record cannot be read; nil: all can
	claims []string                // the slots that were claimed
	warned string
}

func (b *bed) host(name string) *host {
	h := &host{bed: b, Host: virtual.NewHost(), name: name}
	h.Connection = &virtual.Connection{Engine: b.store.Client(), Reach: h.reach}
	return h
}

func (h *host) reach(ctx context.Context, request, job string) error {
	if h.broken != nil {
		if err := h.broken(job); err != nil {
			return err
		}
	}
	if request == "acquire" {
		h.mu.Lock()
		defer h.mu.Unlock()
		h.claims = append(h.claims, job)
	}
	return h.Host.Reach(ctx)
}

// run is one attempt to run the command in one of n slots. The command takes so long.
func (h *host) run(n int, takes time.Duration, with func(*runner.Request)) runner.Result {
	timeline, err := runner.NewTimeline(ttl, -1)
	if err != nil {
		h.t.Error(err)
	}
	request := runner.Request{
		Job: "job", Host: backends.Holder{Host: h.name, PID: 1}, Timeline: timeline, BackendWait: 5 * time.Second,
		Tree: func() runner.Tree { return h.newTree(takes) },
		Env: func(g backends.Grant) []string {
			return []string{g.Claim.Job, strconv.FormatInt(g.Token, 10)}
		},
	}
	if with != nil {
		with(&request)
	}
	warn := func(text, _ string) { h.mu.Lock(); h.warned = text; h.mu.Unlock() }
	d := New(h, "job", n, h.name, warn)
	alive, cancel := context.WithTimeout(h.Alive, 2*time.Hour) // what goes on for longer never ends
	defer cancel()
	return (&runner.Runner{Driver: d, Clock: virtual.Clock{Began: h.began}}).Run(alive, request)
}

// forever stands by until there is a slot.
func forever(r *runner.Request) { r.Wait = runner.Forever }

// newTree makes a command that ends by itself after a while, and at once when it is told to. It checks what this package promises:
// nobody else runs in the slot, and the token is greater than all before.
func (h *host) newTree(takes time.Duration) *virtual.Tree {
	b, t := h.bed, virtual.NewTree()
	var slot string
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
		time.AfterFunc(takes, func() { t.End(lifeline.Status{Known: true}) })
		return nil
	}
	t.Over = func(lifeline.Status) {
		b.mu.Lock()
		defer b.mu.Unlock()
		delete(b.runs, slot)
	}
	h.Add(t)
	return t
}

// since says how much time has passed in the bed.
func (b *bed) since() time.Duration { return time.Since(b.began) }

// take takes a slot for a holder that never renews it.
func (b *bed) take(slot int, holder string, ttl time.Duration) backends.Grant {
	b.t.Helper()
	g, err := b.store.Acquire(context.Background(), backends.Claim{
		Job: Name("job", slot), Holder: backends.Holder{ID: fmt.Sprint(holder, slot), Host: holder, PID: 1}, TTL: ttl,
	})
	if err != nil {
		b.t.Fatal(err)
	}
	return g
}

// free ends the run of a grant.
func (b *bed) free(g backends.Grant) {
	b.t.Helper()
	if err := b.store.Finish(context.Background(), g, backends.Outcome{State: backends.Done}); err != nil {
		b.t.Fatal(err)
	}
}
