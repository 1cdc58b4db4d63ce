package shards

import (
	"errors"
	"fmt"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/leaderrun/leaderrun/backends"
	"github.com/leaderrun/leaderrun/internal/slots"
)

// A host with another number of shards goes, and nothing is lost.
func TestAnotherNumberOfShards(t *testing.T) {
	inFleet(t, 6, func(t *testing.T, f *fleet) {
		f.join("a")
		f.join("b")
		f.settle(3 * ttl)
		starts := f.starts
		c := f.join("c", func(h *node) { h.shards = 5 })
		c.ended(3 * ttl)
		d, differs := errors.AsType[*Differs](c.err)
		if !differs || d.Theirs != 6 || d.Ours != 5 || d.Host != "a" && d.Host != "b" {
			t.Errorf("c: %v", c.err)
		}
		time.Sleep(5 * ttl)
		if !f.balanced() || f.starts != starts {
			t.Errorf("%d starts after %d, and now %v", f.starts, starts, f.counts())
		}
	})
}

// A worker that ends by itself is run again on its host, after a pause that grows.
func TestAWorkerThatEndsIsRunAgain(t *testing.T) {
	inFleet(t, 3, func(t *testing.T, f *fleet) {
		a := f.join("a")
		f.join("b")
		f.settle(3 * ttl)
		f.takeMoves()
		var pauses []time.Duration
		for range 5 {
			ended := f.since()
			tree := a.tree()
			tree.End(exited(3))
			for f.running(tree.shard) == "" {
				time.Sleep(50 * time.Millisecond)
			}
			pauses = append(pauses, (f.since() - ended).Round(time.Second))
		}
		for i, want := range []float64{1, 2, 4, 6, 6} {
			if pauses[i].Seconds() != want {
				t.Fatalf("pauses: %v", pauses)
			}
		}
		if f.takeMoves() > 0 {
			t.Error("its shard moved")
		}
		said := false
		for _, e := range a.events {
			said = said || e.Name == EventRestarts && strings.Contains(e.Text, "ended (code 3): running it again in 4s")
		}
		if !said {
			t.Errorf("%+v", a.events)
		}
		time.Sleep(2 * ttl)
		tree := a.tree()
		tree.End(exited(0))
		time.Sleep(1500 * time.Millisecond)
		if f.running(tree.shard) != "a" {
			t.Error("after a long run the pause is short again")
		}
	})
}

// A host with too many shards ends one run after the other, the youngest first.
func TestGivingUp(t *testing.T) {
	inFleet(t, 9, func(t *testing.T, f *fleet) {
		slow := func(h *node) { h.dying, h.oneByOne = 4*time.Second, true }
		f.join("a", slow)
		b := f.join("b", slow)
		f.settle(3 * ttl)
		var old []int
		for shard := range 9 {
			if f.running(shard) == "a" {
				old = append(old, shard)
			}
		}
		b.terminate() // a gets more, and these are its youngest
		f.settle(3 * ttl)
		f.join("c", slow)
		f.settle(9 * ttl)
		for _, shard := range old {
			if f.running(shard) != "a" {
				t.Errorf("a has given up shard %d, and had younger ones", shard)
			}
		}
	})
}

// A host that leaves starts nothing more, and others take each of its shards as soon as that has ended.
func TestAHostThatLeaves(t *testing.T) {
	inFleet(t, 4, func(t *testing.T, f *fleet) {
		a := f.join("a")
		f.join("b")
		f.settle(3 * ttl)
		slow := a.tree()
		a.dying = time.Second
		slow.slow = true // it takes half a TTL
		began := f.since()
		a.terminate()
		if took := f.since() - began; took < ttl/2 || took > ttl {
			t.Errorf("it took %v", took)
		}
		if len(a.results) != 2 || a.results[0].Signal != syscall.SIGTERM || a.results[1].Signal != syscall.SIGTERM {
			t.Errorf("results: %+v", a.results)
		}
		counts := f.counts()
		if counts["b"] < 3 { // before the slow one has ended, the other one runs there
			t.Errorf("%v", counts)
		}
		f.settle(ttl)
	})
}

