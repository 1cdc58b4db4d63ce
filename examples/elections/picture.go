package main

import (
	"fmt"
	"math"
	"strings"
)

// colours tell the algorithms apart, also for those who do not see red and green (Okabe and Ito).
var colours = map[string]string{"Bully": "#D55E00", "Ring": "#E69F00", "Raft's terms": "#0072B2", "lease": "#009E73"}

const (
	wide, high = 430.0, 300.0 // a panel with its axes
	left, low  = 60.0, 50.0
)

// draw draws two panels: what an election costs, and how long two led at once.
func draw(costs []cost, troubled []row) string {
	var b strings.Builder
	fmt.Fprintf(&b, `<svg xmlns="http://www.w3.org/2000/svg" width="%.0f" height="%.0f" font-family="sans-serif" font-size="12">`+"\n", 2*wide+20, high+50)
	b.WriteString(`<rect width="100%" height="100%" fill="white"/>` + "\n")
	drawCosts(&b, costs)
	drawSplit(&b, troubled)
	x := left
	for _, a := range algorithms {
		fmt.Fprintf(&b, `<rect x="%.0f" y="%.0f" width="12" height="12" fill="%s"/><text x="%.0f" y="%.0f">%s</text>`+"\n",
			x, high+25, colours[a.name], x+17, high+35, a.name)
		x += 120
	}
	b.WriteString("</svg>\n")
	return b.String()
}

// drawCosts draws messages an election over the number of nodes, both by powers of ten.
func drawCosts(b *strings.Builder, costs []cost) {
	at := func(n int, messages float64) (x, y float64) {
		x = left + (wide-left-20)*math.Log(float64(n)/3)/math.Log(50.0/3)
		return x, high - low - (high-low-40)*math.Log10(max(messages, 1))/4
	}
	fmt.Fprintf(b, `<text x="%.0f" y="20" font-weight="bold">Messages an election, by nodes</text>`+"\n", left)
	for power := range 5 {
		_, y := at(3, math.Pow10(power))
		fmt.Fprintf(b, `<path d="M%.0f %.1fH%.0f" stroke="#ddd"/><text x="%.0f" y="%.1f" text-anchor="end">%.0f</text>`+"\n",
			left, y, wide-20, left-8, y+4, math.Pow10(power))
	}
	for _, n := range sizes {
		x, y := at(n, 1)
		fmt.Fprintf(b, `<text x="%.1f" y="%.1f" text-anchor="middle">%d</text>`+"\n", x, y+20, n)
	}
	for _, a := range algorithms {
		var path []string
		for _, c := range costs {
			if c.algorithm == a.name {
				x, y := at(c.nodes, c.calls)
				path = append(path, fmt.Sprintf("%.1f %.1f", x, y))
			}
		}
		fmt.Fprintf(b, `<path d="M%s" fill="none" stroke="%s" stroke-width="2.5"/>`+"\n", strings.Join(path, " L"), colours[a.name])
	}
}

// drawSplit draws, for each trouble, how long nobody led (above) and several did (below).
func drawSplit(b *strings.Builder, rows []row) {
	const seconds = 10.0
	middle := high / 2
	x0 := wide + left + 10
	fmt.Fprintf(b, `<text x="%.0f" y="20" font-weight="bold">Seconds without a leader (up), with two (down)</text>`+"\n", x0)
	fmt.Fprintf(b, `<path d="M%.0f %.0fH%.0f" stroke="black"/>`+"\n", x0, middle, 2*wide)
	scale := (middle - 40) / seconds
	for _, s := range []float64{-10, -5, 0, 5, 10} {
		fmt.Fprintf(b, `<text x="%.0f" y="%.1f" text-anchor="end">%.0f</text>`+"\n", x0-8, middle-s*scale+4, math.Abs(s))
	}
	group := (wide - left - 20) / float64(len(troubles))
	for i, t := range troubles {
		x := x0 + group*float64(i)
		fmt.Fprintf(b, `<text x="%.1f" y="%.0f" text-anchor="middle">%s</text>`+"\n", x+group/2, high-5, t.name)
		for _, r := range rows {
			if r.trouble.name != t.name {
				continue
			}
			x += group / 6
			none, several := r.sum.none.Seconds()/float64(r.runs), r.sum.several.Seconds()/float64(r.runs)
			fmt.Fprintf(b, `<rect x="%.1f" y="%.1f" width="%.1f" height="%.1f" fill="%s"/>`+"\n",
				x, middle-none*scale, group/7, (none+several)*scale, colours[r.algorithm.name])
		}
	}
}
