package main

import (
	"os"
	"strings"
	"testing"
	"time"
)

// What docs/elections.md says of the algorithms holds for every seed, not only for those of its tables.
func TestWhatElectionsPromise(t *testing.T) {
	t.Parallel()
	const runs = 20
	rows, _ := measure(1_000_000, runs)
	if len(rows) != len(algorithms)*len(troubles) {
		t.Fatalf("%d rows", len(rows))
	}
	for _, r := range rows {
		name := r.algorithm.name + ", " + r.trouble.name
		classic := !r.algorithm.tokens
		switch {
		case r.sum.writes == 0:
			t.Errorf("%s: nobody ever wrote", name)
		case classic && r.trouble.name == "partition" && (r.sum.most != 2 || r.sum.several < runs*time.Second || r.sum.unfenced == 0):
			t.Errorf("%s: %d leaders at once, for %v, %d stale writes: a partition has two", name, r.sum.most, r.sum.several, r.sum.unfenced)
		case !classic && (r.sum.most > 1 || r.sum.several > 0):
			t.Errorf("%s: %d leaders at once, for %v", name, r.sum.most, r.sum.several)
		case !classic && r.trouble.name == "pause" && r.sum.unfenced == 0:
			t.Errorf("%s: no stale write, although the leader stood still in the middle of one", name)
		case !classic && r.sum.fenced > 0:
			t.Errorf("%s: %d stale writes in spite of the fence", name, r.sum.fenced)
		case r.trouble.name == "crash" && r.sum.elections < runs:
			t.Errorf("%s: %d new leaders in %d runs", name, r.sum.elections, runs)
		}
	}
}

// The same seed is the same run.
func TestSeedDecidesEverything(t *testing.T) {
	t.Parallel()
	for _, a := range algorithms {
		for _, trouble := range troubles {
			if one, two := simulate(a, trouble, members, 7), simulate(a, trouble, members, 7); one != two {
				t.Errorf("%s, %s: %+v, and then %+v", a.name, trouble.name, one, two)
			}
		}
	}
}

// The page and its picture are what the program prints and draws.
func TestPageIsWhatTheProgramSays(t *testing.T) {
	t.Parallel()
	page, err := os.ReadFile("../../docs/elections.md")
	if err != nil {
		t.Fatal(err)
	}
	troubled, costs := measure(1, 50)
	for _, table := range []string{troubleTable(troubled), costTable(costs)} {
		if !strings.Contains(string(page), "\n"+table) {
			t.Errorf("docs/elections.md lacks this table (go run ./examples/elections -svg docs/charts/elections.svg):\n%s", table)
		}
	}
	picture, err := os.ReadFile("../../docs/charts/elections.svg")
	if err != nil || string(picture) != draw(costs, troubled) {
		t.Errorf("docs/charts/elections.svg is not what the program draws: %v", err)
	}
}
