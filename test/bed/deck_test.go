package bed

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"
)

func faultsNamed(names ...string) (all []Fault) {
	for _, name := range names {
		all = append(all, Fault{Name: name})
	}
	return all
}

func deal(seed uint64, turns int, all []Fault) (dealt []turn) {
	d := &deck{chance: rand.New(rand.NewPCG(seed, 0)), all: all, ttl: 5 * time.Second}
	for range turns {
		dealt = append(dealt, d.deal(true))
	}
	return dealt
}

// A seed that is printed with a violation has to bring the same faults again.
func TestSameSeedSameTurns(t *testing.T) {
	t.Parallel()
	all := faultsNamed("a", "b", "c", "d")
	one, again, other := fmt.Sprint(deal(1, 50, all)), fmt.Sprint(deal(1, 50, all)), fmt.Sprint(deal(2, 50, all))
	if one != again {
		t.Error("the same seed dealt other turns")
	}
	if one == other {
		t.Error("another seed dealt the same turns")
	}
}

func TestEveryFaultComesUp(t *testing.T) {
	t.Parallel()
	d := &deck{chance: rand.New(rand.NewPCG(3, 0)), all: faultsNamed("a", "b", "c", "d", "e"), ttl: time.Second}
	count := map[string]int{}
	for range 4 * len(d.all) {
		count[d.fault().Name]++
	}
	for _, f := range d.all {
		if count[f.Name] != 4 {
			t.Errorf("%s came up %d times of 4", f.Name, count[f.Name])
		}
	}
}

func TestTurnsAreWithinBounds(t *testing.T) {
	t.Parallel()
	all := faultsNamed("host")
	all = append(all, Fault{Name: "long", AtLeast: 7 * time.Second}, Fault{Name: "server", OnServer: true})
	for i, x := range deal(4, 500, all) {
		if x.length < x.first.AtLeast && x.length < 6*time.Second || x.between > x.length {
			t.Errorf("turn %d: %+v", i, x)
		}
		if x.both && (x.first.OnServer || x.second.OnServer || x.host == x.other) {
			t.Errorf("turn %d: both at one place, or one at the store: %+v", i, x)
		}
	}
}
