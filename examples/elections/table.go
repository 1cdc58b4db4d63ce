package main

import (
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"
)

var (
	sizes  = []int{3, 5, 10, 20, 50}
	tabled = []int{5, 3, 50} // those with a table of all troubles; of the others, the crash says what an election costs
)

// noToken stands where a fence has nothing to compare.
const noToken = "no token"

// row is what all runs of one algorithm, on so many nodes, through one trouble have shown.
type row struct {
	algorithm algorithm
	trouble   trouble
	nodes     int
	runs      int
	sum       outcome // most: the most of any run
}

// measure runs everything, by the number of nodes.
func measure(seed uint64, runs int, sizes ...int) []row {
	var rows []row
	for _, n := range sizes {
		for _, a := range algorithms {
			for _, t := range troubles {
				if t.name == "crash" || slices.Contains(tabled, n) {
					rows = append(rows, row{algorithm: a, trouble: t, nodes: n, runs: runs})
				}
			}
		}
	}
	var all sync.WaitGroup
	for i := range rows {
		all.Go(func() { rows[i].measure(seed) })
	}
	all.Wait()
	return rows
}

func (r *row) measure(seed uint64) {
	for i := range r.runs {
		r.sum.add(simulate(r.algorithm, r.trouble, r.nodes, seed+uint64(i)))
	}
}

func (o *outcome) add(other outcome) {
	o.elections += other.elections
	o.none += other.none
	o.several += other.several
	o.most = max(o.most, other.most)
	o.unfenced += other.unfenced
	o.fenced += other.fenced
	o.writes += other.writes
	o.calls += other.calls
	o.rate += other.rate
}

// of makes a sum over all runs the mean of one.
func (r row) of(sum float64) float64 { return sum / float64(r.runs) }

// calls is how many messages a new leader took; where none was found, all of them.
func (r row) calls() float64 { return float64(r.sum.calls) / float64(max(r.sum.elections, 1)) }

// troubleTable is what so many nodes did in all troubles.
func troubleTable(rows []row, nodes int) string {
	var b strings.Builder
	fmt.Fprintf(&b, "| %d nodes | trouble | new leaders | messages for each | without a leader | leaders at once | for | stale writes taken | with a fence |\n", nodes)
	b.WriteString("| --- | --- | ---: | ---: | ---: | ---: | ---: | ---: | ---: |\n")
	for _, r := range rows {
		if r.nodes != nodes {
			continue
		}
		name := ""
		if r.trouble.name == troubles[0].name {
			name = r.algorithm.name
		}
		fenced := fmt.Sprint(r.sum.fenced)
		if !r.algorithm.tokens {
			fenced = noToken
		}
		fmt.Fprintf(&b, "| %s | %s | %.1f | %.0f | %s | %d | %s | %d | %s |\n", name, r.trouble.name,
			r.of(float64(r.sum.elections)), r.calls(), mean(r.sum.none, r.runs), r.sum.most, mean(r.sum.several, r.runs), r.sum.unfenced, fenced)
	}
	return b.String()
}

// mean is a mean time as people read it.
func mean(sum time.Duration, n int) string {
	d := sum / time.Duration(n)
	if d >= time.Second {
		return fmt.Sprintf("%.1f s", d.Seconds())
	}
	return fmt.Sprintf("%d ms", d.Round(time.Millisecond).Milliseconds())
}

// costTable is what a crash costs, and peace.
func costTable(rows []row) string {
	var b strings.Builder
	b.WriteString("| nodes |")
	for _, n := range sizes {
		fmt.Fprintf(&b, " %d |", n)
	}
	b.WriteString("\n| --- |" + strings.Repeat(" ---: |", len(sizes)) + "\n")
	for _, a := range algorithms {
		for _, what := range []struct {
			name string
			of   func(row) float64
		}{
			{"messages an election", row.calls},
			{"messages a second in peace", func(r row) float64 { return r.of(r.sum.rate) }},
		} {
			fmt.Fprintf(&b, "| %s: %s |", a.name, what.name)
			for _, r := range rows {
				if r.algorithm.name == a.name && r.trouble.name == "crash" {
					fmt.Fprintf(&b, " %.0f |", what.of(r))
				}
			}
			b.WriteString("\n")
		}
	}
	return b.String()
}
