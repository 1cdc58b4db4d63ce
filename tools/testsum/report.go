package main

import (
	"cmp"
	"fmt"
	"io"
	"maps"
	"path"
	"regexp"
	"slices"
	"strings"
	"sync"
)

// event is one line of go test -json, see go doc test2json.
type event struct {
	Action  string
	Package string
	Test    string
	Output  string
	Elapsed float64 // seconds
}

// took is how long a test took, with those below it.
type took struct {
	name    string
	seconds float64
}

// leftToAll begins the reason of a skip that is no lack of this machine: the test belongs to the longer run.
const leftToAll = "left to make test-all"

// report turns events into the text of go test without -v, and counts. Several go tests may tell it at once.
type report struct {
	out        io.Writer
	mu         sync.Mutex
	times      []took
	packages   map[string]*pkg
	passed     int
	failed     []string
	skipped    map[string][]string // by reason
	leftOut    []string            // what a store cannot be tried on, and why
	sawFailure bool
}

// pkg is what is known about a package that is being tested.
type pkg struct {
	output []string            // of the package itself
	names  []string            // of its tests that have said something, in that order
	tests  map[string][]string // what they said; nil once they passed or were skipped
	blamed bool                // one of its tests failed
	lacks  map[string]string   // cases of the conformance suite that a store cannot be tried on, and why
	ran    map[string]bool     // the last names of tests that passed
}

func newReport(out io.Writer) *report {
	return &report{out: out, packages: map[string]*pkg{}, skipped: map[string][]string{}}
}

func (r *report) add(e event) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if e.Action == "build-output" {
		fmt.Fprint(r.out, e.Output)
		return
	}
	p := r.packages[e.Package]
	if p == nil {
		p = &pkg{tests: map[string][]string{}, lacks: map[string]string{}, ran: map[string]bool{}}
		r.packages[e.Package] = p
	}
	switch {
	case e.Action == "output":
		p.say(e.Test, e.Output)
	case e.Test == "":
		r.endPackage(e, p)
	default:
		r.endTest(e, p)
	}
}

func (p *pkg) say(test, text string) {
	for _, prefix := range []string{"=== RUN ", "=== PAUSE ", "=== CONT ", "=== NAME ", "=== ATTR "} {
		if strings.HasPrefix(text, prefix) {
			return
		}
	}
	if test == "" {
		p.output = append(p.output, text)
		return
	}
	if _, known := p.tests[test]; !known {
		p.names = append(p.names, test)
	}
	p.tests[test] = append(p.tests[test], text)
	if m := lackLine.FindStringSubmatch(text); m != nil {
		p.lacks[m[1]] = m[2]
	}
}

func (r *report) endTest(e event, p *pkg) {
	name := path.Base(e.Package) + "." + e.Test
	if !strings.Contains(e.Test, "/") {
		r.times = append(r.times, took{name, e.Elapsed})
	}
	switch e.Action {
	case "pass":
		r.passed++
		p.tests[e.Test] = nil
		p.ran[path.Base(e.Test)] = true
	case "skip":
		why := reason(p.tests[e.Test])
		r.skipped[why] = append(r.skipped[why], name)
		p.tests[e.Test] = nil
	case "fail":
		r.sawFailure, p.blamed = true, true
		r.failed = append(r.failed, name)
	}
}

// endPackage prints a package. Of one that failed, it prints what its tests said that failed or never
// ended; of any other, the line of go test.
func (r *report) endPackage(e event, p *pkg) {
	switch e.Action {
	case "fail":
		r.sawFailure = true
		if !p.blamed {
			r.failed = append(r.failed, e.Package)
		}
		for _, name := range p.names {
			for _, text := range p.tests[name] {
				fmt.Fprint(r.out, text)
			}
		}
		for _, text := range p.output {
			fmt.Fprint(r.out, text)
		}
	case "pass", "skip":
		for _, text := range p.output {
			if strings.HasPrefix(text, "ok  \t") || strings.HasPrefix(text, "?   \t") || strings.HasPrefix(text, "\t") {
				fmt.Fprint(r.out, text)
			}
		}
	default:
		return // start, bench
	}
	r.leftOut = append(r.leftOut, p.leftOut(path.Base(e.Package))...)
	delete(r.packages, e.Package)
}

