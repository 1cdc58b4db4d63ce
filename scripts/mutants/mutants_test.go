package main

import (
	"os"
	"path/filepath"
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
