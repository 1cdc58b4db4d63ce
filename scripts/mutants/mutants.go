package main

import (
	"embed"
	"io/fs"
	"strings"
)

// mutant is one rule broken in one place, and the tests that must notice: arguments of go test.
type mutant struct {
	name, file, old, bad string
	packages             []string
}

// rules has the mutants, a paragraph each: the name of the rule, the file, the text that is there behind "-", and behind "+" what
// stands in its place. A line "tests" names the tests of those that follow.
//
//go:embed rules/*.txt
var rules embed.FS

var mutants = func() (all []mutant) {
	files, err := fs.Glob(rules, "rules/*.txt")
	if err != nil {
		panic(err)
	}
	for _, file := range files {
		text, err := rules.ReadFile(file)
		if err != nil {
			panic(err)
		}
		all = append(all, readRules(string(text))...)
	}
	return all
}()

// readRules reads a file of rules. What it does not understand has no name or no place, which TestEachMutantHasItsPlace tells.
func readRules(text string) (all []mutant) {
	var packages []string
	for paragraph := range strings.SplitSeq(strings.Trim(text, "\n"), "\n\n") {
		name, rest, _ := strings.Cut(paragraph, "\n")
		if words, ok := strings.CutPrefix(name, "tests "); ok {
			packages = strings.Fields(words)
			continue
		}
		if strings.HasPrefix(name, "# ") {
			continue
		}
		file, lines, _ := strings.Cut(rest, "\n")
		m := mutant{name: name, file: file, packages: packages}
		var old, bad []string
		for line := range strings.SplitSeq(lines, "\n") {
			if more, ok := strings.CutPrefix(line, "+"); ok {
				bad = append(bad, more)
			} else {
				old = append(old, strings.TrimPrefix(line, "-"))
			}
		}
		m.old, m.bad = strings.Join(old, "\n"), strings.Join(bad, "\n")
		all = append(all, m)
	}
	return all
}
