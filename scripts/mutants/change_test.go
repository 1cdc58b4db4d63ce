package main

import (
	"path"
	"slices"
	"testing"
)

// What a mutant breaks, the tests that catch it, what these import, and the program that they start choose it; and nothing else.
func TestAffected(t *testing.T) {
	t.Chdir(module)
	known, err := readCaught(page)
	if err != nil {
		t.Fatal(err)
	}
	m := mutants[slices.IndexFunc(mutants, func(m mutant) bool { return m.file == "internal/slots/slots.go" })]
	beside := mutants[slices.IndexFunc(mutants, func(m mutant) bool { return path.Dir(m.file) == "internal/ownership" })]
	other := m
	other.bad += " "
	for _, c := range []struct {
		folder string
		former mutant
		caught string
		chosen bool
	}{
		{"", m, known[m.name], false},
		{"docs", m, known[m.name], false},
		{"internal/shards", m, known[m.name], false},
		{"internal/slots", m, known[m.name], true},
		{"backends", m, known[m.name], true},
		{"", other, known[m.name], true},
		{"", m, "TestAnother", true},
	} {
		change := &change{
			folders: map[string]bool{c.folder: true}, deps: map[string][]string{},
			former: map[string]mutant{m.name: c.former, beside.name: beside}, known: map[string]string{m.name: c.caught, beside.name: known[beside.name]},
		}
		got, err := change.affected([]mutant{m, beside}, known)
		if err != nil {
			t.Fatal(err)
		}
		if len(got) > 1 || (len(got) == 1) != c.chosen {
			t.Errorf("%+v: %d mutants", c, len(got))
		}
	}
	if all, err := (&change{all: true}).affected(mutants, known); err != nil || len(all) != len(mutants) {
		t.Errorf("of all: %d, %v", len(all), err)
	}
	always, err := (&change{deps: map[string][]string{}, known: known}).affected(mutants, known)
	if err != nil || len(always) < 5 || len(always) > 50 {
		t.Errorf("of the invariants: %d, %v", len(always), err)
	}
}

// Tests that start the program depend on all of it.
func TestDependencies(t *testing.T) {
	t.Chdir(module)
	folders, err := dependencies([]string{"./test/acceptance"})
	if err != nil || !slices.Contains(folders, "internal/cli") || !slices.Contains(folders, "test/acceptance") {
		t.Errorf("%q, %v", folders, err)
	}
}
