package bed

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/leaderrun/leaderrun/test/witness/beats"
)

// silentInTime is I5: a TTL after a blow that makes the tree be killed no process of a run that it hit beats any more. A blow
// that was mended sooner is none: the run may have been renewed again. So is one that is excused, as it leaves nobody to kill.
func silentInTime(t *trial) []Violation {
	var all []Violation
	for _, b := range t.Faults {
		if !b.Kills || b.Excused || b.mending() != 0 && b.mending().Sub(b.landed()) < t.TTL {
			continue
		}
		limit := b.landed().Add(t.TTL)
		for _, lease := range t.leases {
			for _, r := range t.runs[lease] {
				if b.ends(r) && r.last > limit {
					all = append(all, t.violation(limit, []*run{r}, "%s struck %s at %s, and its run of %s lived until %s, longer than the TTL of %v",
						b.Fault, b.Where, t.ms(b.Struck), r.lease, t.ms(r.last), t.TTL))
				}
			}
		}
	}
	return all
}

// ends says whether a blow that kills hit a run: the one that it was meant for, or another that had begun before on the same
// host and shares its wrapper, or the host with it.
func (b Blow) ends(r *run) bool {
	if b.OnServer || r.id == b.Run {
		return r.id == b.Run
	}
	return b.Where == r.host && r.first < b.Struck && (b.Whole || b.hitRun(r))
}

// Exit codes that docs/exit-codes.md has for a run.
const (
	codeFault     = 70
	codeLost      = 75
	codeTimeout   = 124
	codeSignal    = 128 // and the signal's number
	codeKilled    = 137
	highestSignal = 64
	codeOver      = 0 // the only code that a witness ends with by itself
)

// notRun are the codes that say: COMMAND did not run.
var notRun = []int{64, 69, 76, 77, 78, 126, 127}

// What a program of Go says when it falls.
var cries = []string{"panic:", "fatal error:", "DATA RACE", "[running]:"}

// endsAreTrue is I7: what a wrapper says at its end is true.
//
//   - 0 from one that started a run: the run's command came to its end by itself, and no run of a greater token had begun
//     before that (unless what excuses an overlap excuses this one);
//   - 0 from workers that share shards: one of its runs did. Those that it had given up before it ended do not count;
//   - 0 for a tick of the job that runs it until it came to its end: a run of it did, whoever's it was;
//   - 0 for a tick with shards: each shard of which it ran has come to its end or had been begun again by somebody, and if nothing broke
//     around that time, each other shard had been begun;
//   - a code that says that COMMAND did not run: it did not. Who made up for an earlier tick may say so of its own, and who ran only
//     some shards of its tick says it of the others;
//   - 70, a fault of leaderrun: only after a blow to that wrapper or its host;
//   - no code but the documented ones, and no cry of a program that fell.
//
// 75 and 128+N may follow anything: the run was stopped, or its end could not be recorded.
func endsAreTrue(t *trial) []Violation {
	var all []Violation
	for i := range t.Ends {
		e := &t.Ends[i]
		runs := t.lastRunsOf(e)
		say := func(format string, args ...any) {
			all = append(all, t.endViolation(e, runs, format, args...))
		}
		for _, cry := range cries {
			if strings.Contains(e.Said, cry) {
				say("it fell: %s", e.Said)
				break
			}
		}
		if !t.ended(e) {
			continue
		}
		switch {
		case e.Code == codeOver:
			t.saidZero(e, runs, say)
		case e.Code == codeFault && !t.struck(e):
			say("no blow hit it: %s", lastWords(e.Said))
		case slices.Contains(notRun, e.Code):
			// Who works on shards, and cannot go on, may have run some before.
			works := e.Job == JobShards && slices.Contains([]int{69, 77, 78}, e.Code)
			if len(runs) > 0 && !inParts(e.Job) && !works && !(reruns(e.Job) && e.Tick == 0 && runs[0].over()) {
				say("that says that COMMAND did not run, and it did")
			}
		case !documented(e.Code):
			say("no such code is documented: %s", lastWords(e.Said))
		}
	}
	return all
}

