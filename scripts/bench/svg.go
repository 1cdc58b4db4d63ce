package main

import (
	"encoding/xml"
	"fmt"
	"math"
	"strings"
)

// The page behind a chart is light or dark, and a picture in a page is not told which: each of these can be read on
// both.
const (
	inkColour  = "#7a7d82" // text and axis
	ownColour  = "#2f81d6"
	peerColour = "#a97142"
	gridColour = "#7a7d82" // with little opacity
)

// Places in a chart, in pixels.
const (
	chartWidth   = 760
	labelWidth   = 180 // of what stands left of the bars
	valueWidth   = 100 // of what stands right of the longest
	headHeight   = 52
	groupHeight  = 28
	barHeight    = 14
	barPitch     = 22
	axisHeight   = 34
	textSize     = 13
	smallSize    = 11
	whiskerSize  = 4 // half of its height
	fontFamilies = "system-ui, -apple-system, 'Segoe UI', 'DejaVu Sans', sans-serif"
)

// axis turns values into places.
type axis struct {
	low, high float64
	log       bool
	marks     []float64
}

// axis covers all bars with round numbers.
func (c chart) axis() axis {
	low, high := math.Inf(1), 0.0
	for _, g := range c.groups {
		for _, b := range g.bars {
			if b.value > 0 {
				low = min(low, b.value)
			}
			if b.low > 0 {
				low = min(low, b.low)
			}
			high = max(high, b.value, b.high)
		}
	}
	if c.log {
		a := axis{low: math.Pow(10, math.Floor(math.Log10(low))), high: math.Pow(10, math.Ceil(math.Log10(high))), log: true}
		if 2*a.low > low { // a bar of the least value is to be seen, too
			a.low /= 10
		}
		for mark := a.low; mark <= a.high*1.001; mark *= 10 {
			a.marks = append(a.marks, mark)
		}
		return a
	}
	step := roundStep(high)
	a := axis{high: math.Ceil(high/step) * step}
	for n := 0; float64(n)*step <= a.high*1.001; n++ {
		a.marks = append(a.marks, float64(n)*step)
	}
	return a
}

// roundStep returns 1, 2 or 5 times a power of ten, so that four to ten steps make up the number.
func roundStep(high float64) float64 {
	const steps = 4
	unit := math.Pow(10, math.Floor(math.Log10(high/steps)))
	for _, n := range []float64{5, 2} {
		if high/(n*unit) >= steps {
			return n * unit
		}
	}
	return unit
}

// x returns the place of a value.
func (a axis) x(v float64) float64 {
	share := (v - a.low) / (a.high - a.low)
	if a.log {
		share = math.Log(max(v, a.low)/a.low) / math.Log(a.high/a.low)
	}
	return labelWidth + share*(chartWidth-labelWidth-valueWidth)
}

// drawing is an SVG that grows.
type drawing struct{ strings.Builder }

func (d *drawing) line(x1, y1, x2, y2 float64, style string) {
	fmt.Fprintf(d, "<line x1=\"%.1f\" y1=\"%.1f\" x2=\"%.1f\" y2=\"%.1f\" %s/>\n", x1, y1, x2, y2, style)
}

func (d *drawing) text(x, y float64, size int, style, text string) {
	fmt.Fprintf(d, "<text x=\"%.1f\" y=\"%.1f\" font-size=\"%d\" %s>%s</text>\n", x, y, size, style, escape(text))
}

// svg draws the chart. The same results give the same bytes.
func (c chart) svg() string {
	var d drawing
	height := headHeight + axisHeight
	for _, g := range c.groups {
		height += len(g.bars) * barPitch
		if g.label != "" {
			height += groupHeight
		}
	}
	fmt.Fprintf(&d, "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"-8 0 %d %d\" width=\"%d\" height=\"%d\" role=\"img\" "+
		"font-family=\"%s\" fill=\"%s\">\n<title>%s</title>\n", chartWidth, height, chartWidth, height, fontFamilies, inkColour, escape(c.title))
	d.text(0, 18, textSize+3, `font-weight="600"`, c.title)
	note := c.note
	if c.log {
		note = strings.TrimPrefix(note+"; the axis is logarithmic", "; ")
	}
	d.text(0, 38, smallSize, "", note)
	a := c.axis()
	c.drawAxis(&d, a, float64(height-axisHeight))
	y := float64(headHeight)
	for _, g := range c.groups {
		if g.label != "" {
			d.text(0, y+groupHeight-10, textSize, `font-weight="600"`, g.label)
			y += groupHeight
		}
		for _, b := range g.bars {
			c.drawBar(&d, a, b, y)
			y += barPitch
		}
	}
	d.WriteString("</svg>\n")
	return d.String()
}

func (c chart) drawAxis(d *drawing, a axis, bottom float64) {
	for i, mark := range a.marks {
		x := a.x(mark)
		d.line(x, headHeight, x, bottom, fmt.Sprintf("stroke=%q stroke-opacity=\"0.35\"", gridColour))
		text := axisNumber(mark)
		if i == len(a.marks)-1 && c.unit != "" {
			text += " " + c.unit
		}
		d.text(x, bottom+18, smallSize, `text-anchor="middle"`, text)
	}
}

// axisNumber writes a round number.
func axisNumber(v float64) string {
	if v >= 1 {
		return thousands(int(math.Round(v)))
	}
	return fmt.Sprintf("%.3g", v)
}

// drawBar draws a bar, its whisker, and its number behind both.
func (c chart) drawBar(d *drawing, a axis, b bar, y float64) {
	colour := ownColour
	if b.peer {
		colour = peerColour
	}
	middle := y + barPitch/2
	d.text(labelWidth-8, middle+4.5, textSize, `text-anchor="end"`, b.label)
	from, to := a.x(a.low), a.x(b.value)
	fmt.Fprintf(d, "<rect x=\"%.1f\" y=\"%.1f\" width=\"%.1f\" height=\"%d\" rx=\"2\" fill=\"%s\" fill-opacity=\"0.5\" stroke=\"%s\"/>\n",
		from, middle-barHeight/2, max(to-from, 1), barHeight, colour, colour)
	low, high := a.x(max(b.low, a.low)), a.x(b.high)
	if b.high > b.low {
		style := fmt.Sprintf("stroke=%q stroke-width=\"2\"", colour)
		d.line(low, middle, high, middle, style)
		d.line(low, middle-whiskerSize, low, middle+whiskerSize, style)
		d.line(high, middle-whiskerSize, high, middle+whiskerSize, style)
	}
	d.text(max(to, high)+8, middle+4.5, smallSize+1, "", quantity(b.value, c.unit))
}

func escape(s string) string {
	var b strings.Builder
	_ = xml.EscapeText(&b, []byte(s)) // a strings.Builder takes everything
	return b.String()
}
