package shards

import (
	"context"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/leaderrun/leaderrun/backends"
)

// In random worlds hosts come, go, die, flap and are cut off. Never does a shard run in two places. When all is quiet, every shard
// runs, and no host has two more than another. Then some hosts come, go or die at once, and no shard moves that need not.
func TestFleets(t *testing.T) {
	worlds := 150
	if testing.Short() {
		worlds = 10
	}
	for seed := range worlds {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { newFleetWorld(t, uint64(seed)).live() })
		})
	}
}

type fleetWorld struct {
	*fleet
	random *rand.Rand
	next   int
	flaps  sync.WaitGroup
}

func newFleetWorld(t *testing.T, seed uint64) *fleetWorld {
	t.Helper()
	random := rand.New(rand.NewPCG(seed, 2))
	w := &fleetWorld{fleet: newFleet(t, 1+random.IntN(24)), random: random}
	if random.IntN(2) == 0 {
		w.mem.Proof = backends.ByBeat
	}
	return w
}

func (w *fleetWorld) upTo(d time.Duration) time.Duration {
	return time.Duration(w.random.Int64N(int64(d)))
}

func (w *fleetWorld) live() {
	for range 1 + w.random.IntN(4) {
		w.come()
	}
	for range w.random.IntN(25) {
		time.Sleep(w.upTo(2 * ttl))
		w.something()
	}
	for _, h := range w.nodes {
		h.Cut(false)
	}
	w.flaps.Wait()
	w.mu.Lock()
	none := len(w.nodes) == 0
	w.mu.Unlock()
	if none {
		w.come()
	}
	w.settle(60 * ttl)
	w.some()
	w.close()
	w.freed()
}

func (w *fleetWorld) come() *node {
	w.next++
	dying := w.upTo(3 * time.Second)
	return w.join(nodeName(w.next), func(h *node) { h.dying = dying })
}

// any returns a living host, or nil.
func (w *fleetWorld) any() *node {
	w.mu.Lock()
	defer w.mu.Unlock()
	names := slices.Sorted(maps.Keys(w.nodes))
	if len(names) == 0 {
		return nil
	}
	return w.nodes[names[w.random.IntN(len(names))]]
}

func (w *fleetWorld) something() {
	what := w.random.IntN(7)
	h := w.any()
	if h == nil || what < 2 && len(w.nodes) < 8 {
		w.come()
		return
	}
	switch what {
	case 2:
		h.die()
	case 3:
		w.flaps.Go(h.terminate)
	case 4: // cut off, for a moment or for longer than its lease
		length := w.upTo(3 * ttl)
		h.Cut(true)
		w.flaps.Go(func() { time.Sleep(length); h.Cut(false) })
	case 5: // it flaps
		times, name := 1+w.random.IntN(4), h.name
		pauses := []time.Duration{w.upTo(ttl), w.upTo(ttl)}
		h.die()
		w.flaps.Go(func() {
			for range times {
				time.Sleep(pauses[0])
				again := w.join(name)
				time.Sleep(pauses[1])
				again.die()
			}
		})
	case 6: // its worker ends by itself, or an operator ends it
		h.mu.Lock()
		trees := slices.Clone(h.trees)
		h.mu.Unlock()
		if len(trees) > 0 {
			trees[w.random.IntN(len(trees))].Terminate()
		}
	}
}

// some makes hosts come, go or die at once, and counts the moves.
func (w *fleetWorld) some() {
	w.takeMoves()
	before := w.counts()
	names := slices.Sorted(maps.Keys(before))
	w.random.Shuffle(len(names), func(i, j int) { names[i], names[j] = names[j], names[i] })
	names = names[:min(1+w.random.IntN(3), len(names)-1)] // somebody stays
	switch what := w.random.IntN(3); {
	case what == 0 || len(names) == 0:
		for range 1 + len(names) {
			w.come()
		}
	case what == 1:
		for _, name := range names {
			w.nodes[name].die()
		}
	default:
		for _, name := range names {
			w.flaps.Go(w.nodes[name].terminate)
		}
		w.flaps.Wait()
	}
	w.settle(60 * ttl)
	if moves, least := w.takeMoves(), w.least(before); moves > least {
		w.t.Errorf("%d moves, and %d are enough: %v and now %v", moves, least, before, w.counts())
	}
}

// freed checks that no lease is left when all have gone.
func (w *fleetWorld) freed() {
	time.Sleep(2 * ttl)
	names, err := w.mem.Jobs(context.Background())
	if err != nil || len(names) == 0 {
		w.t.Error(names, err)
	}
	for _, name := range names {
		if s, err := w.mem.Inspect(context.Background(), name); err != nil || s.Lease != nil {
			w.t.Errorf("%s is still taken: %+v, %v", name, s.Lease, err)
		}
	}
}
