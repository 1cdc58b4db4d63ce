package main

import (
	"encoding/xml"
	"errors"
	"flag"
	"io"
	"math"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

var update = flag.Bool("update", false, "write the golden files anew")

// results are those of testdata/results.json.
func results(t *testing.T) *report {
	t.Helper()
	r, err := readReports("testdata/results.json")
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// golden compares with a file of testdata.
func golden(t *testing.T, name, got string) {
	t.Helper()
	path := filepath.Join("testdata", name)
	if *update {
		if err := os.WriteFile(path, []byte(got), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), got); diff != "" {
		t.Errorf("%s (-want +got); if this is meant, run with -update and look at it:\n%s", path, diff)
	}
}

func TestChartsAreTheSameForTheSameResults(t *testing.T) {
	charts := results(t).charts()
	names := map[string]bool{}
	for _, c := range charts {
		names[c.name] = true
		if c.name == "whole" || c.name == "standbys-handover" {
			golden(t, c.name+".svg", c.svg())
		}
	}
	for _, name := range []string{"whole", "standbys-handover", "standbys-requests"} {
		if !names[name] {
			t.Errorf("no chart %s", name)
		}
	}
	if names["memory"] {
		t.Error("a chart of what was not measured")
	}
}

func TestNothingIsDrawnOfZeros(t *testing.T) {
	zeros := row{Way: baseline, Values: []float64{0, 0}}
	r := report{Measures: []measure{{Name: wakeupRate, Rows: []row{zeros}}, {Name: crowdHerd, Size: 10, Rows: []row{zeros}}}}
	if charts := r.charts(); len(charts) > 0 {
		t.Errorf("%d charts", len(charts))
	}
	r.Measures[1].Rows = append(r.Measures[1].Rows, row{Way: "other", Values: []float64{7}})
	charts := r.charts()
	if len(charts) != 1 || strings.Contains(charts[0].svg(), "NaN") || strings.Count(charts[0].svg(), "<rect") != 2 {
		t.Errorf("a zero beside a number: %+v", charts)
	}
}

func TestChartIsWellFormedWhateverItsNames(t *testing.T) {
	c := chart{title: "a < b & c", groups: []group{{label: "<&>", bars: []bar{{label: `"<x>`, value: 1, low: 1, high: 2}}}}}
	for d := xml.NewDecoder(strings.NewReader(c.svg())); ; {
		_, err := d.Token()
		if errors.Is(err, io.EOF) {
			return
		}
		if err != nil {
			t.Fatal(err)
		}
	}
}

// A picture in a page is not told whether the page is light or dark.
func TestColoursCanBeReadOnLightAndDark(t *testing.T) {
	const text, shape = 3.9, 3 // WCAG asks for 3 for large text and shapes; with 4.25 on both sides there is no room for more
	for _, c := range []struct {
		colour string
		least  float64
	}{{inkColour, text}, {ownColour, shape}, {peerColour, shape}} {
		for _, page := range []string{"#ffffff", "#0d1117"} {
			if got := contrast(t, c.colour, page); got < c.least {
				t.Errorf("%s on %s: contrast %.2f, want %.1f", c.colour, page, got, c.least)
			}
		}
	}
}

func contrast(t *testing.T, a, b string) float64 {
	t.Helper()
	high, low := luminance(t, a), luminance(t, b)
	return (max(high, low) + 0.05) / (min(high, low) + 0.05)
}

// luminance is that of the Web Content Accessibility Guidelines.
func luminance(t *testing.T, colour string) (l float64) {
	t.Helper()
	for i, weight := range []float64{0.2126, 0.7152, 0.0722} {
		n, err := strconv.ParseUint(colour[1+2*i:3+2*i], 16, 8)
		if err != nil {
			t.Fatal(err)
		}
		share := float64(n) / 255
		if share <= 0.04045 {
			share /= 12.92
		} else {
			share = math.Pow((share+0.055)/1.055, 2.4)
		}
		l += weight * share
	}
	return l
}

func TestAxisHoldsAllBars(t *testing.T) {
	for _, test := range []struct {
		name   string
		log    bool
		values []float64
	}{
		{"one", false, []float64{1}},
		{"odd", false, []float64{0.37, 117}},
		{"log", true, []float64{3.2, 480}},
		{"log, a power of ten is the least", true, []float64{10, 1000}},
	} {
		t.Run(test.name, func(t *testing.T) {
			c := chart{log: test.log, groups: []group{{}}}
			for _, v := range test.values {
				c.groups[0].bars = append(c.groups[0].bars, bar{value: v, low: v, high: v})
			}
			a := c.axis()
			for _, v := range test.values {
				if x := a.x(v); x <= labelWidth || x > chartWidth-valueWidth+0.01 {
					t.Errorf("%g is at %g", v, x)
				}
			}
			if len(a.marks) < 2 || len(a.marks) > 11 {
				t.Errorf("%d marks: %v", len(a.marks), a.marks)
			}
		})
	}
}