var (
	logLine = regexp.MustCompile(`^\s+\S+\.go:\d+: (.+)`)
	// lackLine is how the conformance suite of the stores logs a case that it does not run on one of them.
	lackLine = regexp.MustCompile(`^\s+\S+\.go:\d+: not for this store: ([^:]+): (.+)`)
)

// leftOut tells, for each reason, which cases of the conformance suite no test of the package has run: what is lacking with
// one server of a store may be there with another.
func (p *pkg) leftOut(name string) []string {
	cases := map[string][]string{}
	for c, why := range p.lacks {
		if !p.ran[strings.ReplaceAll(c, " ", "_")] {
			cases[why] = append(cases[why], c)
		}
	}
	var lines []string
	for why, names := range cases {
		slices.Sort(names)
		lines = append(lines, fmt.Sprintf("left out: %s: %s (%s)", name, strings.Join(names, ", "), why))
	}
	return lines
}

// reason is the last line that a skipped test logged.
func reason(output []string) string {
	for _, text := range slices.Backward(output) {
		if m := logLine.FindStringSubmatch(text); m != nil {
			return strings.TrimSpace(m[1])
		}
	}
	return "no reason given"
}

// shown is how many names of one reason the last line tells.
const shown = 4

func (r *report) summary(slowest int) {
	r.slowest(slowest)
	r.leftToAll()
	for _, line := range slices.Sorted(slices.Values(r.leftOut)) {
		fmt.Fprintln(r.out, line)
	}
	if len(r.failed) > 0 {
		fmt.Fprintf(r.out, "failed: %s\n", strings.Join(r.failed, ", "))
	}
	count := 0
	var groups []string
	for why, names := range r.skipped {
		count += len(names)
		slices.Sort(names)
		rest := ""
		if len(names) > shown {
			names, rest = names[:shown], fmt.Sprintf(" and %d more", len(names)-shown)
		}
		groups = append(groups, why+" ("+strings.Join(names, ", ")+rest+")")
	}
	if count == 0 {
		fmt.Fprintf(r.out, "%d tests passed, none skipped\n", r.passed)
		return
	}
	slices.Sort(groups)
	fmt.Fprintf(r.out, "%d tests passed, %d skipped: %s\n", r.passed, count, strings.Join(groups, "; "))
}

// slowest prints the n tests that took longest. Tests run side by side and wait for each other's turn, so that the times of a
// package may add up to more than its own.
func (r *report) slowest(n int) {
	slices.SortStableFunc(r.times, func(a, b took) int { return cmp.Compare(b.seconds, a.seconds) })
	for i, t := range r.times[:min(n, len(r.times))] {
		if i == 0 {
			fmt.Fprintln(r.out, "slowest tests:")
		}
		fmt.Fprintf(r.out, "%8.1f s  %s\n", t.seconds, t.name)
	}
}

// leftToAll prints what belongs to the longer run, by package, and takes it from what was skipped.
func (r *report) leftToAll() {
	packages := map[string]int{}
	for why, names := range r.skipped {
		if !strings.HasPrefix(why, leftToAll) {
			continue
		}
		for _, name := range names {
			pkg, _, _ := strings.Cut(name, ".")
			packages[pkg]++
		}
		delete(r.skipped, why)
	}
	if len(packages) == 0 {
		return
	}
	var parts []string
	for _, pkg := range slices.Sorted(maps.Keys(packages)) {
		parts = append(parts, fmt.Sprintf("%s %d", pkg, packages[pkg]))
	}
	fmt.Fprintf(r.out, "%s: tests of %s\n", leftToAll, strings.Join(parts, ", "))
}
