package shards

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/leaderrun/leaderrun/backends"
	"github.com/leaderrun/leaderrun/internal/slots"
	"github.com/leaderrun/leaderrun/test/suite"
)

// inspect is what an operator sees of a job.
func (f *fleet) inspect(job string) backends.Status {
	f.t.Helper()
	s, err := f.mem.Inspect(context.Background(), job)
	if err != nil {
		f.t.Error(err)
	}
	return s
}

// has returns the shards that a host runs.
func (f *fleet) has(h *node) (shards []int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for shard, name := range f.runs {
		if name == h.name {
			shards = append(shards, shard)
		}
	}
	return shards
}

// death is when something has happened after the death of a host.
type death struct {
	missed time.Duration // the others can see that there is one member less
	free   time.Duration // each of its shards was freed, or is taken
	runs   time.Duration // all of them run
}

// dies lets a host die, and waits until others run its shards.
func (f *fleet) dies(h *node, members int) (d death) {
	shards := f.has(h)
	h.die()
	died := time.Now()
	note := func(at *time.Duration, is bool) {
		if is && *at == 0 {
			*at = time.Since(died)
		}
	}
	for d.runs == 0 || d.missed == 0 {
		time.Sleep(ttl / 200)
		note(&d.missed, f.inspect(slots.Name(Members("job"), members-1)).Lease == nil)
		note(&d.free, !slices.ContainsFunc(shards, func(shard int) bool {
			s := f.inspect(slots.Name("job", shard))
			return s.Record.Holder.Host == h.name
		}))
		note(&d.runs, !slices.ContainsFunc(shards, func(shard int) bool { return f.running(shard) == "" }))
		if time.Since(died) > 20*ttl {
			f.t.Fatalf("%s: %+v", h.name, d)
		}
	}
	return d
}

// Of ten hosts one dies. Its shards move within the take-over time of the store and what it takes the others to look, also where death is
// proved by silence: then somebody has seen the last sign of life of each shard, and of the place.
func TestAHostThatDies(t *testing.T) {
	tries := 20
	if testing.Short() {
		tries = 6
	}
	for _, proof := range []backends.Proof{backends.ByUntil, backends.ByBeat} {
		var sum, most death
		add := func(sum, most *time.Duration, d time.Duration) {
			*sum += d / time.Duration(tries)
			*most = max(*most, d)
		}
		for i := range tries {
			inFleet(t, 100, func(t *testing.T, f *fleet) {
				f.mem.Proof = proof
				var all []*node
				for k := range 10 {
					all = append(all, f.join(nodeName(k)))
					time.Sleep(ttl / 50)
				}
				f.settle(10 * ttl)
				time.Sleep(ttl + time.Duration(i)*ttl/3/time.Duration(tries))
				d := f.dies(all[i%9], 10)
				add(&sum.missed, &most.missed, d.missed)
				add(&sum.free, &most.free, d.free)
				add(&sum.runs, &most.runs, d.runs)
			})
		}
		in := func(d time.Duration) string { return fmt.Sprintf("%.2f", d.Seconds()/ttl.Seconds()) }
		t.Logf("%v, in TTL, mean and most: missed %s %s, freed %s %s, all run %s %s", proof,
			in(sum.missed), in(most.missed), in(sum.free), in(most.free), in(sum.runs), in(most.runs))
		const look = ttl * 11 / 30 // the longest time between two
		missed := ttl + ttl/15
		if proof == backends.ByBeat { // it takes a look to see the last sign of life
			missed += look
			if free := missed + ttl/30; most.free > free {
				t.Errorf("%v: freed after %v, want %v at most", proof, most.free, free)
			}
		}
		if runs := missed + look + ttl/10; most.missed > missed || most.runs > runs {
			t.Errorf("%v: missed after %v, want %v at most; all run after %v, want %v at most", proof, most.missed, missed, most.runs, runs)
		}
	}
}

// Each shard of a dead host was looked at by another one, also where few hosts have many shards in a row, and where those that live had none.
func TestAHostThatDiesAmongFew(t *testing.T) {
	for _, c := range []struct{ shards, hosts int }{{60, 2}, {60, 3}, {1, 2}, {2, 4}} {
		inFleet(t, c.shards, func(t *testing.T, f *fleet) {
			f.mem.Proof = backends.ByBeat
			first := f.join(nodeName(0))
			time.Sleep(ttl / 50)
			for k := 1; k < c.hosts; k++ {
				f.join(nodeName(k))
			}
			f.settle(60 * ttl)
			time.Sleep(2 * ttl)
			if d := f.dies(first, c.hosts); d.runs > 2*ttl {
				t.Errorf("%+v: %v", c, d)
			}
		})
	}
}

// Nobody claims a shard whose worker pauses, to free it: it is free.
func TestAShardThatIsFreeIsNotFreed(t *testing.T) {
	inFleet(t, 4, func(t *testing.T, f *fleet) {
		f.mem.Proof = backends.ByBeat
		a := f.join("a")
		f.join("b")
		f.settle(5 * ttl)
		for range 8 {
			a.tree().End(exited(1))
			time.Sleep(ttl * 3 / 2)
		}
		for shard := range f.shards {
			for _, r := range f.inspect(slots.Name("job", shard)).Record.Runs {
				if r.State == backends.Open {
					t.Errorf("shard %d: %+v", shard, r)
				}
			}
		}
	})
}

