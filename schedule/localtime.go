package schedule

import "time"

const (
	// maxChange is the longest change of the clock that is taken for daylight saving.
	maxChange = 3 * 60 * minuteSeconds
	// reach is more than any clock differs from UTC.
	reach = 2 * daySeconds
)

// period is a time in which a clock is not changed: from start, and before end.
type period struct {
	start, end int64 // Unix seconds
	offset     int64 // what the clock shows, less UTC, in seconds
	before     int64 // the same just before start
}

// gap says whether a fixed job makes up, at the start, for what the clock did not show.
func (p period) gap() bool { return p.offset > p.before && p.offset-p.before <= maxChange }

// first is the first reading of the period at which a fixed job runs: what is shown for the second time is left out.
func (p period) first() int64 {
	if p.offset < p.before && p.before-p.offset <= maxChange {
		return p.start + p.before
	}
	return p.start + p.offset
}

// missed returns the first reading of the pattern that the clock left out at the start of the period.
func (p period) missed(of pattern) (int64, bool) {
	if p.before >= p.offset {
		return 0, false
	}
	reading := of.next(p.start + p.before)
	return reading, reading < p.start+p.offset
}

// next returns the first tick at or after an instant, farOff if there is none.
func (r *rule) next(from int64) int64 {
	for from <= lastTick {
		p := periodAt(r.zone, from)
		reading := from + p.offset
		if r.fixed {
			if _, ok := p.missed(r.pattern); ok && p.gap() && from == p.start {
				return from
			}
			reading = max(reading, p.first())
		}
		if reading = r.pattern.next(reading); reading < p.end+p.offset {
			return reading - p.offset
		}
		// Past the changes of the clock before which no reading can match.
		from = max(p.end, r.pattern.next(p.end-reach)-reach)
	}
	return farOff
}

// last returns the latest tick at or before an instant, -farOff if there is none.
func (r *rule) last(to int64) int64 {
	for to >= firstTick {
		p := periodAt(r.zone, to)
		first := p.start + p.offset
		if r.fixed {
			first = p.first()
		}
		if reading := r.pattern.last(to + p.offset); reading >= first {
			return reading - p.offset
		}
		if _, ok := p.missed(r.pattern); ok && r.fixed && p.gap() {
			return p.start
		}
		to = min(p.start-1, r.pattern.last(p.start+reach)+reach)
	}
	return -farOff
}

// periodAt returns the period of an instant. Its start is a change of the clock; its end may be none.
func periodAt(zone *time.Location, at int64) period {
	start, end := boundsAt(zone, at)
	p := period{end: end, offset: offsetAt(zone, at)}
	for {
		// In years for which a zone has a rule and no table, ZoneBounds may give the start of the year even if
		// the table ends later, with a change of the clock: go forward from there.
		for {
			_, next := boundsAt(zone, start)
			if next > at {
				break
			}
			start = next
		}
		p.start, p.before = start, p.offset
		if start == -farOff {
			return p
		}
		if p.before = offsetAt(zone, start-1); p.before != p.offset {
			return p
		}
		at = start - 1
		start, _ = boundsAt(zone, at)
	}
}

func offsetAt(zone *time.Location, at int64) int64 {
	_, offset := time.Unix(at, 0).In(zone).Zone()
	return int64(offset)
}

// boundsAt returns a span around an instant in which the clock is not changed. It need not be the longest.
func boundsAt(zone *time.Location, at int64) (start, end int64) {
	start, end = -farOff, farOff
	if at == -farOff {
		at = -reach * 365 * 1000 // before the tables of all zones
	}
	t := time.Unix(at, 0).In(zone)
	from, to := t.ZoneBounds()
	if !from.IsZero() {
		start = from.Unix()
	}
	if !to.IsZero() {
		end = to.Unix()
	}
	if end <= at {
		// For 31 December of a leap year ZoneBounds says that the zone ends when that day begins (it takes all
		// years for 365 days), where a zone has a rule and no table: that is the rest of the year.
		end = time.Date(t.UTC().Year()+1, time.January, 1, 0, 0, 0, 0, time.UTC).Unix()
	}
	return start, end
}
