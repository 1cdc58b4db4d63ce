package schedule

import (
	"fmt"
	"slices"
	"strings"
	"time"
)

// Tick is one instant of a schedule, for people.
type Tick struct {
	Time time.Time // in the zone of the expression: Format shows the local time and the UTC offset
	Note string    // what a change of the clock did to it; empty on most days
}

// Upcoming returns the next n ticks after an instant, fewer if there are no more. Notes say where a change of the
// clock moved, merged, dropped or repeated a tick; what was dropped stands with the tick that follows.
func (s *Schedule) Upcoming(after time.Time, n int) []Tick {
	var ticks []Tick
	for len(ticks) < n {
		at, ok := s.Next(after)
		if !ok {
			break
		}
		tick := Tick{}
		var notes []string
		for i := range s.rules {
			r := &s.rules[i]
			if r.next(at.Unix()) != at.Unix() {
				continue
			}
			if tick.Time.IsZero() {
				tick.Time = at.In(r.zone)
			}
			for _, note := range r.notes(at.Unix()) {
				if !slices.Contains(notes, note) {
					notes = append(notes, note)
				}
			}
		}
		tick.Note = strings.Join(notes, "; ")
		ticks = append(ticks, tick)
		after = at
	}
	return ticks
}

// notes says what changes of the clock since the tick before did to a tick.
func (r *rule) notes(at int64) []string {
	since := max(r.last(at-1), firstTick)
	p := periodAt(r.zone, at)
	var notes []string
	if shown := at + p.offset; r.fixed && r.isRepeated(p, shown) {
		notes = append(notes, "once: the clock shows "+clock(shown, shown)+" twice")
	} else if shown < p.start+p.before {
		notes = append(notes, "again: the clock shows "+clock(shown, shown)+" for the second time")
	}
	for ; p.start > since; p = periodAt(r.zone, p.start-1) {
		if missed, ok := p.missed(r.pattern); ok {
			notes = append(notes, r.explain(p, missed, at))
		}
	}
	slices.Reverse(notes)
	return notes
}

// isRepeated says whether the clock shows a reading of the period once more after it, and a fixed job ignores that.
func (r *rule) isRepeated(p period, reading int64) bool {
	if p.end >= farOff {
		return false
	}
	after := periodAt(r.zone, p.end)
	return after.start == p.end && reading >= after.start+after.offset && reading < after.first()
}

// explain says what became of the readings that the clock left out at the start of a period.
func (r *rule) explain(p period, missed, at int64) string {
	from, to := p.start+p.before, p.start+p.offset
	shown := at + p.offset // near enough to tell another day
	var readings []string
	count := 0
	last := missed
	for reading := missed; reading < to; reading = r.pattern.next(reading + 1) {
		if count++; count <= 3 {
			readings = append(readings, clock(reading, shown))
		}
		last = reading
	}
	list := strings.Join(readings, ", ")
	if count > 3 {
		list = fmt.Sprintf("%s to %s (%d times)", readings[0], clock(last, shown), count)
	}
	change := fmt.Sprintf("the clock goes from %s to %s", clock(from, to), clock(to, from))
	switch regular := r.pattern.next(to) == to; {
	case !r.fixed || !p.gap():
		return fmt.Sprintf("dropped: %s, %s", list, change)
	case count == 1 && !regular:
		return fmt.Sprintf("moved: from %s, %s", list, change)
	case regular:
		return fmt.Sprintf("merged: one run for %s and %s, %s", list, clock(to, shown), change)
	}
	return fmt.Sprintf("merged: one run for %s, %s", list, change)
}

// clock writes a reading, with its date where that is not the one of the other.
func clock(reading, other int64) string {
	layout := "15:04"
	if reading%minuteSeconds != 0 {
		layout += ":05"
	}
	day, _ := split(reading)
	if today, _ := split(other); day != today {
		layout = "2006-01-02 " + layout
	}
	return time.Unix(reading, 0).UTC().Format(layout)
}
