package main

import (
	"fmt"
	"testing"
	"time"
)

// What docs/design/elections.md says of the algorithms holds for every seed, not only for those of its tables.
func TestWhatElectionsPromise(t *testing.T) {
	t.Parallel()
	few := measure(1_000_000, 12, 3, 5)
	many := measure(1_000_000, 1, 50)
	if len(few) != 2*len(many) || len(many) != len(algorithms)*len(troubles) {
		t.Fatalf("%d rows of few nodes, %d of many", len(few), len(many))
	}
	for _, r := range append(few, many...) {
		name := fmt.Sprintf("%s, %d nodes, %s", r.algorithm.name, r.nodes, r.trouble.name)
		runs := r.runs
		classic := !r.algorithm.tokens
		switch {
		case r.sum.writes == 0:
			t.Errorf("%s: nobody ever wrote", name)
		case classic && r.trouble.name == "partition" && (r.sum.most != 2 || r.sum.several < time.Duration(runs)*time.Second || r.sum.unfenced == 0):
			t.Errorf("%s: %d leaders at once, for %v, %d stale writes: a partition has two", name, r.sum.most, r.sum.several, r.sum.unfenced)
		case !classic && (r.sum.most > 1 || r.sum.several > 0):
			t.Errorf("%s: %d leaders at once, for %v", name, r.sum.most, r.sum.several)
		case !classic && r.trouble.name == "pause" && r.sum.unfenced == 0:
			t.Errorf("%s: no stale write, although the leader stood still in the middle of one", name)
		case !classic && r.sum.fenced > 0:
			t.Errorf("%s: %d stale writes in spite of the fence", name, r.sum.fenced)
		case r.trouble.name == "crash" && r.sum.elections < runs:
			t.Errorf("%s: %d new leaders in %d runs", name, r.sum.elections, runs)
		case r.trouble.name == "crash" && r.calls() < 2:
			t.Errorf("%s: %d messages for %d new leaders: somebody has to ask, and somebody to answer", name, r.sum.calls, r.sum.elections)
		}
	}
}

// The same seed is the same run.
func TestSeedDecidesEverything(t *testing.T) {
	t.Parallel()
	for _, a := range algorithms {
		for _, trouble := range troubles {
			if one, two := simulate(a, trouble, 5, 7), simulate(a, trouble, 5, 7); one != two {
				t.Errorf("%s, %s: %+v, and then %+v", a.name, trouble.name, one, two)
			}
		}
	}
}