// A host that has lost its place has no shards beside its own, also where it has none itself.
func TestAHostWithoutAPlaceLooksAtNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		mem := suite.NewMem(nil)
		mem.Proof = backends.ByBeat
		b := &balancer{
			Workers: &Workers{Job: "job", Shards: 4, TTL: ttl, Store: Remember(mem)}, life: t.Context(), lookedBeside: make(chan besides, 1),
			position: position{place: nowhere, settled: 2},
		}
		if wait := b.lookBeside(time.Now()); wait != never || b.lookingBeside {
			t.Errorf("it looks, or will after %v", wait)
		}
	})
}

// Where the store is slow, hosts look less often at the shards of others: renewals go first.
func TestLooksBesideOnASlowStore(t *testing.T) {
	inFleet(t, 40, func(t *testing.T, f *fleet) {
		f.mem.Proof = backends.ByBeat
		all := []*node{f.join("a"), f.join("b")}
		f.settle(30 * ttl)
		requests := func(takes time.Duration) int {
			f.serves(takes)
			_, _ = all[0].asked(), all[1].asked()
			time.Sleep(10 * ttl)
			return all[0].asked() + all[1].asked()
		}
		quick, slow := requests(0), requests(10*time.Millisecond)
		if slow > quick*4/5 {
			t.Errorf("%d requests, and %d where each takes a while", quick, slow)
		}
		f.serves(0)
	})
}

// A store becomes slow: it serves a third more than the hosts ask for at rest, and would not serve their looks at shards of others, too.
// They leave these out, so leases are renewed and no run ends, but for a few that what was under way when it became slow has held up.
func TestAStoreThatGetsSlow(t *testing.T) {
	const hosts, shards = 30, 240
	inFleet(t, shards, func(t *testing.T, f *fleet) {
		f.mem.Proof = backends.ByBeat
		for i := range hosts {
			f.join(nodeName(i))
		}
		f.settle(5 * ttl)
		const atRest = (shards + 4*hosts) * 3 // requests in a TTL
		f.serves(ttl * 3 / (atRest * 4))
		most := shards + shards/10
		for k := range 20 {
			time.Sleep(ttl)
			f.mu.Lock()
			if k == 2 {
				most = min(most, f.starts)
			}
			if len(f.runs) < shards && k >= 2 || f.starts > most {
				t.Errorf("%v: %d of %d run, after %d starts of at most %d", f.since(), len(f.runs), shards, f.starts, most)
			}
			f.mu.Unlock()
		}
		f.serves(0)
	})
}

// Where the store is slow, no look at shards of others begins, and one that is due is put off.
func TestNoLookBesideBeginsOnASlowStore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		mem := suite.NewMem(nil)
		mem.Proof = backends.ByBeat
		b := &balancer{
			Workers: &Workers{Job: "job", Shards: 4, TTL: ttl, Store: Remember(mem)}, life: t.Context(), lookedBeside: make(chan besides, 1),
			position: position{settled: 2}, member: true,
		}
		b.Store.slow = true
		now := time.Now()
		wait := b.lookBeside(now)
		if b.lookingBeside || wait > ttl/2 || b.beside.next != now.Add(wait) {
			t.Errorf("it looks: %v, and will after %v, at %v", b.lookingBeside, wait, b.beside.next)
		}
		b.Store.slow = false
		if b.lookBeside(b.beside.next); !b.lookingBeside {
			t.Error("it does not look when the store is quick again")
		}
		<-b.lookedBeside
	})
}

// A host misses another one a moment before the shards of that can be had. It looks again as soon as they can, where the server's clock
// tells when, and does not wait for its next search.
func TestShardsThatCanBeHadAfterTheirHostIsMissed(t *testing.T) {
	inFleet(t, 50, func(t *testing.T, f *fleet) {
		for shard := range f.shards {
			c := backends.Claim{Job: slots.Name("job", shard), Holder: backends.Holder{ID: "dead", Host: "dead"}, TTL: ttl}
			if _, err := f.mem.Acquire(t.Context(), c); err != nil {
				t.Fatal(err)
			}
		}
		time.Sleep(ttl / 2)
		f.join("a") // it takes shards from its second look on, a third of a TTL later
		time.Sleep(ttl * 6 / 10)
		if n := f.counts()["a"]; n < f.shards {
			t.Errorf("%d of %d run", n, f.shards)
		}
	})
}

// When a lease runs out that was not renewed is known where the server's clock tells it, and is of no use while renewals are late
// everywhere.
func TestWhenALeaseRunsOut(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for name, c := range map[string]struct {
			left   time.Duration
			limits backends.Limits
			slow   bool
			known  bool
		}{
			"not renewed":                {left: ttl / 4, known: true},
			"renewed":                    {left: ttl * 2 / 3},
			"a guess":                    {left: ttl / 4, limits: backends.Limits{BySilence: true}},
			"it ends with its processes": {left: ttl / 4, limits: backends.Limits{LocalHolders: func(string) ([]int, error) { return nil, nil }}},
			"the store is slow":          {left: ttl / 4, slow: true},
		} {
			m := Remember(limited{suite.NewMem(nil), c.limits})
			m.slow, m.seen["x"] = c.slow, sight{end: time.Now().Add(c.left)}
			s := backends.Status{Lease: &backends.Lease{Left: c.left}, Record: backends.Record{TTL: ttl.Milliseconds()}}
			if left := m.untilLapse("x", s); (left >= c.left && left <= c.left*11/10) != c.known || !c.known && left != 0 {
				t.Errorf("%s: %v", name, left)
			}
		}
	})
}

// limited is a store with other limits.
type limited struct {
	*suite.Mem
	is backends.Limits
}

func (l limited) Limits() backends.Limits { return l.is }
