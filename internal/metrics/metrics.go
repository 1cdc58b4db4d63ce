// Package metrics counts what becomes of runs, for Prometheus. A daemon serves one Set over HTTP; a single run
// adds its own to a file in the directory of a node exporter's textfile collector. docs/metrics.md explains
// each metric.
package metrics

import (
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/leaderrun/leaderrun/backends"
	"github.com/leaderrun/leaderrun/runner"
)

// Set is the metrics of one process. Its methods may be called by several goroutines, and block no longer than it takes
// to write the page into memory.
type Set struct {
	now     func() time.Time // the wall clock: ticks are on it
	started time.Time        // close enough to the process's start: it is there to show restarts

	mu       sync.Mutex
	families []*family           // by metric
	open     map[string]*openRun // by holder: granted, and not ended yet
}

// openRun is what the events of a run told that its result does not.
type openRun struct {
	started  bool
	stopping bool
	over     bool // it does not lead any more
}

// New returns the metrics of a daemon, which it serves as an http.Handler.
func New() *Set {
	s := newSet(nil)
	for _, f := range s.families {
		if f.kind == histogram { // it is shown before its first sample
			f.at()
		}
	}
	return s
}

// newSet returns a set whose histograms have some labels.
func newSet(labels []string) *Set {
	s := &Set{now: time.Now, started: time.Now(), open: map[string]*openRun{}}
	for _, d := range definitions {
		if d.kind == histogram {
			d.labels = labels
		}
		s.families = append(s.families, newFamily(d))
	}
	return s
}

// Observe counts an event of a run. After a lease_acquired, Ended must follow.
func (s *Set) Observe(e runner.Event) {
	s.mu.Lock()
	defer s.mu.Unlock()
	job := label(e.Job)
	run := s.open[e.Holder] // nil: it was never granted, or has ended
	switch e.Name {
	case runner.EventAcquired:
		s.add(leaderChanges, 1, job)
		s.add(leading, 1, job)
		s.observe(election, e.Took, job)
		s.open[e.Holder] = &openRun{}
	case runner.EventStarted:
		if run == nil || run.started {
			return
		}
		run.started = true
		if e.Tick != 0 {
			s.observe(lateness, max(s.now().Sub(time.Unix(e.Tick, 0)), 0), job)
		}
	case runner.EventStopping:
		if run != nil {
			run.stopping = true
		}
	case runner.EventExited:
		s.observe(duration, e.Took, job)
	case runner.EventRenewed:
		s.observe(renewal, e.Took, job)
		s.observe(renewalLeft, e.Left, job)
	case runner.EventRenewFail:
		s.add(renewalFailures, 1, job)
	case runner.EventReleased:
		s.leave(run, job)
	}
}

// Ended counts how an attempt to run the job for a tick (zero: none) ended, at the given time, and the runs of earlier
// ticks that came before it.
func (s *Set) Ended(job string, r runner.Result, tick, at time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.ended(label(job), r, tick, at)
}

func (s *Set) ended(job string, r runner.Result, tick, at time.Time) {
	for _, b := range r.Before {
		s.ended(job, b, time.Unix(b.Grant.Tick, 0), at)
	}
	o := s.count(job, r)
	if r.Status.Known {
		s.set(lastExit, float64(r.Status.ExitCode()), job)
	}
	s.tick(job, o == done, tick, at)
}

// ShardEnded counts how an attempt to run a shard of the job ended: all shards of a job are counted together. What is known of the
// last tick is that of the whole: see TickEnded.
func (s *Set) ShardEnded(job string, r runner.Result) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, b := range append(slices.Clone(r.Before), r) {
		s.count(label(job), b)
	}
}

// TickEnded notes how the work on a whole tick or key (zero: no tick) of a job ended that is divided into shards: with which code, and
// whether all shards are done.
func (s *Set) TickEnded(job string, code int, isDone bool, tick, at time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.set(lastExit, float64(code), label(job))
	s.tick(label(job), isDone, tick, at)
}

// tick notes how the work on a tick ended.
func (s *Set) tick(job string, isDone bool, tick, at time.Time) {
	if !tick.IsZero() {
		s.set(lastTick, seconds(tick), job)
	}
	if isDone {
		s.set(lastSuccess, seconds(at), job)
	}
}

// count counts an attempt, and returns its outcome.
func (s *Set) count(job string, r runner.Result) (outcome string) {
	outcome = outcomeOf(r, s.end(r.Grant.Claim.Holder.ID, job))
	s.add(runs, 1, job, outcome)
	lost, missed := findings(r)
	s.add(ticksLost, lost, job)
	s.add(ticksMissed, missed, job)
	// They are shown from the first attempt on: an increase cannot be seen of what was not there before.
	s.add(leaderChanges, 0, job)
	s.add(renewalFailures, 0, job)
	return outcome
}

// Forget drops the metrics of a job that is not run here any more.
func (s *Set) Forget(job string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, f := range s.families {
		f.forget(label(job))
	}
}

// findings counts what this very claim found lost or missed.
func findings(r runner.Result) (lost, missed float64) {
	for _, o := range r.Grant.Lost {
		if o.State == backends.Missed {
			missed++
		} else {
			lost++
		}
	}
	if r.Ending == runner.Refused && r.Refusal != nil && r.Refusal.First {
		if r.Refusal.Verdict == backends.Late {
			missed++
		} else {
			lost++
		}
	}
	return lost, missed
}

// end forgets a run, and says whether it had been asked to stop. An attempt that was never granted has none.
func (s *Set) end(holder, job string) (stopping bool) {
	run := s.open[holder]
	s.leave(run, job)
	delete(s.open, holder)
	return run != nil && run.stopping
}

// leave notes once that a run does not lead any more.
func (s *Set) leave(run *openRun, job string) {
	if run == nil || run.over {
		return
	}
	run.over = true
	s.add(leading, -1, job)
}

// add adds to a counter or gauge. Nothing added to a series that is not there yet makes it appear.
func (s *Set) add(m metric, n float64, labels ...string) { s.families[m].at(labels...).value += n }

// set sets a gauge.
func (s *Set) set(m metric, n float64, job string) { s.families[m].at(job).value = n }

// observe adds a sample to a histogram, in which the job is told or not.
func (s *Set) observe(m metric, sample time.Duration, job string) {
	f := s.families[m]
	f.observe(sample.Seconds(), []string{job}[:len(f.labels)]...)
}

// label is a job's name as Prometheus takes it.
func label(job string) string { return strings.ToValidUTF8(job, "\uFFFD") }

func seconds(t time.Time) float64 { return float64(t.UnixMilli()) / 1000 }
