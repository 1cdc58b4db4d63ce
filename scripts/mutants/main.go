// Mutants breaks the safety rules of leaderrun one at a time and runs the tests that must notice. It prints a
// table and fails if a mutant survives, or if the text that it replaces is not there any more.
//
//	go run ./scripts/mutants [-bed] [-record] [NAME…]
//	go run ./scripts/mutants -drivers
//
// Without a NAME it tries those that a change may have let go, see change.go: BASE, a variable, is the commit to compare with, and
// none stands for all of them. -drivers prints the stores that a change may have let race.
//
// It takes for granted that the tests pass on what is not broken, and tries first the test that caught the mutant before, according
// to caught.md. -record writes there what catches it now.
//
// Nothing is written to the source tree: the compiler reads the broken file in place of the good one. Where there are many mutants,
// they are tried in one build that has them all, and a variable of the environment wakes one. One that survives there, or cannot
// be in it, is tried in a build of its own.
package main

import (
	"bytes"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"regexp"
	"slices"
	"strings"
	"sync"
	"time"
)

func main() {
	bed := flag.Bool("bed", false, "those that a whole bed must notice")
	record := flag.Bool("record", false, "write down what caught them")
	drivers := flag.Bool("drivers", false, "print the stores that a change may have let race")
	one := flag.String("one", "", "how this program tries one mutant, in a process of its own")
	flag.Parse()
	if err := run(*bed, *record, *drivers, *one, flag.Args()); err != nil {
		fmt.Fprintln(os.Stderr, "mutants:", err)
		os.Exit(1)
	}
}

func run(bed, record, drivers bool, one string, names []string) error {
	if one != "" {
		return tryOne(one)
	}
	known, err := readCaught(page)
	if err != nil {
		return err
	}
	chosen, err := choose(bed, names)
	if err != nil {
		return err
	}
	if drivers || !bed && len(names) == 0 {
		c, err := newChange(os.Getenv("BASE"))
		if err != nil {
			return err
		}
		if drivers {
			return c.printDrivers(os.Stdout)
		}
		if chosen, err = c.affected(chosen, known); err != nil {
			return err
		}
	}
	dir, err := os.MkdirTemp("", "leaderrun-mutants")
	if err != nil {
		return err
	}
	defer func() { _ = os.RemoveAll(dir) }()
	l := &laboratory{dir: dir, known: known, record: record, binaries: map[string]*binary{}}
	if len(chosen) >= many {
		if l.all, err = newTogether(dir); err != nil {
			return err
		}
	}
	return l.tryAll(chosen)
}

// many mutants are worth a build with all of them.
const many = 10

// atOnce is how many mutants are tried at the same time: most wait, some in vain.
const atOnce = 4

// laboratory tries mutants.
type laboratory struct {
	dir    string
	known  map[string]string // what caught them before
	record bool
	all    *together // nil: each is in a build of its own

	mu       sync.Mutex
	binaries map[string]*binary // by the folder of their package
	failures []error
}

// tryAll prints a row for each mutant as soon as it is caught.
func (l *laboratory) tryAll(chosen []mutant) error {
	began := time.Now()
	fmt.Print("| rule that is broken | caught by | after |\n| --- | --- | --- |\n")
	places := make(chan bool, atOnce)
	var all sync.WaitGroup
	for _, m := range chosen {
		places <- true
		all.Go(func() {
			defer func() { <-places }()
			if err := l.try(m); err != nil {
				l.mu.Lock()
				defer l.mu.Unlock()
				l.failures = append(l.failures, fmt.Errorf("%s: %w", m.name, err))
			}
		})
	}
	all.Wait()
	fmt.Printf("\n%d of %d mutants, in %.0f s\n", len(chosen), len(mutants), time.Since(began).Seconds())
	return errors.Join(l.failures...)
}

// errSurvived is the end of a mutant that no test notices.
var errSurvived = errors.New("survived")

