package schedule

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"
)

// spec is an expression with what it means, drawn together, so that the reference needs no parser.
type spec struct {
	text  string
	every int64    // minutes; 0: five fields
	sets  [5][]int // the values of each field; Sunday is 0
	star  [5]bool  // the field begins with *
}

func (s spec) matches(reading int64) bool {
	if s.every != 0 {
		return reading/60%s.every == 0
	}
	t := time.Unix(reading, 0).UTC()
	has := func(field, value int) bool { return slices.Contains(s.sets[field], value) }
	if !has(0, t.Minute()) || !has(1, t.Hour()) || !has(3, int(t.Month())) {
		return false
	}
	day, weekday := has(2, t.Day()), has(4, int(t.Weekday()))
	if s.star[2] || s.star[4] {
		return day && weekday
	}
	return day || weekday
}

func (s spec) wild() bool {
	if s.every != 0 {
		return s.every <= 60
	}
	return s.star[0] || s.star[1]
}

var (
	ranges     = [5][2]int{{0, 59}, {0, 23}, {1, 31}, {1, 12}, {0, 6}}
	monthNames = []string{"", "jan", "FEB", "Mar", "apr", "MAY", "Jun", "jul", "AUG", "Sep", "oct", "NOV", "Dec"}
	dayNames   = []string{"sun", "MON", "Tue", "wed", "THU", "Fri", "sat"}
)

func drawSpec(t *rapid.T) spec {
	if rapid.IntRange(0, 9).Draw(t, "every?") == 0 {
		minutes := rapid.SampledFrom([]int64{1, 5, 15, 20, 30, 60, 90, 120, 180, 240, 360, 720, 1440}).Draw(t, "every")
		return spec{text: fmt.Sprintf("@every %dm", minutes), every: minutes}
	}
	var s spec
	var words []string
	for field := range 5 {
		word, set := drawField(t, field)
		words = append(words, word)
		s.sets[field], s.star[field] = set, word[0] == '*'
	}
	s.text = strings.Join(words, rapid.SampledFrom([]string{" ", "  ", "\t"}).Draw(t, "blank"))
	return s
}

func drawField(t *rapid.T, field int) (string, []int) {
	low, high := ranges[field][0], ranges[field][1]
	switch rapid.IntRange(0, 5).Draw(t, "kind") {
	case 0, 1:
		if field > 1 {
			return "*", upwards(low, high, 1)
		}
	case 2:
		step := rapid.IntRange(1, (high-low)/2).Draw(t, "step")
		return fmt.Sprintf("*/%d", step), upwards(low, high, step)
	}
	var words []string
	var set []int
	for range rapid.IntRange(1, 3).Draw(t, "elements") {
		first := rapid.IntRange(low, high).Draw(t, "first")
		if field < 2 && rapid.Bool().Draw(t, "at the changes of clocks") {
			first = rapid.SampledFrom([]int{0, 1, 2, 3, 23}).Draw(t, "hour")
		}
		last := rapid.IntRange(first, high).Draw(t, "last")
		switch rapid.IntRange(0, 2).Draw(t, "element") {
		case 0:
			words, set = append(words, name(t, field, first)), append(set, first)
		case 1:
			if field == 4 && rapid.Bool().Draw(t, "to Sunday") {
				words, set = append(words, name(t, field, first)+"-7"), append(append(set, upwards(first, 6, 1)...), 0)
				continue
			}
			words, set = append(words, name(t, field, first)+"-"+name(t, field, last)), append(set, upwards(first, last, 1)...)
		case 2:
			step := rapid.IntRange(1, max(last-first, 1)).Draw(t, "step")
			words, set = append(words, fmt.Sprintf("%d-%d/%d", first, last, step)), append(set, upwards(first, last, step)...)
		}
	}
	return strings.Join(words, ","), set
}

func upwards(first, last, step int) (set []int) {
	for v := first; v <= last; v += step {
		set = append(set, v)
	}
	return set
}

func name(t *rapid.T, field, value int) string {
	switch how := rapid.IntRange(0, 2).Draw(t, "name"); {
	case how == 1 && field == 3:
		return monthNames[value]
	case how == 1 && field == 4:
		return dayNames[value]
	case how == 2:
		return fmt.Sprintf("%02d", value)
	}
	return strconv.Itoa(value)
}

// walk is a cron daemon that looks at its clock every minute and keeps a second, virtual one for fixed jobs, which
// is not put back and catches up when the clock goes forward: the main loop of Debian's cron, for one job.
func walk(s spec, zone *time.Location, from, to int64) []int64 {
	reading := func(at int64) int64 {
		_, offset := time.Unix(at, 0).In(zone).Zone()
		return at + int64(offset)
	}
	const dayBefore, threeHours = 86400, 3 * 3600
	var ticks []int64
	virtual := reading(from - dayBefore - 60)
	for at := from - dayBefore; at <= to; at += 60 {
		shown := reading(at)
		ahead := shown - virtual
		due := false
		switch {
		case s.wild():
			due = s.matches(shown)
		case ahead == 60, ahead > threeHours+60, ahead <= -threeHours: // a minute, or another clock
			virtual = shown
			due = s.matches(shown)
		default: // catch up, or wait
			for virtual < shown {
				virtual += 60
				due = due || s.matches(virtual)
			}
		}
		if due && at >= from {
			ticks = append(ticks, at)
		}
	}
	return ticks
}

