package shards

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/leaderrun/leaderrun/backends"
	"github.com/leaderrun/leaderrun/internal/slots"
	"github.com/leaderrun/leaderrun/runner"
	"github.com/leaderrun/leaderrun/test/virtual"
)

// In random worlds hosts come for ticks or keys and go, disagree about the number of shards, die, and lose answers and the network.
// In some, the store loses the record of shard 0 while others are left.
// Never is a shard run by two, a tick has one number of shards, under skip each shard is started at most once for it, and under rerun
// it is run until it is done, as long as somebody stays.
func TestWorlds(t *testing.T) {
	worlds := 400
	if testing.Short() {
		worlds = 80
	}
	for seed := range worlds {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { newWorld(t, uint64(seed)).live() })
		})
	}
}

type world struct {
	*bed
	policy backends.Policy
	keys   bool
	faulty bool
	wait   bool
	loses  bool
	people sync.WaitGroup

	mu     sync.Mutex
	random *rand.Rand
}

func newWorld(t *testing.T, seed uint64) *world {
	t.Helper()
	w := &world{bed: newBed(t), random: rand.New(rand.NewPCG(seed, 2)), policy: backends.Skip}
	if w.below(2) == 0 {
		w.store.Proof = backends.ByBeat
	}
	if w.below(2) == 0 {
		w.policy = backends.Rerun
	}
	w.keys, w.faulty, w.wait = w.below(3) == 0, w.below(3) > 0, w.below(2) == 0
	w.loses = seed%5 == 0
	return w
}

func (w *world) below(n int) int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.random.IntN(n)
}

func (w *world) upTo(d time.Duration) time.Duration { return time.Duration(w.below(int(d))) }

func (w *world) live() {
	hosts := 2 + w.below(4)
	for i := range hosts {
		w.people.Go(func() { w.host(fmt.Sprint("host", i)) })
	}
	if w.loses {
		w.people.Go(w.lose)
	}
	w.people.Wait()
	time.Sleep(3 * ttl)
	last := w.bed.host("last") // who comes at the end, and has no troubles
	for n := range 3 {
		w.finish(last, n)
	}
	names, err := w.store.Jobs(context.Background())
	if err != nil || len(names) == 0 {
		w.t.Error(names, err)
	}
	for _, name := range names {
		if s, err := w.store.Inspect(context.Background(), name); err != nil || s.Lease != nil {
			w.t.Errorf("%s is still taken: %+v, %v", name, s.Lease, err)
		}
	}
	for what, n := range w.starts {
		if n > 1 && w.policy == backends.Skip {
			w.t.Errorf("under skip %s was started %d times", what, n)
		}
		if w.loses && w.policy == backends.Rerun {
			continue
		}
		if w.done[what] > 1 && (w.policy == backends.Skip || !w.faulty) { // with faults, that it was done may not be known
			w.t.Errorf("%s was done %d times", what, w.done[what])
		}
	}
	if w.since() > 2*time.Hour {
		w.t.Errorf("it took %v", w.since())
	}
}

func (w *world) trigger(n int) func(*Tick) {
	return func(t *Tick) {
		t.Trigger.OnLost, t.Trigger.MaxAttempts = w.policy, 100
		t.Trigger.Tick = w.tick(n)
		if w.keys {
			t.Trigger.Tick, t.Trigger.Once = 0, fmt.Sprint("key", n)
		}
	}
}

// finish is the last host's attempt. What it finds is right, and under rerun nothing is left after it.
func (w *world) finish(h *host, n int) {
	o := h.work(1+w.below(6), time.Second, func(t *Tick) {
		w.trigger(n)(t)
		t.Wait = runner.Forever
	})
	what := fmt.Sprint(o.Trigger.Tick, o.Trigger.Once)
	lastTick := w.keys || n == 2
	done := 0
	for k := range o.Trigger.Parts {
		if w.done[what+" "+slots.Name("job", k)] > 0 {
			done++
		}
	}
	switch {
	case o.Stop != nil || o.Busy != nil || !o.IsOver():
		w.t.Errorf("%s is not over: %+v", what, o)
	case lastTick && w.policy == backends.Rerun && !o.IsDone():
		w.t.Errorf("%s is not done: %+v", what, o)
	case done < o.Done:
		w.t.Errorf("%s: %d of %d are said to be done, and %d are", what, o.Done, o.Trigger.Parts, done)
	case !w.faulty && lastTick && done != o.Trigger.Parts:
		w.t.Errorf("in a world without faults %s is not done: %+v", what, o)
	}
}

