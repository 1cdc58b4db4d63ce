// Tests reads what gotestsum --jsonfile has written of runs of the tests.
//
//	go run ./scripts/tests skipped FILE...
//	go run ./scripts/tests same FOLDER FOLDER...
//
// skipped prints which tests were skipped, by reason. same compares runs, each in a folder with its .json files and the
// table of scripts/mutants in mutants.md: it names the tests and mutants that not all of them executed, and fails if there are any.
package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
)

func main() {
	if err := run(os.Args[1:], os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "tests:", err)
		os.Exit(1)
	}
}

func run(args []string, out io.Writer) error {
	switch {
	case len(args) > 1 && args[0] == "skipped":
		return skipped(args[1:], out)
	case len(args) > 2 && args[0] == "same":
		return same(args[1:], out)
	}
	return errors.New("the words are: skipped FILE [FILE], or: same FOLDER FOLDER [FOLDER]")
}

// module is what all names of packages begin with.
const module = "github.com/leaderrun/leaderrun/"

// event is one line of go test -json, see go doc test2json.
type event struct{ Action, Package, Test, Output string }

// read calls each for the events of a file.
func read(file string, each func(e event)) error {
	text, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	for line := range bytes.Lines(text) {
		var e event
		if json.Unmarshal(line, &e) == nil {
			e.Package = strings.TrimPrefix(e.Package, module)
			each(e)
		}
	}
	return nil
}

// logLine is how a test's reason to be skipped is written.
var logLine = regexp.MustCompile(`^\s+\S+\.go:\d+: (.+)`)

// skipped prints a line for each reason for which tests were skipped, with their number in each package.
func skipped(files []string, out io.Writer) error {
	said, found := map[string]string{}, map[string]map[string]int{}
	for _, file := range files {
		err := read(file, func(e event) {
			name := e.Package + " " + e.Test
			if m := logLine.FindStringSubmatch(e.Output); m != nil {
				said[name] = strings.TrimSpace(m[1])
			}
			if e.Action != "skip" || e.Test == "" {
				return
			}
			why := said[name]
			if found[why] == nil {
				found[why] = map[string]int{}
			}
			found[why][e.Package]++
		})
		if err != nil {
			return err
		}
	}
	for _, why := range slices.Sorted(maps.Keys(found)) {
		var packages []string
		for _, name := range slices.Sorted(maps.Keys(found[why])) {
			packages = append(packages, fmt.Sprintf("%s %d", name, found[why][name]))
		}
		fmt.Fprintf(out, "skipped: %s: %s\n", why, strings.Join(packages, ", "))
	}
	return nil
}

// same prints what not all runs executed.
func same(folders []string, out io.Writer) error {
	in := map[string][]string{} // the folders, by what they have
	for _, folder := range folders {
		executed, err := executed(folder)
		if err != nil {
			return err
		}
		fmt.Fprintf(out, "%s: %d tests and mutants\n", folder, len(executed))
		for name := range executed {
			in[name] = append(in[name], folder)
		}
	}
	differ := 0
	for _, name := range slices.Sorted(maps.Keys(in)) {
		if len(in[name]) < len(folders) {
			fmt.Fprintf(out, "only in %s: %s\n", strings.Join(in[name], ", "), name)
			differ++
		}
	}
	if differ > 0 {
		return fmt.Errorf("%d tests or mutants were not executed by all runs", differ)
	}
	return nil
}

// executed returns the tests of a run that passed or failed, and its mutants.
func executed(folder string) (map[string]bool, error) {
	files, err := filepath.Glob(filepath.Join(folder, "*.json"))
	if err == nil && len(files) == 0 {
		err = fmt.Errorf("%s has no .json file", folder)
	}
	if err != nil {
		return nil, err
	}
	all := map[string]bool{}
	for _, file := range files {
		err := read(file, func(e event) {
			if e.Test != "" && (e.Action == "pass" || e.Action == "fail") {
				all[filepath.Base(file)+" "+e.Package+" "+e.Test] = true
			}
		})
		if err != nil {
			return nil, err
		}
	}
	table, err := os.ReadFile(filepath.Join(folder, "mutants.md"))
	if errors.Is(err, os.ErrNotExist) { // a run without mutants
		return all, nil
	}
	_, rows, _ := strings.Cut(string(table), "| --- |\n")
	for row := range strings.Lines(rows) {
		if cells := strings.Split(row, " | "); len(cells) == 3 {
			all["mutant: "+strings.TrimPrefix(cells[0], "| ")] = true
		}
	}
	return all, err
}
