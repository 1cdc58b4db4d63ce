// Package metrics counts what becomes of runs, for Prometheus. A daemon serves one Set over HTTP; a single run
// adds its own to a file in the directory of a node exporter's textfile collector. docs/metrics.md explains
// each metric.
package metrics

import (
	"strings"
	"sync"
	"time"

	"github.com/leaderrun/leaderrun/backends"
	"github.com/leaderrun/leaderrun/runner"
)

// Set is the metrics of one process. Its methods may be called by several goroutines, and never block.
type Set struct {
	now func() time.Time // the wall clock: ticks are on it

	runs, leaderChanges, renewalFailures, ticksLost, ticksMissed *family
	lastTick, lastSuccess, lastExit                              *family
	duration, lateness, election, renewal, renewalLeft           sampler
	leading                                                      *family // nil: not shown

	mu   sync.Mutex
	open map[string]*openRun // by holder: granted, and not ended yet
}

// openRun is what the events of a run told that its result does not.
type openRun struct {
	started  bool
	stopping bool
	over     bool // it does not lead any more
}

// sampler takes the samples of a histogram.
type sampler func(float64)

// New registers the metrics of a daemon. It panics if r has them already.
func New(r *Registry) *Set {
	s := newSet(r, func(d definition) sampler {
		f := r.register(d)
		return func(n float64) { f.observe(n) }
	})
	s.leading = r.register(leading)
	return s
}

// newSet registers the histograms apart: in files they need a label more.
func newSet(r *Registry, histograms func(definition) sampler) *Set {
	return &Set{
		now:             time.Now,
		runs:            r.register(runs),
		leaderChanges:   r.register(leaderChanges),
		renewalFailures: r.register(renewalFailures),
		ticksLost:       r.register(ticksLost),
		ticksMissed:     r.register(ticksMissed),
		lastTick:        r.register(lastTick),
		lastSuccess:     r.register(lastSuccess),
		lastExit:        r.register(lastExit),
		duration:        histograms(duration),
		lateness:        histograms(lateness),
		election:        histograms(election),
		renewal:         histograms(renewal),
		renewalLeft:     histograms(renewalLeft),
		open:            map[string]*openRun{},
	}
}

// Observe counts an event of a run. After a lease_acquired, Ended must follow.
func (s *Set) Observe(e runner.Event) {
	job := label(e.Job)
	switch e.Name {
	case runner.EventAcquired:
		s.leaderChanges.add(1, job)
		s.election(e.Took.Seconds())
		s.begin(e.Holder, job)
	case runner.EventStarted:
		if s.starts(e.Holder) && e.Tick != 0 {
			s.lateness(max(s.now().Sub(time.Unix(e.Tick, 0)), 0).Seconds())
		}
	case runner.EventStopping:
		s.stops(e.Holder)
	case runner.EventExited:
		s.duration(e.Took.Seconds())
	case runner.EventRenewed:
		s.renewal(e.Took.Seconds())
		s.renewalLeft(e.Left.Seconds())
	case runner.EventRenewFail:
		s.renewalFailures.add(1, job)
	case runner.EventReleased:
		s.release(e.Holder, job)
	}
}

// Ended counts how an attempt to run the job for a tick (zero: none) ended, at the given time, and the runs of earlier
// ticks that came before it.
func (s *Set) Ended(job string, r runner.Result, tick, at time.Time) {
	for _, b := range r.Before {
		s.Ended(job, b, time.Unix(b.Grant.Tick, 0), at)
	}
	job = label(job)
	o := s.count(job, r)
	if !tick.IsZero() {
		s.lastTick.set(seconds(tick), job)
	}
	if r.Status.Known {
		s.lastExit.set(float64(r.Status.ExitCode()), job)
	}
	if o == done {
		s.lastSuccess.set(seconds(at), job)
	}
}

// ShardEnded counts how an attempt to run a shard of the job ended: all shards of a job are counted together. What is known of the
// last tick is that of the whole: see TickEnded.
func (s *Set) ShardEnded(job string, r runner.Result) {
	for _, b := range r.Before {
		s.ShardEnded(job, b)
	}
	s.count(label(job), r)
}

// TickEnded notes how the work on a whole tick or key (zero: no tick) of a job ended that is divided into shards: with which code, and
// whether all shards are done.
func (s *Set) TickEnded(job string, code int, isDone bool, tick, at time.Time) {
	job = label(job)
	if !tick.IsZero() {
		s.lastTick.set(seconds(tick), job)
	}
	s.lastExit.set(float64(code), job)
	if isDone {
		s.lastSuccess.set(seconds(at), job)
	}
}

// count counts an attempt, and returns its outcome.
func (s *Set) count(job string, r runner.Result) (outcome string) {
	outcome = outcomeOf(r, s.end(r.Grant.Claim.Holder.ID, job))
	s.runs.add(1, job, outcome)
	lost, missed := findings(r)
	s.ticksLost.add(lost, job)
	s.ticksMissed.add(missed, job)
	// They are shown from the first attempt on: an increase cannot be seen of what was not there before.
	s.leaderChanges.add(0, job)
	s.renewalFailures.add(0, job)
	return outcome
}

// Forget drops the metrics of a job that is not run here any more.
func (s *Set) Forget(job string) {
	for _, f := range []*family{
		s.runs, s.leaderChanges, s.renewalFailures, s.ticksLost, s.ticksMissed, s.lastTick, s.lastSuccess, s.lastExit, s.leading,
	} {
		if f != nil {
			f.forget(label(job))
		}
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

func (s *Set) begin(holder, job string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.open[holder] = &openRun{}
	if s.leading != nil {
		s.leading.add(1, job)
	}
}

// starts says whether this is the first start of the run's command.
func (s *Set) starts(holder string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	run := s.open[holder]
	if run == nil || run.started {
		return false
	}
	run.started = true
	return true
}

func (s *Set) stops(holder string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if run := s.open[holder]; run != nil {
		run.stopping = true
	}
}

func (s *Set) release(holder, job string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.leave(s.open[holder], job)
}

// end forgets a run, and says whether it had been asked to stop. An attempt that was never granted has none.
func (s *Set) end(holder, job string) (stopping bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	run := s.open[holder]
	if run == nil {
		return false
	}
	s.leave(run, job)
	delete(s.open, holder)
	return run.stopping
}

// leave notes once that a run does not lead any more. It needs s.mu.
func (s *Set) leave(run *openRun, job string) {
	if run == nil || run.over {
		return
	}
	run.over = true
	if s.leading != nil {
		s.leading.add(-1, job)
	}
}

// label is a job's name as Prometheus takes it.
func label(job string) string { return strings.ToValidUTF8(job, "\uFFFD") }

func seconds(t time.Time) float64 { return float64(t.UnixMilli()) / 1000 }