// lastWords returns the lines of an output, the last one first, because that says why; one that was said again and again is
// there once.
func lastWords(said string) string {
	var lines []string
	for line := range strings.Lines(said) {
		if line = strings.TrimSpace(line); line != "" {
			lines = append(lines, line)
		}
	}
	slices.Reverse(lines)
	return strings.Join(slices.Compact(lines), " < ")
}

// saidZero looks whether 0 was true.
func (t *trial) saidZero(e *End, runs []*run, say func(string, ...any)) {
	for _, r := range runs {
		if !r.over() && !inParts(e.Job) && e.Job != JobShards {
			say("its run did not come to its end")
		} else if n := t.superseded(r); n != nil {
			say("a run with the greater token %d had begun on %s at %s", n.token, n.host, t.ms(n.first))
		}
	}
	if e.Job == JobShards && !slices.ContainsFunc(runs, (*run).over) {
		say("none of its runs came to its end")
	}
	if inParts(e.Job) {
		t.saidZeroOfShards(e, runs, say)
		return
	}
	if len(runs) == 0 && reruns(e.Job) && e.Tick != 0 {
		if !slices.ContainsFunc(t.runs[e.Job], func(r *run) bool { return r.tick == e.Tick && r.over() }) {
			say("no run of tick %d came to its end", e.Tick)
		}
	}
}

func (t *trial) saidZeroOfShards(e *End, runs []*run, say func(string, ...any)) {
	begun := func(lease string, tick int64, until instant) bool {
		return slices.ContainsFunc(t.runs[lease], func(r *run) bool { return r.tick == tick && r.first <= until })
	}
	for _, r := range runs {
		again := func(n *run) bool { return n != r && n.tick == r.tick && n.token > r.token && n.first <= e.Ended }
		if !r.over() && !slices.ContainsFunc(t.runs[r.lease], again) {
			say("its run of %s did not come to its end, and nobody had begun another", r.lease)
		}
	}
	if len(runs) == 0 || t.troubled(e.Began, e.Ended) {
		return
	}
	newest := slices.MaxFunc(runs, func(a, b *run) int { return cmp.Compare(a.tick, b.tick) })
	for k := range newest.parts {
		lease := beats.Span{Job: e.Job, Part: k, Parts: newest.parts}.Lease()
		if !begun(lease, newest.tick, e.Ended.Add(t.TTL)) { // granted, and about to begin: before that lease ends
			say("nobody had begun %s for tick %d", lease, newest.tick)
		}
	}
}

// troubled says whether anything was broken, or had been two TTLs before, between two instants.
func (t *trial) troubled(from, until instant) bool {
	return slices.ContainsFunc(t.Faults, func(b Blow) bool { return b.Struck <= until && from <= b.end().Add(2*t.TTL) })
}

// superseded returns a run that began, with a greater token, before another came to its end; nil: there is none.
func (t *trial) superseded(r *run) *run {
	if !r.over() {
		return nil
	}
	i := slices.IndexFunc(t.runs[r.lease], func(n *run) bool {
		return n.token > r.token && n.first <= r.main.Last && !t.excused(between(r, n))
	})
	if i < 0 {
		return nil
	}
	return t.runs[r.lease][i]
}

func (t *trial) endViolation(e *End, runs []*run, format string, args ...any) Violation {
	at := e.Ended
	if at == 0 {
		at = t.Ended
	}
	v := t.violation(at, runs, format, args...)
	v.Text = fmt.Sprintf("wrapper %d of %s on %s ended with %d: %s", e.PID, e.Job, e.Host, e.Code, v.Text)
	return v
}

// ended says whether a wrapper ended by itself, and was not killed when all was over.
func (t *trial) ended(e *End) bool { return e.Ended != 0 && e.Ended <= t.Ended }

// struck says whether a blow hit a wrapper, or the whole of its host, while it lived.
func (t *trial) struck(e *End) bool {
	return slices.ContainsFunc(t.Faults, func(b Blow) bool {
		lived := e.Began <= b.end() && b.Struck <= e.Ended
		return lived && !b.OnServer && b.Where == e.Host && (b.Whole || b.Wrapper == e.PID)
	})
}

func documented(code int) bool {
	return code == codeFault || code == codeLost || code == codeTimeout || code > codeSignal && code <= codeSignal+highestSignal
}
