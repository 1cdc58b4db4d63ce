package main

import (
	"strings"
	"testing"
)

// In a build with many mutants each function has the body of each of them, and its own.
func TestWithSwitch(t *testing.T) {
	t.Parallel()
	const good = `package p

const limit = 3

func (r *rule) holds(n int) bool {
	return n < limit
}

func loops() {
again:
	for {
		continue again
	}
}

func ends() { free() }
`
	of := func(old, bad string) mutant { return mutant{name: old + bad, old: old, bad: bad} }
	all := []mutant{
		of("return n < limit\n}\n\nfunc loops", "return n <= limit\n}\n\nfunc loops"), // what it changes is in one function
		of("return n < limit", "return true"),
		of("free()", ""),
		of("limit = 3", "limit = 4"),
		of("continue again", "break again"),
	}
	text, in := withSwitch("p.go", []byte(good), all)
	if len(in) != 3 || in[0] != all[0].name || in[1] != all[1].name || in[2] != all[2].name {
		t.Errorf("in the build are %q", in)
	}
	want := strings.NewReplacer(
		"bool {", "bool {\nswitch brokenRule {\ncase 0:\n\n\treturn n <= limit\n\n\ncase 0:\n\n\treturn true\n\n}\n",
		"ends() {", "ends() {\nswitch brokenRule {\ncase 0:\n  \nreturn\n}\n",
	).Replace(good)
	if string(text) != want {
		t.Errorf("the file is\n%s\nwant\n%s", text, want)
	}
	if text, in := withSwitch("p.lua", []byte("return 1"), all); len(in) != 0 || string(text) != "return 1" {
		t.Errorf("a script has %q: %s", in, text)
	}
}
