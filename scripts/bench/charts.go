package main

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// painting are the options of what is made from results.
type painting struct {
	*flag.FlagSet
	in *string
}

func newPainting(name string) painting {
	flags := flag.NewFlagSet(name, flag.ContinueOnError)
	return painting{flags, flags.String("in", "bench.json", "the results; several files with commas between them, of which a later one counts")}
}

// chart is bars in groups, on one axis.
type chart struct {
	name, title, note string
	unit              string
	log               bool
	groups            []group
}

type group struct {
	label string
	bars  []bar
}

// bar is a value and how far it spreads.
type bar struct {
	label            string
	value, low, high float64
	peer             bool // somebody else's
}

func chartsCommand(args []string) error {
	flags := newPainting("charts")
	out := flags.String("out", "docs/charts", "the folder that gets them")
	if err := flags.Parse(args); err != nil {
		return err
	}
	r, err := readReports(*flags.in)
	if err != nil {
		return err
	}
	if err := os.MkdirAll(*out, 0o755); err != nil { //nolint:gosec // anybody may read pages
		return err
	}
	for _, c := range r.charts() {
		path := filepath.Join(*out, c.name+".svg")
		if err := os.WriteFile(path, []byte(c.svg()), 0o644); err != nil { //nolint:gosec // as above
			return err
		}
		fmt.Println(path)
	}
	return nil
}

// charts are those for which there are results.
func (r *report) charts() (all []chart) {
	const quartiles = "median, and from the lower to the upper quartile"
	for _, c := range []struct {
		measure, each string // each: what a size counts; "": the measure has no sizes
		chart
	}{
		{wholeTime, "", chart{name: "whole", title: "A whole run of true", note: quartiles}},
		{gapTime, "", chart{name: "handover", title: "A handover to one that waits", note: quartiles}},
		{memoryUse, "", chart{name: "memory", title: "Memory beside a command that sleeps", note: quartiles}},
		{wakeupRate, "", chart{name: "wakeups", title: "Wake-ups a minute beside a command that sleeps", note: quartiles}},
		{crowdGap, "standbys", chart{name: "standbys-handover", title: "A handover to one of many", note: quartiles}},
		{crowdHerd, "standbys", chart{name: "standbys-requests", title: "Requests at the server, one handover", note: quartiles}},
		{crowdRequests, "standbys", chart{name: "standbys-idle", title: "Requests at the server a minute, nothing happens"}},
		{lateMax, "jobs", chart{name: "late", title: "From the tick to the start of the last command", note: "median of ticks, and quartiles"}},
	} {
		c.log = c.each != ""
		for _, m := range r.sizesOf(c.measure) {
			g := m.group()
			if c.each != "" {
				g.label = thousands(m.Size) + " " + c.each
			}
			if slices.ContainsFunc(g.bars, func(b bar) bool { return b.value > 0 }) {
				c.unit = m.Unit
				c.groups = append(c.groups, g)
			}
		}
		if len(c.groups) > 0 {
			all = append(all, c.chart)
		}
	}
	return all
}

// group makes a bar of each row that has values.
func (m *measure) group() (g group) {
	for _, row := range m.Rows {
		if len(row.Values) == 0 {
			continue
		}
		g.bars = append(g.bars, bar{
			label: row.Way, value: max(0, median(row.Values)), low: percentile(row.Values, 25), high: percentile(row.Values, 75),
			peer: !strings.Contains(row.Way, "leaderrun"),
		})
	}
	return g
}