// host comes for the ticks or keys, one after the other, or for two at once.
func (w *world) host(name string) {
	h := w.bed.host(name)
	var all sync.WaitGroup
	if w.faulty {
		h.Answer = func(backends.Claim, backends.Grant, error) error {
			if w.below(6) == 0 {
				return virtual.ErrCut
			}
			return nil
		}
		all.Go(func() { w.trouble(h) })
	}
	for n := range 3 {
		if ahead := time.Until(time.Unix(w.tick(n), 0)); ahead > 0 {
			time.Sleep(ahead)
		}
		if w.below(5) == 0 { // it is down at that tick
			continue
		}
		time.Sleep(w.upTo(10 * time.Second))
		parts, takes := 1+w.below(6), w.upTo(15*time.Second)
		work := func() {
			o := h.work(parts, takes, func(t *Tick) {
				w.trigger(n)(t)
				t.Parallel = 1 + w.below(3)
				if w.wait {
					t.Wait = runner.Forever
				}
			})
			w.check(h, o)
		}
		if w.below(2) == 0 {
			all.Go(work)
		} else {
			work()
		}
	}
	all.Wait()
}

// lose deletes the record of shard 0 now and then, where it is over and other shards tell the same tick or keys.
func (w *world) lose() {
	for range 20 {
		time.Sleep(w.upTo(20 * time.Second))
		s, err := w.store.Inspect(context.Background(), slots.Name("job", 0))
		if err != nil || s.Lease != nil || !s.Record.Free() {
			continue
		}
		told := func(mine backends.Occurrence) bool {
			for k := 1; k < mine.Parts; k++ {
				other, err := w.store.Inspect(context.Background(), slots.Name("job", k))
				o, known := occurrence(&other.Record, backends.Trigger{Tick: mine.Tick, Once: mine.Key})
				if err == nil && known && o.Parts == mine.Parts {
					return true
				}
			}
			return false
		}
		all := s.Record.Once
		if !w.keys {
			all = []backends.Occurrence{s.Record.Tick}
		}
		if !slices.ContainsFunc(all, func(o backends.Occurrence) bool { return !told(o) }) {
			w.store.DeleteRecord(slots.Name("job", 0))
		}
	}
}

// check judges what a host thinks has become of a tick.
func (w *world) check(h *host, o Outcome) {
	if h.IsDead() {
		return
	}
	total := o.Done + o.Running + o.Open
	for state, n := range o.Ended {
		if n > 0 && slices.Contains([]backends.State{backends.Done, backends.Claimed, backends.Open}, state) {
			w.t.Errorf("%d shards ended %s", n, state)
		}
		total += n
	}
	if total != o.Trigger.Parts {
		w.t.Errorf("%d shards of %d: %+v", total, o.Trigger.Parts, o)
	}
	if w.wait && o.Stop == nil && !o.IsOver() {
		w.t.Errorf("who waits without end gave up: %+v", o)
	}
	if !w.faulty && o.Stop != nil {
		w.t.Errorf("in a world without faults: %+v", o.Stop)
	}
}

// trouble cuts a host off for a while, and kills it at last, or not.
func (w *world) trouble(h *host) {
	for range w.below(4) {
		time.Sleep(w.upTo(30 * time.Second))
		h.Cut(true)
		time.Sleep(w.upTo(3 * ttl))
		h.Cut(false)
	}
	if w.below(3) == 0 {
		time.Sleep(w.upTo(40 * time.Second))
		h.Die()
	}
}
