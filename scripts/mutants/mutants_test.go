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
	if _, err := choose(true, nil); err != nil {
		t.Error(err)
	}
}

// The page has rows for mutants that there are, in their order.
func TestCaught(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile("caught.md")
	if err != nil {
		t.Fatal(err)
	}
	copied := filepath.Join(t.TempDir(), "caught.md")
	if err := os.WriteFile(copied, text, 0o600); err != nil {
		t.Fatal(err)
	}
	known, err := readCaught(copied)
	if err != nil {
		t.Fatal(err)
	}
	if err := writeCaught(copied, mutants[0].name, known[mutants[0].name]); err != nil {
		t.Fatal(err)
	}
	if again, err := os.ReadFile(copied); err != nil || string(again) != string(text) {
		t.Errorf("caught.md is not what -record would write of it (%v)", err)
	}
}

// A row that names a test which is gone would have its mutant tried with all that it names.
func TestCaughtByTestsThatThereAre(t *testing.T) {
	t.Chdir(module)
	known, err := readCaught(page)
	if err != nil {
		t.Fatal(err)
	}
	for _, m := range mutants {
		if name := hint(known[m.name]); name != "" {
			if at, err := home(m.packages, name); at == "" || err != nil {
				t.Errorf("%s: %s is in none of %q (%v): delete the row, or go run ./scripts/mutants -record NAME", m.name, known[m.name], m.packages, err)
			}
		}
	}
}

// kept.md names mutants that there are, and each of them is caught by something.
func TestKept(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile("kept.md")
	if err != nil {
		t.Fatal(err)
	}
	known, err := readCaught("caught.md")
	if err != nil {
		t.Fatal(err)
	}
	there := map[string]bool{}
	for _, m := range mutants {
		there[m.name] = true
	}
	named := 0
	for row := range strings.Lines(string(text)) {
		cells := strings.Split(strings.Trim(row, "| \n"), " | ")
		if len(cells) != 2 || cells[1] == "mutants" || cells[1] == "---" {
			continue
		}
		for name := range strings.SplitSeq(cells[1], "; ") {
			named++
			if !there[name] || known[name] == "" {
				t.Errorf("%q: there is no such mutant, or caught.md does not say what catches it", name)
			}
		}
	}
	if named < 50 {
		t.Errorf("%d mutants", named)
	}
}