// try tries a mutant in a process of its own, which ends what a broken guardian leaves behind.
func (l *laboratory) try(m mutant) error {
	began := time.Now()
	o := order{Name: m.name, Packages: m.packages, Hint: hint(l.known[m.name]), Dir: l.dir}
	if l.all != nil && l.all.has[m.name] {
		o.Awake = l.all.environment(m)
		if b, err := l.binary(m, o.Hint); err != nil {
			return err
		} else if b != nil {
			o.Binary, o.Folder = b.path, b.folder
		}
	}
	cmd := exec.Command(os.Args[0], "-one", o.text())
	var said bytes.Buffer
	cmd.Stderr = &said
	out, err := cmd.Output()
	if err != nil {
		return fmt.Errorf("%w: %s", err, &said)
	}
	by := string(out)
	l.mu.Lock()
	defer l.mu.Unlock()
	fmt.Printf("| %s | %s | %.0f s |\n", m.name, by, time.Since(began).Seconds())
	switch {
	case by == nothing:
		return errSurvived
	case l.record:
		return writeCaught(page, m.name, by)
	}
	return nil
}

// page has the table of what catches each mutant.
const page = "scripts/mutants/caught.md"

const heading = "| rule that is broken | caught by |\n| --- | --- |\n"

// nothing is what a mutant that survives is caught by.
const nothing = "**nothing**"

// readCaught returns, by the names of mutants, what caught them before.
func readCaught(path string) (map[string]string, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	return parseCaught(string(text))
}

func parseCaught(text string) (map[string]string, error) {
	_, rows, ok := strings.Cut(text, heading)
	if !ok {
		return nil, errors.New("there is no table of what caught the mutants")
	}
	known := map[string]string{}
	for row := range strings.Lines(rows) {
		if cells := strings.Split(strings.Trim(row, "| \n"), " | "); len(cells) == 2 {
			known[cells[0]] = cells[1]
		}
	}
	return known, nil
}

// writeCaught puts a row into the table, which has the order of the list of mutants. What is in no list any more goes.
func writeCaught(path, name, by string) error {
	known, err := readCaught(path)
	if err != nil {
		return err
	}
	known[name] = by
	text, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	before, _, _ := strings.Cut(string(text), heading)
	rows := []string{before, heading}
	for _, m := range mutants {
		if by := known[m.name]; by != "" {
			rows = append(rows, "| "+m.name+" | "+by+" |\n")
		}
	}
	return os.WriteFile(path, []byte(strings.Join(rows, "")), 0o600)
}

// hint returns the pattern for go test -run of the test that is named by what caught a mutant, or "".
func hint(by string) string {
	name := test.FindString(by)
	if name == "" {
		return ""
	}
	var parts []string
	for part := range strings.SplitSeq(name, "/") {
		parts = append(parts, "^"+regexp.QuoteMeta(part)+"$")
	}
	return strings.Join(parts, "/")
}

var test = regexp.MustCompile(`(Test|Fuzz)\w+(/\S+)?`)

// choose returns the mutants of these names; none: all. With bed they are those that a whole bed must notice.
func choose(bed bool, names []string) ([]mutant, error) {
	all := slices.Clone(mutants)
	if bed {
		all = nil
		for k, o := range slices.Concat(ordeals, dividedOrdeals) {
			i := slices.IndexFunc(mutants, func(m mutant) bool { return m.name == o.mutant })
			if i < 0 {
				return nil, fmt.Errorf("there is no mutant %q", o.mutant)
			}
			m := mutants[i]
			m.packages = o.tests()
			if k >= len(ordeals) {
				m.name += ", with slots"
				m.packages = append(m.packages, "-cast", "divided")
			}
			all = append(all, m)
		}
	}
	if len(names) == 0 {
		return all, nil
	}
	return slices.DeleteFunc(all, func(m mutant) bool { return !slices.Contains(names, m.name) }), nil
}
