package slots

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/leaderrun/leaderrun/backends"
	"github.com/leaderrun/leaderrun/runner"
	"github.com/leaderrun/leaderrun/test/virtual"
)

// In random worlds hosts come and go, disagree about the number of slots, die, and lose answers and the network. Never do two
// run in one slot, every token is greater than those before, whoever waits without end runs in the end, and no slot stays taken.
func TestWorlds(t *testing.T) {
	worlds := 300
	if testing.Short() {
		worlds = 60
	}
	for seed := range worlds {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { newWorld(t, uint64(seed)).live() })
		})
	}
}

type world struct {
	*bed
	mu     sync.Mutex
	random *rand.Rand
	people sync.WaitGroup
}

func newWorld(t *testing.T, seed uint64) *world {
	t.Helper()
	w := &world{bed: newBed(t), random: rand.New(rand.NewPCG(seed, 1))}
	if w.below(2) == 0 {
		w.store.Proof = backends.ByBeat
	}
	return w
}

func (w *world) below(n int) int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.random.IntN(n)
}

func (w *world) upTo(d time.Duration) time.Duration { return time.Duration(w.below(int(d))) }

func (w *world) live() {
	faulty := w.below(3) > 0
	for i := range 2 + w.below(4) {
		w.people.Go(func() { w.host(fmt.Sprint("host", i), faulty) })
	}
	w.people.Wait()
	time.Sleep(3 * ttl)
	names, err := w.store.Jobs(context.Background())
	if err != nil || len(names) == 0 {
		w.t.Error(names, err)
	}
	for _, name := range names {
		if s, err := w.store.Inspect(context.Background(), name); err != nil || s.Lease != nil {
			w.t.Errorf("%s is still taken: %+v, %v", name, s.Lease, err)
		}
	}
	if w.since() > time.Hour {
		w.t.Errorf("it took %v", w.since())
	}
}

// host runs a few commands after each other, or beside each other.
func (w *world) host(name string, faulty bool) {
	h := w.bed.host(name)
	var runs sync.WaitGroup
	for range 1 + w.below(3) {
		runs.Go(func() {
			for range 1 + w.below(4) {
				time.Sleep(w.upTo(10 * time.Second))
				w.run(h, faulty)
			}
		})
	}
	if faulty {
		h.Answer = func(backends.Claim, backends.Grant, error) error {
			if w.below(5) == 0 {
				return virtual.ErrCut
			}
			return nil
		}
		runs.Go(func() { w.trouble(h) })
	}
	runs.Wait()
}

// trouble cuts a host off for a while, and kills it at last, or not.
func (w *world) trouble(h *host) {
	for range w.below(3) {
		time.Sleep(w.upTo(20 * time.Second))
		h.Cut(true)
		time.Sleep(w.upTo(3 * ttl))
		h.Cut(false)
	}
	if w.below(4) == 0 {
		time.Sleep(w.upTo(20 * time.Second))
		h.Die()
	}
}

func (w *world) run(h *host, faulty bool) {
	n, takes := 1+w.below(4), w.upTo(30*time.Second)
	waits := []time.Duration{0, 5 * time.Second, runner.Forever}[w.below(3)]
	r := h.run(n, takes, func(r *runner.Request) { r.Wait = waits })
	switch {
	case h.IsDead():
	case waits == runner.Forever && r.Ending < runner.StartFailed:
		w.t.Errorf("who waits without end gave up: %v, %v, %v", r.Ending, r.Refusal, r.Err)
	case !faulty && r.Ending != runner.Ran && r.Ending != runner.Refused && r.Ending != runner.WaitOver:
		w.t.Errorf("in a world without faults: %v, %v, %v", r.Ending, r.Refusal, r.Err)
	}
}