var changing = []string{
	"America/New_York", "Europe/Berlin", "Europe/London", "Europe/Dublin", "America/Sao_Paulo", "America/Havana",
	"America/St_Johns", "America/Santiago", "America/Danmarkshavn", "America/Godthab", "America/Caracas",
	"Australia/Lord_Howe", "Australia/Sydney", "Pacific/Apia", "Pacific/Kwajalein", "Pacific/Chatham", "Pacific/Easter",
	"Pacific/Kiritimati", "Antarctica/Troll", "Antarctica/Casey", "Antarctica/Vostok", "Africa/Casablanca",
	"Africa/Cairo", "Asia/Tehran", "Asia/Beirut", "Asia/Gaza", "Asia/Kathmandu", "Asia/Pyongyang", "Asia/Ust-Nera",
	"Asia/Amman", "Asia/Kolkata", "UTC",
}

func drawZone(t *rapid.T) *time.Location {
	name := rapid.SampledFrom(append([]string{"slim"}, changing...)).Draw(t, "zone")
	if name == "slim" {
		return slimZone(t, -1e9, rapid.SampledFrom([]string{
			"EST5EDT,M3.2.0,M11.1.0", "<+1030>-10:30<+11>-11,M10.1.0,M4.1.0", "<+00>0<+02>-2,M3.5.0/1,M10.5.0/3",
			"<-02>2<-01>,M3.5.0/-1,M10.5.0/0", "EET-2EEST,M4.5.5/0,M10.5.4/24",
		}).Draw(t, "rule"))
	}
	zone, err := time.LoadLocation(name)
	if err != nil {
		t.Fatal(err)
	}
	return zone
}

// drawWindow returns a few days, most often with a change of the clock in it.
func drawWindow(t *rapid.T, zone *time.Location) (from, to int64) {
	at := rapid.Int64Range(6*86400, 130*365*86400).Draw(t, "at") / 60 * 60
	if rapid.IntRange(0, 4).Draw(t, "change?") > 0 {
		_, offset := time.Unix(at, 0).In(zone).Zone()
		for range 3 * 365 {
			if _, now := time.Unix(at, 0).In(zone).Zone(); now != offset {
				break
			}
			at += 86400
		}
	}
	days := rapid.Int64Range(1, 4).Draw(t, "days")
	return at - days*86400, at + days*86400
}

func TestTicksAreThoseOfADaemonThatWalksEveryMinute(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		specs := rapid.SliceOfN(rapid.Custom(drawSpec), 1, 2).Draw(t, "specs")
		zone := drawZone(t)
		var exprs []string
		for _, s := range specs {
			exprs = append(exprs, s.text)
		}
		s, err := Parse(exprs, "UTC")
		if err != nil {
			if strings.Contains(err.Error(), "does not exist in month") {
				t.Skip("30 February")
			}
			t.Fatal(err)
		}
		for i := range s.rules {
			s.rules[i].zone = zone
		}
		for range 4 {
			from, to := drawWindow(t, zone)
			var want []int64
			for _, spec := range specs {
				want = append(want, walk(spec, zone, from, to)...)
			}
			slices.Sort(want)
			compare(t, s, slices.Compact(want), from, to)
		}
	})
}

// compare steps through a window in both directions, with Next and Last.
func compare(t rapid.TB, s *Schedule, want []int64, from, to int64) {
	t.Helper()
	var forward, backward []int64
	for at, ok := s.Next(time.Unix(from-1, 0)); ok && at.Unix() <= to; at, ok = s.Next(at) {
		forward = append(forward, at.Unix())
	}
	for at, ok := s.Last(time.Unix(to, 999)); ok && at.Unix() >= from; at, ok = s.Last(at.Add(-1)) {
		backward = append(backward, at.Unix())
	}
	slices.Reverse(backward)
	for name, got := range map[string][]int64{"Next": forward, "Last": backward} {
		if slices.Equal(got, want) {
			continue
		}
		for i := range max(len(got), len(want)) {
			if i >= len(got) || i >= len(want) || got[i] != want[i] {
				zone := s.rules[0].zone
				show := func(ticks []int64) (text string) {
					for _, at := range ticks[min(i, len(ticks)):min(i+3, len(ticks))] {
						text += time.Unix(at, 0).In(zone).Format(" 2006-01-02T15:04:05-07:00")
					}
					return text
				}
				t.Fatalf("%s: %s from tick %d on:%s, want%s", s, name, i, show(got), show(want))
			}
		}
	}
}
