package bed

import (
	"fmt"
	"slices"
)

// overlap is the time that two runs of a job were alive together. Where the older one's last beat is the newer one's first
// it is of no length, and an overlap all the same.
type overlap struct {
	older, newer *run // by their first beats
	begin, end   instant
}

// between is the overlap of two runs. Its end is before its begin if there is none.
func between(a, b *run) overlap {
	if b.first < a.first {
		a, b = b, a
	}
	return overlap{older: a, newer: b, begin: b.first, end: min(a.last, b.last)}
}

// overlapsAmong finds all pairs of runs that were alive together. The runs are in the order of their first beats.
func overlapsAmong(runs []*run) []overlap {
	var all []overlap
	var alive []*run
	for _, newer := range runs {
		alive = slices.DeleteFunc(alive, func(r *run) bool { return r.last < newer.first })
		for _, older := range alive {
			all = append(all, between(older, newer))
		}
		alive = append(alive, newer)
	}
	return all
}

// overlapsOf counts the overlaps in a lease.
func (t *trial) overlapsOf(lease string) Overlaps {
	var n Overlaps
	var begin, end instant // of the time in which there were always two
	for i, o := range t.overlaps[lease] {
		n.Count++
		if t.excused(o) {
			n.Excused++
		}
		n.Longest = max(n.Longest, o.end.Sub(o.begin))
		if i == 0 || o.begin > end {
			begin, end = o.begin, o.end
		}
		end = max(end, o.end)
		n.Together = max(n.Together, end.Sub(begin))
	}
	return n
}

// oneAtATime is I1: runs of one job, or in one of its slots or shards, never overlap, whichever of their processes it is that lives on, unless a blow excuses
// it.
func oneAtATime(t *trial) []Violation {
	var all []Violation
	for _, lease := range t.leases {
		first, more := map[*run]overlap{}, map[*run]int{}
		var olders []*run
		for _, o := range t.overlaps[lease] {
			if t.excused(o) {
				continue
			}
			if _, known := first[o.older]; known {
				more[o.older]++ // who is never ended overlaps with all that come: that is one violation
				continue
			}
			first[o.older] = o
			olders = append(olders, o.older)
		}
		for _, older := range olders {
			all = append(all, t.overlapped(first[older], more[older]))
		}
	}
	return all
}

func (t *trial) overlapped(o overlap, more int) Violation {
	also := ""
	if more > 0 {
		also = fmt.Sprintf(", and with %d later ones", more)
	}
	return t.violation(o.begin, []*run{o.older, o.newer}, "two runs of %s at once from %s to %s: %s (token %d) began on %s while %s (token %d) lived on %s%s",
		o.newer.lease, t.ms(o.begin), t.ms(o.end), o.newer.id, o.newer.token, o.newer.host, o.older.id, o.older.token, o.older.host, also)
}

// fenceHolds is I1': whatever was excused, the ledger that compares tokens took nothing stale.
func fenceHolds(t *trial) []Violation {
	var all []Violation
	for _, lease := range sortedKeys(t.Ledgers) {
		if n := t.Ledgers[lease].StaleFenced; n > 0 {
			all = append(all, t.violation(t.Ended, nil, "the fenced ledger of %s accepted %d writes by runs after a later one had written", lease, n))
		}
	}
	return all
}

// tokensGrow is I2, of each job, slot and shard: each run has a token, no two have the same, and in the order of first beats
// they grow. Three things are
// excused: tokens from before the store's clock went back, a run that an excused blow held up between its grant and its
// first beat, so that its token is below that of a run which began before it, and two runs whose overlap is excused: who was granted
// the lease first may begin last.
func tokensGrow(t *trial) []Violation {
	var all []Violation
	for _, lease := range t.leases {
		seen := map[int64]*run{}
		var highest *run
		for _, r := range t.runs[lease] {
			same := seen[r.token]
			switch {
			case r.token <= 0:
				all = append(all, t.violation(r.first, []*run{r}, "a run of %s has no token", lease))
			case same != nil && !t.wentBack(same, r):
				all = append(all, t.violation(r.first, []*run{same, r}, "two runs of %s have the token %d", lease, r.token))
			case highest != nil && r.token < highest.token && t.wentBack(highest, r):
				highest = r
			case highest != nil && r.token < highest.token && !t.heldUp(r) && !(r.first <= highest.last && t.excused(between(highest, r))):
				all = append(all, t.violation(r.first, []*run{highest, r}, "the token %d of %s is below %d, which a run had before it", r.token, lease, highest.token))
			}
			if highest == nil || r.token > highest.token {
				highest = r
			}
			seen[r.token] = r
		}
	}
	return all
}

// heldUp says whether an excused blow hit a run before its first beat, which came soon after.
func (t *trial) heldUp(r *run) bool {
	return slices.ContainsFunc(t.Faults, func(b Blow) bool {
		return b.Excused && b.Struck <= r.first && r.first <= b.end().Add(t.TTL) && t.hit(b, r)
	})
}
