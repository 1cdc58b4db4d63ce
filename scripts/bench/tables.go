package main

import (
	"flag"
	"fmt"
	"maps"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// tablers are the tables by the name of their mark in a page. Those of a number of jobs have it in their mark.
var tablers = []struct {
	name string
	make func(r *report, size int) string
}{
	{"machine", func(r *report, _ int) string { return r.Made.text() }},
	{"whole", single(wholeTime)},
	{"handover", single(gapTime)},
	{"memory", single(memoryUse)},
	{"wakeups", single(wakeupRate)},
	{"late", lateTable},
	{"daemon", daemonTable},
	{"guardian", guardianText},
}

func tablesCommand(args []string) error {
	flags := flag.NewFlagSet("tables", flag.ContinueOnError)
	in := flags.String("in", "bench.json", "the results; several files with commas between them, of which a later one counts")
	doc := flags.String("doc", "docs/design/benchmarks.md", "the page; what stands in it between <!-- bench: NAME --> and <!-- /bench --> is replaced")
	if err := flags.Parse(args); err != nil {
		return err
	}
	r, err := readReports(*in)
	if err != nil {
		return err
	}
	page, err := os.ReadFile(*doc)
	if err != nil {
		return err
	}
	filled, err := fill(string(page), r)
	if err != nil {
		return fmt.Errorf("%s: %w", *doc, err)
	}
	return os.WriteFile(*doc, []byte(filled), 0o600)
}

// marked is a place in a page for a table: its mark, whose name may end with a number, and what stands there.
var marked = regexp.MustCompile(`(?s)(<!-- bench: ([a-z ]+?)(?: (\d+))? -->\n).*?(<!-- /bench -->)`)

// fill puts the tables into a page. Those of which nothing was measured stay as they are.
func fill(page string, r *report) (string, error) {
	if open, all := strings.Count(page, "<!-- bench: "), len(marked.FindAllString(page, -1)); open != all {
		return "", fmt.Errorf("%d marks, of which %d have an end", open, all)
	}
	var err error
	filled := marked.ReplaceAllStringFunc(page, func(place string) string {
		part := marked.FindStringSubmatch(place)
		size, _ := strconv.Atoi(part[3])
		for _, t := range tablers {
			if t.name != part[2] {
				continue
			}
			if table := t.make(r, size); table != "" {
				return part[1] + "\n" + table + "\n" + part[4]
			}
			return place
		}
		err = fmt.Errorf("no table %q", part[2])
		return place
	})
	return filled, err
}

// text returns all tables, for a terminal.
func (r *report) text() string {
	var text strings.Builder
	sizes := map[int]bool{}
	for _, m := range r.Measures {
		sizes[m.Size] = true
	}
	for _, t := range tablers {
		last := ""
		for _, size := range slices.Sorted(maps.Keys(sizes)) {
			if table := t.make(r, size); table != "" && table != last { // most are the same whatever the size
				fmt.Fprintf(&text, "\n%s\n\n%s", t.name, table)
				last = table
			}
		}
	}
	return text.String()
}

// text names the machine and the versions.
func (o origin) text() string {
	var named []string
	for _, name := range slices.Sorted(maps.Keys(o.Versions)) {
		if o.Versions[name] != "" {
			named = append(named, name+" "+o.Versions[name])
		}
	}
	const mbPerGB = 1024
	return fmt.Sprintf("%s, commit %s: %d cores (%s), %d GB, %s, Go %s; %s.\n", o.Date, o.Commit, o.Cores, o.CPU,
		(o.MemoryMB+mbPerGB/2)/mbPerGB, o.Kernel, o.Go, strings.Join(named, ", "))
}

const compareHead = "| | median | quartiles | ratio to flock | ratio to its peer |\n| --- | --- | --- | --- | --- |\n"

// single makes the table of a measure that has no sizes.
func single(name string) func(*report, int) string {
	return func(r *report, _ int) string {
		m := r.find(name, 0)
		if m == nil {
			return ""
		}
		return compareHead + compareRows(m)
	}
}

// compareRows are medians with their quartiles, and each median as a ratio to flock's and to its peer's.
func compareRows(m *measure) string {
	var text strings.Builder
	for _, row := range m.Rows {
		v := row.Values
		if len(v) == 0 {
			fmt.Fprintf(&text, "| %s | %s | | | |\n", row.Way, row.Note)
			continue
		}
		peer := against(v, m.values(row.Peer))
		if peer != "" {
			peer += ", " + row.Peer
		}
		fmt.Fprintf(&text, "| %s | %s | %s | %s | %s |\n", row.Way, quantity(median(v), m.Unit),
			between(percentile(v, 25), percentile(v, 75), m.Unit), flockRatio(m, row), peer)
	}
	return text.String()
}

// flockRatio compares a row with flock's, which is not compared with itself.
func flockRatio(m *measure, row row) string {
	if row.Way == baseline {
		return ""
	}
	return against(row.Values, m.values(baseline))
}

// against is a ratio with its interval, or "" where there is none.
func against(v, to []float64) string {
	if len(v) == 0 || len(to) == 0 || percentile(to, 0) == 0 {
		return ""
	}
	r := ratioOf(v, to)
	return fmt.Sprintf("%s (%s to %s)", number(r.value), number(r.low), number(r.high))
}
