package bed

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
)

// skipOnce is I3 of the jobs that run each tick, or each shard of one, at most once: in the order of tokens each run is of a
// later tick. Where the store forgot, what came before it does not count.
func skipOnce(t *trial) []Violation {
	var all []Violation
	for _, lease := range t.leasesOf(skips) {
		var former *run
		for _, r := range t.byToken(lease) {
			if former != nil && r.tick <= former.tick && !t.forgot(former, r) {
				all = append(all, t.wrongTick(former, r))
			}
			former = r
		}
	}
	return all
}

func (t *trial) wrongTick(former, r *run) Violation {
	pair := []*run{former, r}
	if former.tick == r.tick {
		return t.violation(r.first, pair, "tick %d of %s ran again", r.tick, r.lease)
	}
	return t.violation(r.first, pair, "tick %d of %s ran after tick %d", r.tick, r.lease, former.tick)
}

// rerunUntilOver is I3 of the jobs that run a tick, or each shard of one, again until it came to its end. That its attempts never overlap is I1.
// In the order of tokens
//
//   - ticks do not go back, and attempts of one tick have higher and higher numbers;
//   - once a wrapper said that a tick is done, it does not run again. A command that came to its end is not enough: the
//     record of it may have been lost with the wrapper or on the way to the store;
//   - no later tick begins before one that was begun came to its end: a claim for the later one is answered with the earlier;
//   - the last tick that was begun comes to its end, if all was mended and nobody ran it for as long as a take-over may take.
//
// Where the store forgot, what came before it does not count. Of ticks that were never begun nothing is demanded: a host
// that comes knows only the latest.
func rerunUntilOver(t *trial) []Violation {
	var all []Violation
	for _, lease := range t.leasesOf(reruns) {
		all = append(all, t.rerunIn(lease)...)
	}
	return all
}

func (t *trial) rerunIn(lease string) []Violation {
	var all []Violation
	var attempts []*run // of the same tick, since the store last forgot
	for _, r := range t.byToken(lease) {
		if len(attempts) > 0 {
			former := attempts[len(attempts)-1]
			if t.forgot(former, r) {
				attempts = nil
			} else {
				all = append(all, t.follows(attempts, r)...)
			}
			if former.tick != r.tick {
				attempts = nil
			}
		}
		attempts = append(attempts, r)
	}
	return append(all, t.leftOpen(attempts)...)
}

// follows says what is wrong with a run that came after all attempts of a tick.
func (t *trial) follows(attempts []*run, r *run) []Violation {
	former := attempts[len(attempts)-1]
	pair := []*run{former, r}
	var all []Violation
	switch {
	case r.tick < former.tick:
		all = append(all, t.wrongTick(former, r))
	case r.tick > former.tick && !slices.ContainsFunc(attempts, t.settled):
		all = append(all, t.violation(r.first, pair, "tick %d of %s ran although tick %d was begun and had not come to its end", r.tick, r.lease, former.tick))
	case r.tick > former.tick:
	default:
		if slices.ContainsFunc(attempts, func(a *run) bool { return t.saidDone(a, r) }) {
			all = append(all, t.violation(r.first, pair, "tick %d of %s ran again although its wrapper had said that it was done", r.tick, r.lease))
		}
		if r.attempt <= former.attempt {
			all = append(all, t.violation(r.first, pair, "attempt %d of tick %d of %s came after attempt %d", r.attempt, r.tick, r.lease, former.attempt))
		}
	}
	return all
}

// saidDone says whether a wrapper confirmed, before another run, that its run's end is on record. Of a tick with shards it speaks when all
// are done, wherever: one whose end it could not record may have been run again before.
func (t *trial) saidDone(r, next *run) bool {
	e := t.endOf(r)
	if !r.over() || e == nil || !t.ended(e) || e.Code != 0 || !slices.Contains(t.lastRunsOf(e), r) {
		return false
	}
	return !inParts(r.job) || e.Ended <= next.first
}

// dividedOneWay is I3 of the jobs whose ticks are divided: all runs of a tick believe in the same number of shards. Where the store
// forgot, another host may begin the tick anew with another number, and who had begun it before goes on with theirs.
func dividedOneWay(t *trial) []Violation {
	var all []Violation
	ways := map[occurrence][]*run{} // the first run of each number that is right
	var runs []*run
	for _, lease := range t.leasesOf(inParts) {
		runs = append(runs, t.runs[lease]...)
	}
	slices.SortStableFunc(runs, func(a, b *run) int { return cmp.Compare(a.first, b.first) })
	for _, r := range runs {
		o := occurrence{r.job, r.tick}
		known := slices.ContainsFunc(ways[o], func(w *run) bool { return w.parts == r.parts })
		switch n := len(ways[o]); {
		case known:
		case n == 0 || t.forgot(ways[o][n-1], r):
			ways[o] = append(ways[o], r)
		default:
			former := ways[o][n-1]
			all = append(all, t.violation(r.first, []*run{former, r}, "tick %d of %s is divided into %d, and into %d", r.tick, r.job, former.parts, r.parts))
		}
	}
	return all
}

// occurrence is one tick of a job.
type occurrence struct {
	job  string
	tick int64
}

// leftOpen says whether nobody took the last tick to its end, although there was time.
func (t *trial) leftOpen(attempts []*run) []Violation {
	if len(attempts) == 0 || slices.ContainsFunc(attempts, t.settled) {
		return nil
	}
	last := attempts[len(attempts)-1]
	quiet := last.last
	for _, b := range t.Faults {
		quiet = max(quiet, b.end())
		if b.Forgets && b.end() >= attempts[0].first {
			return nil
		}
	}
	if t.Ended.Sub(quiet) < t.bound(true) {
		return nil
	}
	v := t.violation(t.Ended, []*run{last}, "tick %d of %s was begun and nobody brought it to its end until %s", last.tick, last.lease, t.ms(t.Ended))
	v.Text += t.cameAfter(last)
	return []Violation{v}
}

// cameAfter tells how the last wrappers ended that came for the job of a run after that.
func (t *trial) cameAfter(r *run) string {
	var later []string
	for _, e := range t.Ends {
		if e.Job == r.job && e.Began > r.last && t.ended(&e) {
			later = append(later, fmt.Sprintf("%s on %s ended with %d: %q", t.ms(e.Ended), e.Host, e.Code, lastWords(e.Said)))
		}
	}
	if len(later) == 0 {
		return "; nobody came for it"
	}
	return "; of those who came later: " + strings.Join(later[max(0, len(later)-6):], ", ")
}
