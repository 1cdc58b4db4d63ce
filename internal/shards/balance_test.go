package shards

import (
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/leaderrun/leaderrun/backends"
)

func TestShare(t *testing.T) {
	for n := 1; n < 40; n++ {
		for members := 1; members < 50; members++ {
			sum := 0
			for place := range members {
				share := Share(n, members, place)
				sum += share
				if share != n/members && share != n/members+1 {
					t.Fatalf("%d of %d for %d of %d", share, n, place, members)
				}
				if more := Share(n, members+1, place); more > share {
					t.Fatalf("one more member: %d instead of %d for %d of %d", more, share, place, members)
				}
			}
			if sum != n {
				t.Fatalf("the shares of %d among %d make %d", n, members, sum)
			}
		}
	}
}

// least is how many shards must move at least where each host had so many.
func (f *fleet) least(before map[string]int) int {
	now := f.counts()
	share, more := f.shards/len(now), f.shards%len(now)
	all, stay := 0, 0
	for name, n := range before {
		all += n
		if _, lives := now[name]; !lives {
			continue
		}
		stay += min(n, share)
		if n > share && more > 0 {
			stay, more = stay+1, more-1
		}
	}
	return all - stay
}

// A hundred hosts that start at once know of each other before they take anything.
func TestAHundredHostsAtOnce(t *testing.T) {
	hosts := 100
	if testing.Short() {
		hosts = 20
	}
	inFleet(t, 10*hosts, func(t *testing.T, f *fleet) {
		for i := range hosts {
			f.join(nodeName(i))
		}
		took := f.settle(5 * ttl)
		requests := 0
		for _, h := range f.nodes {
			requests += h.asked()
		}
		t.Logf("%d hosts, %d shards: %v, %d requests", hosts, f.shards, took, requests)
		if f.moves > 0 || took > ttl {
			t.Errorf("%d moves, and it took %v", f.moves, took)
		}
	})
}

// A hundred hosts start at once on a store that serves a sixth more than they ask for at rest. Each look goes on where it broke off, and
// searches leave room for renewals: else the store would be as busy for ever, and nothing would run.
func TestAHundredHostsOnASlowStore(t *testing.T) {
	for _, proof := range []backends.Proof{backends.ByUntil, backends.ByBeat} {
		synctest.Test(t, func(t *testing.T) {
			const hosts, shards = 100, 800
			f := newFleet(t, shards)
			f.mem.Proof = proof
			atRest := time.Duration(shards+4*hosts) * 3 // requests in a TTL
			if proof == backends.ByBeat {
				atRest += shards * 4
			}
			f.takes = ttl * 6 / (atRest * 7)
			for i := range hosts {
				f.join(nodeName(i))
			}
			f.settle(30 * ttl)
			if f.moves > 0 {
				t.Errorf("%d moves", f.moves)
			}
			f.takes = 0
			f.close()
		})
	}
}

// While a store grants nothing, hosts say so once, and ask no more than once in a TTL. Then they come together, and nothing moves.
func TestHostsThatComeToAQuarantine(t *testing.T) {
	inFleet(t, 40, func(t *testing.T, f *fleet) {
		f.mem.Longest = 10 * ttl
		f.mem.Restart(true)
		a := f.join("a")
		for i := range 19 {
			time.Sleep(ttl / 10)
			f.join(nodeName(i))
		}
		time.Sleep(8 * ttl)
		if requests := a.asked(); requests > lookers+14 {
			t.Errorf("%d requests", requests)
		}
		if e := a.events; len(e) != 1 || !strings.Contains(e[0].Text, "waiting 1m0s: the backend may have forgotten") {
			t.Errorf("%+v", e)
		}
		f.settle(3 * ttl)
		if f.moves > 0 {
			t.Errorf("%d moves", f.moves)
		}
	})
}

// Half of forty hosts die, those in the lower places. The silence of the dead counts for the next ones in the last place at a time, and
// not for one after the other, and who has the proof of it frees their places for the others.
func TestHalfOfTheHostsDie(t *testing.T) {
	tries, most := time.Duration(12), ttl*7/2
	if testing.Short() {
		tries, most = 1, 10*ttl
	}
	var sum time.Duration
	for range tries {
		inFleet(t, 80, func(t *testing.T, f *fleet) {
			f.mem.Proof = backends.ByBeat
			var all []*node
			for i := range 40 {
				all = append(all, f.join(nodeName(i)))
				time.Sleep(ttl / 100)
			}
			f.settle(20 * ttl)
			f.takeMoves()
			for _, h := range all[:20] {
				h.die()
			}
			sum += f.settle(40 * ttl)
			if moves := f.takeMoves(); moves != 40 {
				t.Errorf("%d moves", moves)
			}
		})
	}
	if mean := sum / tries; mean > most {
		t.Errorf("it takes %v", mean)
	}
}

// Where many gaps are left, many members move into them at a time. On a store that proves death by silence, such gaps come from places
// that were lost for a moment: until the silence is long enough, those who had them take places above.
func TestManyGaps(t *testing.T) {
	inFleet(t, 80, func(t *testing.T, f *fleet) {
		f.mem.Proof = backends.ByBeat
		var all []*node
		for i := range 40 {
			all = append(all, f.join(nodeName(i)))
		}
		f.settle(20 * ttl)
		for _, h := range all {
			h.Cut(true)
		}
		time.Sleep(2 * ttl)
		for _, h := range all {
			h.Cut(false)
		}
		if took := f.settle(60 * ttl); took > 8*ttl {
			t.Errorf("it took %v", took)
		}
	})
}
