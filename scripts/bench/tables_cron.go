package main

import (
	"fmt"
	"strings"
)

const lateHead = "| | median | p99 | max | median, ratio to its peer | max, ratio to its peer | runs | twice |\n" +
	"| --- | --- | --- | --- | --- | --- | --- | --- |\n"

// lateTable tells how late the commands began, as medians of ticks, and between ticks from the least to the most.
func lateTable(r *report, jobs int) string {
	m := r.find(runsSeen, jobs)
	if m == nil {
		return ""
	}
	text := strings.Builder{}
	text.WriteString(lateHead)
	for _, row := range m.Rows {
		of := func(name string) []float64 { return r.find(name, jobs).values(row.Way) }
		runs, twice := 0.0, 0.0
		for i, n := range row.Values {
			runs, twice = runs+n, twice+of(runsTwice)[i]
		}
		count := fmt.Sprintf("%s of %s | %s", thousands(int(runs)), thousands(jobs*len(row.Values)), thousands(int(twice)))
		if len(of(lateMedian)) == 0 {
			fmt.Fprintf(&text, "| %s | | | | | | %s |\n", row.Way, count)
			continue
		}
		spread := func(name string) string { return ticks(of(name), "ms") }
		ratio := func(name string) string { return tickRatio(of(name), r.find(name, jobs).values(row.Peer)) }
		fmt.Fprintf(&text, "| %s | %s | %s | %s | %s | %s | %s |\n", row.Way, spread(lateMedian), spread(lateMost), spread(lateMax),
			ratio(lateMedian), ratio(lateMax), count)
	}
	return text.String()
}

// ticks is the median of a few ticks, and where they differ the least and the most.
func ticks(v []float64, unit string) string {
	if len(v) == 0 {
		return ""
	}
	text, low, high := quantity(median(v), unit), percentile(v, 0), percentile(v, 100)
	if number(low) == number(high) {
		return text
	}
	return fmt.Sprintf("%s (%s)", text, between(low, high, unit))
}

// tickRatio is the median of the ratios of single ticks, and where they differ the least and the most.
func tickRatio(v, to []float64) string {
	var ratios []float64
	for i := range min(len(v), len(to)) {
		ratios = append(ratios, v[i]/to[i])
	}
	return ticks(ratios, "")
}

const daemonHead = "| | memory (PSS) before | after a tick | CPU, idle | requests, idle | connections, idle | at most in a tick | scripts a run | CPU a run |\n" +
	"| --- | --- | --- | --- | --- | --- | --- | --- | --- |\n"

// daemonTable tells what the daemons of a way cost together.
func daemonTable(r *report, jobs int) string {
	m := r.find(daemonFresh, jobs)
	if m == nil {
		return ""
	}
	text := strings.Builder{}
	text.WriteString(daemonHead)
	for _, row := range m.Rows {
		fmt.Fprintf(&text, "| %s ", row.Way)
		for _, name := range []string{
			daemonFresh, daemonMemory, daemonCPU, daemonRequests, daemonConnections, tickConnections, runScripts, runCPU,
		} {
			other := r.find(name, jobs)
			cell := ""
			if v := other.values(row.Way); len(v) > 0 {
				cell = quantity(median(v), other.Unit)
			}
			fmt.Fprintf(&text, "| %s ", cell)
		}
		text.WriteString("|\n")
	}
	return text.String()
}

// guardianText tells what a guardian takes.
func guardianText(r *report, _ int) string {
	m := r.find(guardianMemory, 0)
	if m == nil {
		return ""
	}
	v := m.Rows[0].Values
	return fmt.Sprintf("While %d commands run, a guardian has %s (median; %s).\n",
		len(v), quantity(median(v), m.Unit), between(percentile(v, 0), percentile(v, 100), m.Unit))
}
