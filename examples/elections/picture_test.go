package main

import (
	"encoding/xml"
	"fmt"
	"slices"
	"strings"
	"testing"
)

// drawing is what a test reads of the picture.
type drawing struct {
	Panels []struct {
		Bars []struct {
			Y      float64 `xml:"y,attr"`
			Height float64 `xml:"height,attr"`
			Fill   string  `xml:"fill,attr"`
		} `xml:"rect"`
		Texts []string `xml:"text"`
	} `xml:"g"`
}

// drawn draws the same numbers for everybody.
func drawn(t *testing.T, o outcome) drawing {
	t.Helper()
	var rows []row
	for _, a := range algorithms {
		for _, trouble := range troubles {
			rows = append(rows, row{algorithm: a, trouble: trouble, nodes: tabled[0], runs: 1, sum: o})
		}
	}
	var d drawing
	if err := xml.Unmarshal([]byte(draw(rows)), &d); err != nil {
		t.Fatal(err)
	}
	if len(d.Panels) != len(panels) {
		t.Fatalf("%d panels with bars, want %d", len(d.Panels), len(panels))
	}
	for i, p := range d.Panels {
		if want := len(algorithms) * len(troubles); len(p.Bars) != want {
			t.Fatalf("panel %d has %d bars, want %d", i, len(p.Bars), want)
		}
	}
	return d
}

func count(texts []string, text string) (n int) {
	for _, other := range texts {
		if other == text {
			n++
		}
	}
	return n
}

// Who has no tokens has no bar of what a fence lets through, as if there were one: the picture says so, as the tables do.
func TestNoTokenNoFence(t *testing.T) {
	t.Parallel()
	p := drawn(t, outcome{tally: tally{unfenced: 9, fenced: 9}}).Panels[2]
	without := 0
	for _, a := range algorithms {
		if !a.tokens {
			without++
		}
		for _, b := range p.Bars {
			if goesDown := b.Y+b.Height > middle; b.Fill == colours[a.name] && goesDown != a.tokens {
				t.Errorf("%s: a bar from %v, %v high, with its axis at %v; it has tokens: %v", a.name, b.Y, b.Height, float64(middle), a.tokens)
			}
		}
	}
	if got, want := count(p.Texts, noToken), without*len(troubles); got != want {
		t.Errorf("%q stands there %d times, want %d", noToken, got, want)
	}
}

// How many led at once is drawn, also where it was for no longer than can be seen, and of how many nodes all this is.
func TestLeadersAtOnceAreDrawn(t *testing.T) {
	t.Parallel()
	d := drawn(t, outcome{tally: tally{most: 7}})
	if got, want := count(d.Panels[1].Texts, "7"), len(algorithms)*len(troubles); got != want {
		t.Errorf("7 leaders at once are drawn %d times, want %d", got, want)
	}
	nodes := fmt.Sprintf("%d nodes, mean of a run", tabled[0])
	for i, p := range d.Panels {
		if !slices.ContainsFunc(p.Texts, func(text string) bool { return strings.HasPrefix(text, nodes) }) {
			t.Errorf("panel %d does not say %q: %q", i, nodes, p.Texts)
		}
	}
}
