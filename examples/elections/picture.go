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

	middle, reach = high / 2, high/2 - 40 // of bars: their axis, and how far they go from it
)

// bars are a panel of the picture: in each trouble a bar of each algorithm, which goes up for one thing and down for another.
type bars struct {
	title    string
	legend   string // of what is below a bar; "": nothing is
	ticks    []float64
	up, down func(row) float64
	scale    func(float64) float64     // 0 to 1
	below    func(row) (digits string) // a digit or two; nil: none
	upright  func(row) (words string)  // words instead of a bar that goes down; nil: none
}

var panels = []bars{
	{
		title: "Messages for a new leader (up), new leaders (down)", ticks: counts, scale: logarithmic,
		up: row.calls, down: func(r row) float64 { return r.of(float64(r.sum.elections)) },
	},
	{
		title: "Seconds without a leader (up), with two (down)", legend: "below: the most leaders at once",
		ticks: []float64{-10, -5, 0, 5, 10}, scale: func(seconds float64) float64 { return seconds / 10 },
		up:    func(r row) float64 { return r.of(r.sum.none.Seconds()) },
		down:  func(r row) float64 { return r.of(r.sum.several.Seconds()) },
		below: func(r row) string { return fmt.Sprint(r.sum.most) },
	},
	{
		title: "Stale writes without a fence (up), with one (down)", ticks: counts, scale: logarithmic,
		up: func(r row) float64 { return r.of(float64(r.sum.unfenced)) },
		down: func(r row) float64 {
			if !r.algorithm.tokens {
				return 0
			}
			return r.of(float64(r.sum.fenced))
		},
		upright: func(r row) string {
			if r.algorithm.tokens {
				return ""
			}
			return noToken
		},
	},
}

var counts = []float64{-1000, -100, -10, 0, 10, 100, 1000}

// logarithmic has a zero.
func logarithmic(count float64) float64 { return math.Log10(1+count) / 3 }

// draw draws four panels: what an election costs by the number of nodes, and what each trouble does.
func draw(rows []row) string {
	var b strings.Builder
	fmt.Fprintf(&b, `<svg xmlns="http://www.w3.org/2000/svg" width="%.0f" height="%.0f" font-family="sans-serif" font-size="12">`+"\n", 2*wide+20, 2*high+60)
	b.WriteString(`<rect width="100%" height="100%" fill="white"/>` + "\n")
	drawCosts(&b, rows)
	for i, p := range panels {
		fmt.Fprintf(&b, `<g transform="translate(%.0f %.0f)">`+"\n", float64((i+1)%2)*(wide+10), float64((i+1)/2)*(high+10))
		drawBars(&b, p, rows)
		b.WriteString("</g>\n")
	}
	x := left
	for _, a := range algorithms {
		fmt.Fprintf(&b, `<rect x="%.0f" y="%.0f" width="12" height="12" fill="%s"/><text x="%.0f" y="%.0f">%s</text>`+"\n",
			x, 2*high+35, colours[a.name], x+17, 2*high+45, a.name)
		x += 120
	}
	b.WriteString("</svg>\n")
	return b.String()
}

// drawCosts draws the messages of an election after a crash over the number of nodes, both by powers of ten.
func drawCosts(b *strings.Builder, rows []row) {
	at := func(n int, messages float64) (x, y float64) {
		x = left + (wide-left-20)*math.Log(float64(n)/3)/math.Log(50.0/3)
		return x, high - low - (high-low-40)*math.Log10(max(messages, 1))/4
	}
	fmt.Fprintf(b, `<text x="%.0f" y="20" font-weight="bold">Messages for a new leader after a crash, by nodes</text>`+"\n", left)
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
		for _, r := range rows {
			if r.algorithm.name == a.name && r.trouble.name == "crash" {
				x, y := at(r.nodes, r.calls())
				path = append(path, fmt.Sprintf("%.1f %.1f", x, y))
			}
		}
		fmt.Fprintf(b, `<path d="M%s" fill="none" stroke="%s" stroke-width="2.5"/>`+"\n", strings.Join(path, " L"), colours[a.name])
	}
}

// drawBars draws what the nodes of the first table did: means of a run.
func drawBars(b *strings.Builder, p bars, rows []row) {
	fmt.Fprintf(b, `<text x="%.0f" y="20" font-weight="bold">%s</text>`+"\n", left, p.title)
	legend := fmt.Sprintf("%d nodes, mean of a run", tabled[0])
	if p.legend != "" {
		legend += "; " + p.legend
	}
	fmt.Fprintf(b, `<text x="%.0f" y="34" font-size="10">%s</text>`+"\n", left, legend)
	for _, tick := range p.ticks {
		y := middle - math.Copysign(p.scale(math.Abs(tick)), tick)*reach
		fmt.Fprintf(b, `<path d="M%.0f %.1fH%.0f" stroke="#ddd"/><text x="%.0f" y="%.1f" text-anchor="end">%.0f</text>`+"\n",
			left, y, wide-20, left-8, y+4, math.Abs(tick))
	}
	fmt.Fprintf(b, `<path d="M%.0f %.0fH%.0f" stroke="black"/>`+"\n", left, middle, wide-20)
	group := (wide - left - 20) / float64(len(troubles))
	for i, t := range troubles {
		x := left + group*float64(i)
		fmt.Fprintf(b, `<text x="%.1f" y="%.0f" text-anchor="middle">%s</text>`+"\n", x+group/2, high-5, t.name)
		for _, r := range rows {
			if r.nodes == tabled[0] && r.trouble.name == t.name {
				x += group / 6
				p.draw(b, r, x, group/7)
			}
		}
	}
}

// draw draws the bar of one algorithm in one trouble.
func (p bars) draw(b *strings.Builder, r row, x, width float64) {
	up, down := p.scale(p.up(r))*reach, p.scale(p.down(r))*reach
	fmt.Fprintf(b, `<rect x="%.1f" y="%.1f" width="%.1f" height="%.1f" fill="%s"/>`+"\n",
		x, middle-up, width, up+down, colours[r.algorithm.name])
	if p.below != nil {
		fmt.Fprintf(b, `<text x="%.1f" y="%.1f" font-size="10" text-anchor="middle">%s</text>`+"\n", x+width/2, middle+down+11, p.below(r))
	}
	if p.upright != nil && p.upright(r) != "" {
		fmt.Fprintf(b, `<text transform="translate(%.1f %.1f) rotate(-90)" font-size="10" text-anchor="end">%s</text>`+"\n",
			x+width/2+3, middle+4, p.upright(r))
	}
}
