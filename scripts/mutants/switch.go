package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// variable of the environment tells a program in which many rules can be broken, which one is: the number of the mutant.
const variable = "BROKEN_RULE"

// numbers are those of the mutants, by their names.
var numbers = func() map[string]int {
	all := map[string]int{}
	for i, m := range mutants {
		all[m.name] = i + 1
	}
	return all
}()

// together is a build in which each of many mutants is there and asleep: most of what a mutant costs is that what depends on it
// is compiled anew. The compiler's cache keeps such a build from one run to the next, as it does the good one.
type together struct {
	overlay string          // the file that the go command reads
	has     map[string]bool // names of the mutants in it
}

// newTogether writes the files of a build with all mutants that can be in one. The working folder is the top of the module.
func newTogether(dir string) (*together, error) {
	t := &together{overlay: filepath.Join(dir, "together.json"), has: map[string]bool{}}
	byFile := map[string][]mutant{}
	for _, m := range mutants {
		byFile[m.file] = append(byFile[m.file], m)
	}
	replace := map[string]string{}
	put := func(path string, text []byte) error {
		path, err := filepath.Abs(path)
		if err != nil {
			return err
		}
		if replace[path] == "" {
			replace[path] = filepath.Join(dir, fmt.Sprintf("together-%d.go", len(replace)))
		}
		return os.WriteFile(replace[path], text, 0o600)
	}
	for file, all := range byFile {
		good, err := os.ReadFile(file)
		if err != nil {
			return nil, err
		}
		text, in := withSwitch(file, good, all)
		if len(in) == 0 {
			continue
		}
		for _, name := range in {
			t.has[name] = true
		}
		if err := put(file, text); err != nil {
			return nil, err
		}
		if err := put(filepath.Join(filepath.Dir(file), "zz_broken_rule.go"), whichOne(text)); err != nil {
			return nil, err
		}
	}
	text, err := json.Marshal(map[string]map[string]string{"Replace": replace})
	if err != nil {
		return nil, err
	}
	return t, os.WriteFile(t.overlay, text, 0o600)
}

// whichOne is a file for a package with a switch. It imports what every program has.
func whichOne(text []byte) []byte {
	file, err := parser.ParseFile(token.NewFileSet(), "", text, parser.PackageClauseOnly)
	if err != nil {
		panic(err) // it was parsed before
	}
	return fmt.Appendf(nil, `package %s

import "syscall"

var brokenRule = func() (n int) {
	text, _ := syscall.Getenv(%q)
	for _, c := range text {
		n = 10*n + int(c-'0')
	}
	return n
}()
`, file.Name, variable)
}

// withSwitch returns a file in which each function that mutants change begins with a switch that has its body as each of them
// has it, and the names of those mutants. Others stay out: those that change more than the body of one function, and where labels are,
// of which a function has each only once.
func withSwitch(path string, good []byte, all []mutant) (text []byte, in []string) {
	positions := token.NewFileSet()
	file, err := parser.ParseFile(positions, path, good, parser.SkipObjectResolution)
	if err != nil { // a script, a list of commands
		return good, nil
	}
	offset := func(p token.Pos) int { return positions.Position(p).Offset }
	type insertion struct {
		at   int
		text []byte
	}
	var insertions []insertion
	for _, d := range file.Decls {
		f, ok := d.(*ast.FuncDecl)
		if !ok || f.Body == nil || hasLabel(f.Body) {
			continue
		}
		begin, end := offset(f.Body.Lbrace)+1, offset(f.Body.Rbrace)
		var cases bytes.Buffer
		for _, m := range all {
			at, until, bad, ok := m.change(good)
			if !ok || at < begin || until > end {
				continue
			}
			fmt.Fprintf(&cases, "\ncase %d:\n%s%s%s\n", numbers[m.name], good[begin:at], bad, good[until:end])
			if f.Type.Results == nil {
				cases.WriteString("return\n")
			}
			in = append(in, m.name)
		}
		if cases.Len() > 0 {
			insertions = append(insertions, insertion{begin, fmt.Appendf(nil, "\nswitch brokenRule {%s}\n", cases.Bytes())})
		}
	}
	text = slices.Clone(good)
	for _, i := range slices.Backward(insertions) {
		text = slices.Insert(text, i.at, i.text...)
	}
	return text, in
}

// change returns what a mutant writes and in the place of what, without what it leaves as it is at both ends.
func (m mutant) change(good []byte) (at, until int, bad string, ok bool) {
	at = bytes.Index(good, []byte(m.old))
	if at < 0 {
		return 0, 0, "", false
	}
	old, bad := m.old, m.bad
	for old != "" && bad != "" && old[0] == bad[0] {
		old, bad, at = old[1:], bad[1:], at+1
	}
	for old != "" && bad != "" && old[len(old)-1] == bad[len(bad)-1] {
		old, bad = old[:len(old)-1], bad[:len(bad)-1]
	}
	return at, at + len(old), bad, true
}

func hasLabel(body *ast.BlockStmt) (has bool) {
	ast.Inspect(body, func(n ast.Node) bool {
		_, is := n.(*ast.LabeledStmt)
		has = has || is
		return !has
	})
	return has
}

// environment is that of a program in which a mutant is awake.
func (t *together) environment(m mutant) []string {
	return append(overlaid(t.overlay), fmt.Sprintf("%s=%d", variable, numbers[m.name]))
}

// overlaid is the environment in which the go command reads some files in place of others. Programs that the tests build are
// built from the same ones.
func overlaid(overlay string) []string {
	return []string{"GOFLAGS=" + strings.TrimSpace(os.Getenv("GOFLAGS")+" -overlay="+overlay)}
}
