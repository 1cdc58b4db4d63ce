package bed

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/leaderrun/leaderrun/internal/boottime"
	"github.com/leaderrun/leaderrun/test/witness/beats"
)

type instant = boottime.Instant

// trial is a log as it is judged: its processes put together to runs.
type trial struct {
	Log

	leases   []string             // what no two runs may have at once: jobs, and slots and shards of jobs
	runs     map[string][]*run    // by lease, in the order of their first beats
	overlaps map[string][]overlap // by lease, in the order in which they began
	started  map[wrapper][]*run   // in the order of their first beats; a wrapper may have several leases
	ends     map[wrapper][]*End   // a pid may come back
}

// wrapper is whose run it is.
type wrapper struct {
	job, host string
	pid       int
}

// run is all processes of one run. It is alive from its first beat to the last of any of them: in between it had the lease,
// also where no process was caught alive.
type run struct {
	id, job, host string
	lease         string
	part, parts   int
	token, tick   int64
	attempt       int
	wrapper       int
	first, last   instant
	main          *Span // nil: it was killed before it could write
	spans         []Span
}

func newTrial(l Log) *trial {
	t := &trial{
		Log: l, runs: map[string][]*run{}, overlaps: map[string][]overlap{},
		started: map[wrapper][]*run{}, ends: map[wrapper][]*End{},
	}
	t.Spans = slices.SortedStableFunc(slices.Values(l.Spans), bySpan)
	t.Faults = slices.SortedStableFunc(slices.Values(l.Faults), func(a, b Blow) int { return cmp.Compare(a.Struck, b.Struck) })
	type key struct{ lease, run string }
	known := map[key]*run{}
	for _, s := range t.Spans {
		r := known[key{s.Lease(), s.Run}]
		if r == nil {
			r = newRun(s)
			known[key{s.Lease(), s.Run}] = r
			t.runs[r.lease] = append(t.runs[r.lease], r)
			t.started[r.by()] = append(t.started[r.by()], r)
		}
		r.add(s)
	}
	t.leases = sortedKeys(t.runs)
	for _, lease := range t.leases {
		t.overlaps[lease] = overlapsAmong(t.runs[lease])
	}
	for i := range t.Ends {
		e := &t.Ends[i]
		t.ends[e.by()] = append(t.ends[e.by()], e)
	}
	return t
}

func newRun(s Span) *run {
	return &run{
		id: s.Run, job: s.Job, lease: s.Lease(), part: s.Part, parts: s.Parts, host: s.Host, token: s.Token, tick: s.Tick, attempt: s.Attempt, wrapper: s.Wrapper,
		first: s.First, last: s.Last,
	}
}

func (r *run) add(s Span) {
	r.spans = append(r.spans, s)
	r.last = max(r.last, s.Last)
	if s.Role == beats.RoleMain {
		r.main = &s
	}
}

// over says whether the command came to its end by itself.
func (r *run) over() bool { return r.main != nil && r.main.Over }

// settled says whether a run has an outcome, so that its tick is over: its command came to its end, or was killed from outside, which is
// a failure like another.
func (t *trial) settled(r *run) bool {
	return r.over() || slices.ContainsFunc(t.Faults, func(b Blow) bool { return b.Fault == commandKilled && b.Run == r.id })
}

func (r *run) by() wrapper { return wrapper{r.job, r.host, r.wrapper} }
func (e *End) by() wrapper { return wrapper{e.Job, e.Host, e.PID} }

// endOf returns the life of the wrapper that started a run, and not that of another with its pid; nil: not in the log.
func (t *trial) endOf(r *run) *End {
	var last *End
	for _, e := range t.ends[r.by()] {
		if e.Began <= r.first && (last == nil || last.Began < e.Began) {
			last = e
		}
	}
	if last == nil || last.Ended != 0 && r.first > t.lastStart(last) {
		return nil
	}
	return last
}

// lastStart is until when a run of a wrapper that has ended may begin. One that was killed may have asked its guardian for
// it just before: the run begins, and ends in time.
func (t *trial) lastStart(e *End) instant {
	if e.Code == codeKilled {
		return e.Ended.Add(t.TTL)
	}
	return e.Ended
}

// lastRunsOf returns the last run that a wrapper started in each of its leases, of its own tick where that is known. What it
// ends with speaks of those.
func (t *trial) lastRunsOf(e *End) []*run {
	var last []*run
	for _, r := range slices.Backward(t.started[e.by()]) {
		later := func(l *run) bool { return l.lease == r.lease }
		if t.endOf(r) == e && (e.Tick == 0 || e.Tick == r.tick) && !slices.ContainsFunc(last, later) {
			last = append(last, r)
		}
	}
	return last
}

// leasesOf returns those of the jobs that fit.
func (t *trial) leasesOf(fits func(job string) bool) []string {
	return slices.DeleteFunc(slices.Clone(t.leases), func(lease string) bool { return !fits(t.runs[lease][0].job) })
}

// byToken are the runs in a lease in the order in which they were granted.
func (t *trial) byToken(lease string) []*run {
	return slices.SortedStableFunc(slices.Values(t.runs[lease]), func(a, b *run) int { return cmp.Compare(a.token, b.token) })
}

func (t *trial) describe(r *run) string {
	text := fmt.Sprintf("%s on %s, token %d", r.lease, r.host, r.token)
	if r.tick != 0 {
		text += fmt.Sprintf(", tick %d, attempt %d", r.tick, r.attempt)
	}
	text += fmt.Sprintf(", alive from %s to %s", t.ms(r.first), t.ms(r.last))
	var processes []string
	for _, s := range r.spans {
		processes = append(processes, fmt.Sprintf("%s %d until %s", s.Role, s.PID, t.ms(s.Last)))
	}
	if r.over() {
		processes = append(processes, "ended by itself")
	}
	return fmt.Sprintf("%s (wrapper %d, %s)", text, r.wrapper, strings.Join(processes, ", "))
}

func bySpan(a, b Span) int {
	return cmp.Or(cmp.Compare(a.First, b.First), cmp.Compare(a.Token, b.Token), cmp.Compare(a.Run, b.Run), cmp.Compare(a.PID, b.PID))
}

func sortedKeys[V any](m map[string]V) []string { return slices.Sorted(maps.Keys(m)) }
