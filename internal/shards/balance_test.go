package shards

import (
	"fmt"
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

func TestOneHostTakesAll(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFleet(t, 7)
		f.join("a")
		if took := f.settle(ttl); took > ttl {
			t.Errorf("it took %v", took)
		}
		f.close()
	})
}

// The table of docs/shards.md.
func TestTable(t *testing.T) {
	for _, proof := range []backends.Proof{backends.ByUntil, backends.ByBeat} {
		synctest.Test(t, func(t *testing.T) {
			f := newFleet(t, 100)
			f.store.Proof = proof
			report := func(what string, least int, within time.Duration) {
				f.t.Helper()
				took := f.settle(within)
				moves := f.takeMoves()
				t.Logf("%-40s %3d moves, least %3d, %v = %.1f TTL", what, moves, least, took.Round(100*time.Millisecond), took.Seconds()/ttl.Seconds())
				if moves > least {
					t.Errorf("%s: %d moves, and %d are enough", what, moves, least)
				}
			}
			f.join(nodeName(0))
			report("1 host comes", 0, 10*ttl)
			for i := 1; i < 10; i++ {
				f.join(nodeName(i))
			}
			report("9 come at once", 90, 30*ttl)
			for i := range 3 {
				f.nodes[nodeName(3*i)].die()
			}
			report("3 of 10 are killed at once", 30, 10*ttl)
			for i := range 4 {
				f.nodes[nodeName([]int{1, 4, 7, 8}[i])].terminate()
				f.settle(10 * ttl)
			}
			report("4 of 7 leave, one after the other", 0, 10*ttl)
			for i := 20; i < 27; i++ {
				f.join(nodeName(i))
				f.settle(30 * ttl)
			}
			report("7 come, one after the other", 0, 10*ttl)
			f.close()
		})
	}
}

// A hundred hosts that start at once know of each other before they take anything.
func TestAHundredHostsAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFleet(t, 1000)
		for i := range 100 {
			f.join(nodeName(i))
		}
		took := f.settle(20 * ttl)
		requests := 0
		for _, h := range f.nodes {
			requests += h.requests
		}
		fmt.Println(took, f.moves, f.starts, requests)
		if f.moves > 0 {
			t.Errorf("%d moves", f.moves)
		}
		f.close()
	})
}
