package main

import (
	"fmt"
	"strings"
	"time"
)

const members = 5 // of the table of troubles

var sizes = []int{3, 5, 10, 20, 50}

// row is what all runs of one algorithm through one trouble have shown.
type row struct {
	algorithm algorithm
	trouble   trouble
	runs      int
	sum       tally // most: the most of any run
}

// cost is what an algorithm sends on so many nodes, in the mean of all runs.
type cost struct {
	algorithm     string
	nodes         int
	calls, upkeep float64
}

// measure runs everything.
func measure(seed uint64, runs int) (troubled []row, costs []cost) {
	for _, a := range algorithms {
		for _, t := range troubles {
			r := row{algorithm: a, trouble: t, runs: runs}
			for i := range runs {
				r.sum.add(simulate(a, t, members, seed+uint64(i)).tally)
			}
			troubled = append(troubled, r)
		}
		for _, n := range sizes {
			c := cost{algorithm: a.name, nodes: n}
			few := max(1, runs/10)
			for i := range few {
				o := simulate(a, troubles[0], n, seed+uint64(i))
				c.calls += float64(o.calls) / float64(few)
				c.upkeep += o.rate / float64(few)
			}
			costs = append(costs, c)
		}
	}
	return troubled, costs
}

func (t *tally) add(o tally) {
	t.elections += o.elections
	t.none += o.none
	t.several += o.several
	t.most = max(t.most, o.most)
	t.unfenced += o.unfenced
	t.fenced += o.fenced
	t.writes += o.writes
}

func troubleTable(rows []row) string {
	var b strings.Builder
	b.WriteString("| | trouble | new leaders | without a leader | leaders at once | for | stale writes taken | with a fence |\n")
	b.WriteString("| --- | --- | ---: | ---: | ---: | ---: | ---: | ---: |\n")
	for i, r := range rows {
		name := ""
		if i == 0 || rows[i-1].algorithm.name != r.algorithm.name {
			name = r.algorithm.name
		}
		fenced := fmt.Sprint(r.sum.fenced)
		if !r.algorithm.tokens {
			fenced = "no token"
		}
		fmt.Fprintf(&b, "| %s | %s | %.1f | %s | %d | %s | %d | %s |\n", name, r.trouble.name,
			float64(r.sum.elections)/float64(r.runs), mean(r.sum.none, r.runs), r.sum.most, mean(r.sum.several, r.runs), r.sum.unfenced, fenced)
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

func costTable(costs []cost) string {
	var b strings.Builder
	b.WriteString("| nodes |")
	for _, n := range sizes {
		fmt.Fprintf(&b, " %d |", n)
	}
	b.WriteString("\n| --- |" + strings.Repeat(" ---: |", len(sizes)) + "\n")
	for _, a := range algorithms {
		for _, what := range []struct {
			name string
			of   func(cost) float64
		}{
			{"messages an election", func(c cost) float64 { return c.calls }},
			{"messages a second in peace", func(c cost) float64 { return c.upkeep }},
		} {
			fmt.Fprintf(&b, "| %s: %s |", a.name, what.name)
			for _, c := range costs {
				if c.algorithm == a.name {
					fmt.Fprintf(&b, " %.0f |", what.of(c))
				}
			}
			b.WriteString("\n")
		}
	}
	return b.String()
}