// What lasts for a moment makes nobody end a run, and moves no shard.
func TestAHostThatIsAwayForAMoment(t *testing.T) {
	for name, happens := range map[string]func(f *fleet){
		"another one comes and dies within a TTL": func(f *fleet) {
			for range 5 {
				d := f.join("d")
				time.Sleep(ttl * 3 / 4)
				d.die()
				time.Sleep(ttl * 2)
			}
		},
		"one dies and starts again at once": func(f *fleet) {
			had := f.counts()["b"]
			f.nodes["b"].die()
			f.join("b")
			f.settle(5 * ttl)
			f.starts -= had // which it runs again
		},
		"places are gone": func(f *fleet) {
			for place := range 3 {
				f.mem.DeleteLease(slots.Name(Members("job"), place))
				time.Sleep(2 * ttl)
			}
		},
		"one is cut off": func(f *fleet) {
			f.nodes["a"].Cut(true)
			time.Sleep(ttl / 6)
			f.nodes["a"].Cut(false)
			time.Sleep(3 * ttl)
		},
	} {
		for _, proof := range []backends.Proof{backends.ByUntil, backends.ByBeat} {
			t.Run(fmt.Sprint(name, " ", proof), func(t *testing.T) {
				inFleet(t, 12, func(t *testing.T, f *fleet) {
					f.mem.Proof = proof
					for _, name := range []string{"a", "b", "c"} {
						f.join(name)
					}
					f.settle(5 * ttl)
					f.takeMoves()
					starts := f.starts
					happens(f)
					f.settle(5 * ttl)
					if moves := f.takeMoves(); moves > 0 || f.starts != starts {
						t.Errorf("%d moves, %d starts", moves, f.starts-starts)
					}
				})
			})
		}
	}
}

// What no retry mends ends the workers of this host.
func TestAPermanentError(t *testing.T) {
	inFleet(t, 4, func(t *testing.T, f *fleet) {
		denied := backends.Denied("", errors.New("wrong password"))
		a := f.join("a", func(h *node) { h.denied = denied })
		a.ended(3 * ttl)
		if !errors.Is(a.err, denied) {
			t.Errorf("%v", a.err)
		}
		b := f.join("b")
		f.settle(3 * ttl)
		b.mu.Lock()
		b.denied = denied
		b.mu.Unlock()
		b.tree().End(exited(1))
		b.ended(3 * ttl)
		if !errors.Is(b.err, denied) || len(f.runs) > 0 {
			t.Errorf("%v, and %v", b.err, f.runs)
		}
	})
}

// Only the first look at a sign of life counts, whatever it was for.
func TestRemember(t *testing.T) {
	inFleet(t, 1, func(t *testing.T, f *fleet) {
		f.mem.Proof = backends.ByBeat
		claim := func(id string) backends.Claim {
			return backends.Claim{Job: "x", Holder: backends.Holder{ID: id, Host: id}, TTL: ttl}
		}
		if _, err := f.mem.Acquire(t.Context(), claim("a")); err != nil {
			t.Fatal(err)
		}
		f.mem.DeleteLease("x")
		store := Remember(f.mem)
		if _, err := store.Inspect(t.Context(), "x"); err != nil {
			t.Fatal(err)
		}
		time.Sleep(ttl - time.Millisecond)
		if _, err := store.Acquire(t.Context(), claim("b")); err == nil {
			t.Fatal("granted too early")
		}
		time.Sleep(time.Millisecond)
		g, err := store.Acquire(t.Context(), claim("b"))
		if err != nil {
			t.Fatal(err)
		}
		if _, err := store.Inspect(t.Context(), "x"); err != nil {
			t.Fatal(err)
		}
		time.Sleep(ttl / 2)
		if _, err := store.Renew(t.Context(), g); err != nil {
			t.Fatal(err)
		}
		f.mem.DeleteLease("x")
		for _, silence := range []time.Duration{0, ttl / 2, ttl/2 - time.Millisecond} {
			time.Sleep(silence)
			if _, err := store.Acquire(t.Context(), claim("c")); err == nil {
				t.Error("granted within a TTL after the last sign of life")
			}
		}
		time.Sleep(time.Millisecond)
		if _, err := store.Acquire(t.Context(), claim("c")); err != nil {
			t.Error(err)
		}
	})
}
