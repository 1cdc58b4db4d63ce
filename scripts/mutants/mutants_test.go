package main

import (
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
)

// A mutant whose text is not there any more breaks nothing, and nobody would know before all of them are run.
func TestEachMutantHasItsPlace(t *testing.T) {
	t.Parallel()
	seen := map[string]bool{}
	for _, m := range mutants {
		text, err := os.ReadFile(filepath.Join("..", "..", m.file))
		if err != nil {
			t.Fatal(err)
		}
		if n := strings.Count(string(text), m.old); n != 1 {
			t.Errorf("%s: %s has %d places that read %q", m.name, m.file, n, m.old)
		}
		if seen[m.name] {
			t.Errorf("two mutants are called %q", m.name)
		}
		seen[m.name] = true
	}
	if _, err := choose([]string{"-bed"}); err != nil {
		t.Error(err)
	}
}

// Ten turns try every mutant once.
func TestTurnsAreAll(t *testing.T) {
	t.Parallel()
	tried := map[string]int{}
	for turn := range turns {
		chosen, err := ofTurn(strconv.Itoa(turn + 7))
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range chosen {
			tried[m.name]++
		}
	}
	for _, m := range mutants {
		if tried[m.name] != 1 {
			t.Errorf("%s is tried %d times in %d turns", m.name, tried[m.name], turns)
		}
	}
	if _, err := ofTurn("-1"); err == nil {
		t.Error("a turn before the first is taken")
	}
}

// The page names a test for most of the mutants that it lists.
func TestHints(t *testing.T) {
	t.Parallel()
	hints := caughtBy(filepath.Join("..", "..", page))
	known := 0
	for _, m := range mutants {
		if hints[m.name] != "" {
			known++
		}
	}
	if known < 100 {
		t.Errorf("%d mutants have a test in %s", known, page)
	}
}
