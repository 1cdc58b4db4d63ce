package bed

import (
	"cmp"
	"fmt"
	"slices"
	"time"
)

// ours is the Way that has to keep promises. Of the others it is only counted what happened.
const ours = "leaderrun"

// invariants are what a log must show, in the order of their numbers. I4 is a measure and no rule (margins.go); I8 and I9
// are told from a store's requests, which no log has.
func invariants() []invariant {
	return []invariant{
		{"I0", bedWorked},
		{"I1", oneAtATime},
		{"I1'", fenceHolds},
		{"I2", tokensGrow},
		{"I3", skipOnce},
		{"I3", rerunUntilOver},
		{"I3", dividedOneWay},
		{"I5", silentInTime},
		{"I6", takenOver},
		{"I7", endsAreTrue},
	}
}

type invariant struct {
	number string
	broken func(*trial) []Violation
}

// Judge says what a log shows. It reads nothing else, and a log that is shifted in time shows the same.
func Judge(l Log) Report {
	t := newTrial(l)
	r := t.count()
	if l.Way != ours {
		return r
	}
	for _, i := range invariants() {
		for _, v := range i.broken(t) {
			v.Invariant = i.number
			r.Violations = append(r.Violations, v)
		}
	}
	slices.SortFunc(r.Violations, func(a, b Violation) int {
		return cmp.Or(cmp.Compare(a.At, b.At), cmp.Compare(a.Invariant, b.Invariant), cmp.Compare(a.Text, b.Text))
	})
	return r
}

// count is what a report has of every way.
func (t *trial) count() Report {
	r := Report{
		Store: t.Store, Way: t.Way, Cast: t.Cast, TTL: t.TTL, Seeds: []uint64{t.Seed}, Time: t.Ended.Sub(t.Began), Faults: len(t.Faults),
		Margins: t.margins(),
	}
	for _, lease := range t.leases {
		r.Runs += len(t.runs[lease])
		r.Ticks += t.ticks(lease)
		r.Overlaps = r.Overlaps.plus(t.overlapsOf(lease))
	}
	for _, l := range t.Ledgers {
		r.Ledger = r.Ledger.plus(l)
	}
	if t.Way == ours {
		r.Takeovers = t.takeoverTimes()
	}
	return r
}

// ticks is how many ticks of a job, or of a shard, were run at least once.
func (t *trial) ticks(lease string) int {
	seen := map[int64]bool{}
	for _, r := range t.runs[lease] {
		if r.tick != 0 {
			seen[r.tick] = true
		}
	}
	return len(seen)
}

// bedWorked is I0: each job that a wrapper was started for ran, and each run is of a wrapper that the log knows. A bed on
// which nothing happens keeps every promise, and ends that belong to no run cannot be compared with one.
func bedWorked(t *trial) []Violation {
	var all []Violation
	wanted := map[string]bool{}
	for _, e := range t.Ends {
		wanted[e.Job] = true
	}
	if len(wanted) == 0 {
		all = append(all, t.violation(t.Ended, nil, "no wrapper was started"))
	}
	for _, job := range sortedKeys(wanted) {
		if len(t.leasesOf(func(of string) bool { return of == job })) == 0 {
			all = append(all, t.violation(t.Ended, nil, "%s never ran", job))
		}
	}
	for _, lease := range t.leases {
		for _, r := range t.runs[lease] {
			if t.endOf(r) == nil {
				all = append(all, t.violation(r.first, []*run{r}, "nobody knows a wrapper %d on %s that started this run", r.wrapper, r.host))
				break // the others will be like it
			}
		}
	}
	return all
}

// violation describes what happened at an instant, between these runs.
func (t *trial) violation(at instant, runs []*run, format string, args ...any) Violation {
	v := Violation{At: at.Sub(t.Began), Text: fmt.Sprintf(format, args...), Command: t.command()}
	for _, r := range runs {
		v.Runs = append(v.Runs, t.describe(r))
	}
	for _, b := range t.Faults {
		hit := slices.ContainsFunc(runs, b.hitRun) && b.Struck <= at
		if hit || b.Struck <= at && at <= b.end().Add(2*t.TTL) {
			v.Blows = append(v.Blows, t.describeBlow(b))
		}
	}
	return v
}

// command makes the same happen again, as far as chance lets it.
func (t *trial) command() string {
	long := t.Asked
	if long == 0 {
		long = t.Ended.Sub(t.Began).Round(time.Second)
	}
	return fmt.Sprintf("make bed STORE=%s SEED=%d DURATION=%s CAST=%s", t.Store, t.Seed, long, t.Cast)
}

// ms is an instant as a violation tells it: from the beginning of the log.
func (t *trial) ms(i instant) string { return fmt.Sprintf("%d ms", i.Sub(t.Began).Milliseconds()) }

func (t *trial) describeBlow(b Blow) string {
	text := fmt.Sprintf("%s of %s at %s", b.Fault, b.Where, t.ms(b.Struck))
	if b.Mended != 0 {
		text += ", mended at " + t.ms(b.Mended)
	}
	if b.Excused {
		text += ", excused"
	}
	return text
}
