package main

import (
	"fmt"
	"io"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
)

// baseFile names the last commit at which all mutants were caught, and no driver raced. make mutants writes it.
const baseFile = "scripts/mutants/base"

// everything, in the place of a commit, stands for a change of all files.
const everything = "none"

// change is what differs between a commit and the work tree.
type change struct {
	all     bool
	folders map[string]bool   // with a file that differs, as slash-separated paths
	former  map[string]mutant // those of the commit, by name
	known   map[string]string // what caught them then
	deps    map[string][]string
}

// newChange compares the work tree with base; "": with the commit of baseFile.
func newChange(base string) (*change, error) {
	if base == "" {
		text, err := os.ReadFile(baseFile)
		if err != nil {
			return nil, err
		}
		base = strings.TrimSpace(string(text))
	}
	c := &change{all: base == everything, folders: map[string]bool{}, deps: map[string][]string{}}
	if c.all {
		return c, nil
	}
	if _, err := words("git", "cat-file", "-e", base+"^{commit}"); err != nil { // a clone without history
		_, _ = words("git", "fetch", "--quiet", "--depth", "1", "origin", base)
	}
	files, err := words("git", "diff", "--name-only", "--no-renames", base)
	if err != nil {
		c.all = true
		fmt.Fprintf(os.Stderr, "mutants: what differs from %s cannot be told, so all count as changed: %v\n", base, err)
		return c, nil
	}
	added, err := words("git", "ls-files", "--others", "--exclude-standard")
	if err != nil {
		return nil, err
	}
	for _, file := range slices.Concat(files, added) {
		folder, _, _ := strings.Cut(path.Dir(file)+"/", "/testdata/")
		c.folders[strings.TrimSuffix(folder, "/")] = true
	}
	if err := c.readFormer(base); err != nil {
		return nil, err
	}
	return c, nil
}

// readFormer reads the mutants of a commit. Files that it did not have have none.
func (c *change) readFormer(base string) error {
	caught, err := exec.Command("git", "show", base+":"+page).Output()
	if err != nil {
		return err
	}
	if c.known, err = parseCaught(string(caught)); err != nil {
		return err
	}
	files, err := words("git", "ls-tree", "--name-only", base, "scripts/mutants/rules/")
	c.former = map[string]mutant{}
	for _, file := range files {
		text, err := exec.Command("git", "show", base+":"+file).Output()
		if err != nil {
			return err
		}
		for _, m := range readRules(string(text)) {
			c.former[m.name] = m
		}
	}
	return err
}

// isNew says whether the commit did not have a mutant, or another one of its name, or caught it by another test.
func (c *change) isNew(m mutant, known map[string]string) bool {
	if len(c.former) > 0 && !reflect.DeepEqual(c.former[m.name], m) {
		return true
	}
	return c.known[m.name] != known[m.name]
}

// words returns what a program prints, as words.
func words(program string, args ...string) ([]string, error) {
	out, err := exec.Command(program, args...).Output()
	if err != nil {
		return nil, fmt.Errorf("%s %s: %w", program, strings.Join(args, " "), err)
	}
	return strings.Fields(string(out)), nil
}

// affected returns the mutants that the change may have let go: it is new, or its file, or the tests that catch it, or
// anything of ours that these import or start, differ. Those of the invariants of package runner are always among them.
func (c *change) affected(all []mutant, known map[string]string) ([]mutant, error) {
	invariants, err := os.ReadFile("runner/doc.go")
	if err != nil {
		return nil, err
	}
	var chosen []mutant
	for _, m := range all {
		named := test.FindString(known[m.name])
		always := named != "" && strings.Contains(string(invariants), strings.Split(named, "/")[0])
		if c.all || always || c.isNew(m, known) || c.folders[path.Dir(m.file)] {
			chosen = append(chosen, m)
			continue
		}
		tests, err := home(m.packages, hint(known[m.name]))
		if err != nil {
			return nil, err
		}
		patterns := []string{tests}
		if tests == "" {
			patterns = slices.DeleteFunc(slices.Clone(m.packages), func(word string) bool { return !strings.HasPrefix(word, "./") })
		}
		if differ, err := c.touches(patterns); err != nil {
			return nil, err
		} else if differ {
			chosen = append(chosen, m)
		}
	}
	return chosen, nil
}

// touches says whether the tests of some packages, or what they import or start, differ.
func (c *change) touches(patterns []string) (bool, error) {
	key := strings.Join(patterns, " ")
	if _, ok := c.deps[key]; !ok {
		folders, err := dependencies(patterns)
		if err != nil {
			return false, err
		}
		c.deps[key] = folders
	}
	return slices.ContainsFunc(c.deps[key], func(folder string) bool { return c.folders[folder] }), nil
}

// dependencies returns the folders of all that the tests of some packages are made of, seen from the top of the module.
func dependencies(patterns []string) ([]string, error) {
	found, err := words("go", append([]string{"list", "-e", "-deps", "-test", "-f", "{{if not .Standard}}{{.Dir}}{{end}}"}, patterns...)...)
	if err != nil {
		return nil, err
	}
	top, err := os.Getwd()
	if err != nil {
		return nil, err
	}
	var folders []string
	for _, dir := range found {
		if folder, err := filepath.Rel(top, dir); err == nil && filepath.IsLocal(folder) {
			folders = append(folders, filepath.ToSlash(folder))
		}
	}
	slices.Sort(folders)
	folders = slices.Compact(folders)
	if slices.Contains(folders, "test/servers") && !slices.Contains(folders, ".") && slices.ContainsFunc(folders, startsProgram) {
		program, err := dependencies([]string{"."})
		return slices.Concat(folders, program), err
	}
	return folders, nil
}

// startsProgram says whether the tests in a folder build the program and start it.
func startsProgram(folder string) bool {
	files, _ := filepath.Glob(folder + "/*_test.go")
	return slices.ContainsFunc(files, func(file string) bool {
		text, err := os.ReadFile(file)
		return err == nil && strings.Contains(string(text), "servers.RunWithProgram(")
	})
}

// printDrivers prints the stores that differ, or whose tests do, as patterns of packages.
func (c *change) printDrivers(out io.Writer) error {
	stores, err := filepath.Glob("backends/*/*_test.go")
	if err != nil {
		return err
	}
	for i, file := range stores {
		stores[i] = "./" + filepath.Dir(file) + "/..."
	}
	for _, store := range slices.Compact(stores) {
		differ, err := c.touches([]string{store})
		if err != nil {
			return err
		}
		if c.all || differ {
			fmt.Fprintln(out, store)
		}
	}
	return nil
}
