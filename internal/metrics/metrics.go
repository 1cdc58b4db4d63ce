// Package metrics counts what becomes of runs, for Prometheus. A daemon serves one Set over HTTP; a single run
// adds its own to a file in the directory of a node exporter's textfile collector. docs/metrics.md explains
// each metric.
package metrics

import (
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/leaderrun/leaderrun/backends"
	"github.com/leaderrun/leaderrun/runner"
)

// Set is the metrics of one process. Its methods may be called by several goroutines, and never block.
type Set struct {
	now func() time.Time // the wall clock: ticks are on it

	runs, leaderChanges, renewalFailures, ticksLost, ticksMissed *prometheus.CounterVec
	lastTick, lastSuccess, lastExit                              *prometheus.GaugeVec
	duration, lateness, election, renewal, renewalLeft           prometheus.Histogram
	leading                                                      *prometheus.GaugeVec // nil: not shown

	mu   sync.Mutex
	open map[string]*openRun // by holder: granted, and not ended yet
}

// openRun is what the events of a run told that its result does not.
type openRun struct {
	started  bool
	stopping bool
	over     bool // it does not lead any more
}

// NewRegistry returns a registry of its own, with what Go and the operating system tell of this process.
func NewRegistry() *prometheus.Registry {
	reg := prometheus.NewRegistry()
	reg.MustRegister(collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	return reg
}

// Handler serves what a registry gathers.
func Handler(reg *prometheus.Registry) http.Handler {
	return promhttp.HandlerFor(reg, promhttp.HandlerOpts{Registry: reg})
}

// New registers the metrics of a daemon. It panics if reg has them already.
func New(reg prometheus.Registerer) *Set {
	s := newSet(reg, reg)
	s.leading = leading.gauge(reg)
	return s
}

// newSet registers the histograms apart: in files they need a label more.
func newSet(reg, histograms prometheus.Registerer) *Set {
	return &Set{
		now:             time.Now,
		runs:            runs.counter(reg),
		leaderChanges:   leaderChanges.counter(reg),
		renewalFailures: renewalFailures.counter(reg),
		ticksLost:       ticksLost.counter(reg),
		ticksMissed:     ticksMissed.counter(reg),
		lastTick:        lastTick.gauge(reg),
		lastSuccess:     lastSuccess.gauge(reg),
		lastExit:        lastExit.gauge(reg),
		duration:        duration.histogram(histograms),
		lateness:        lateness.histogram(histograms),
		election:        election.histogram(histograms),
		renewal:         renewal.histogram(histograms),
		renewalLeft:     renewalLeft.histogram(histograms),
		open:            map[string]*openRun{},
	}
}

// Observe counts an event of a run. After a lease_acquired, Ended must follow.
func (s *Set) Observe(e runner.Event) {
	job := label(e.Job)
	switch e.Name {
	case runner.EventAcquired:
		s.leaderChanges.WithLabelValues(job).Inc()
		s.election.Observe(e.Took.Seconds())
		s.begin(e.Holder, job)
	case runner.EventStarted:
		if s.starts(e.Holder) && e.Tick != 0 {
			s.lateness.Observe(max(s.now().Sub(time.Unix(e.Tick, 0)), 0).Seconds())
		}
	case runner.EventStopping:
		s.stops(e.Holder)
	case runner.EventExited:
		s.duration.Observe(e.Took.Seconds())
	case runner.EventRenewed:
		s.renewal.Observe(e.Took.Seconds())
		s.renewalLeft.Observe(e.Left.Seconds())
	case runner.EventRenewFail:
		s.renewalFailures.WithLabelValues(job).Inc()
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
	o := outcomeOf(r, s.end(r.Grant.Claim.Holder.ID, job))
	s.runs.WithLabelValues(job, o).Inc()
	lost, missed := findings(r)
	s.ticksLost.WithLabelValues(job).Add(lost)
	s.ticksMissed.WithLabelValues(job).Add(missed)
	// They are shown from the first attempt on: an increase cannot be seen of what was not there before.
	s.leaderChanges.WithLabelValues(job)
	s.renewalFailures.WithLabelValues(job)
	if !tick.IsZero() {
		s.lastTick.WithLabelValues(job).Set(seconds(tick))
	}
	if r.Status.Known {
		s.lastExit.WithLabelValues(job).Set(float64(r.Status.ExitCode()))
	}
	if o == done {
		s.lastSuccess.WithLabelValues(job).Set(seconds(at))
	}
}

// Forget drops the metrics of a job that is not run here any more.
func (s *Set) Forget(job string) {
	of := prometheus.Labels{"job": label(job)}
	for _, c := range []*prometheus.CounterVec{s.runs, s.leaderChanges, s.renewalFailures, s.ticksLost, s.ticksMissed} {
		c.DeletePartialMatch(of)
	}
	for _, g := range []*prometheus.GaugeVec{s.lastTick, s.lastSuccess, s.lastExit, s.leading} {
		if g != nil {
			g.DeletePartialMatch(of)
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
		s.leading.WithLabelValues(job).Inc()
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
		s.leading.WithLabelValues(job).Dec()
	}
}

// label is a job's name as Prometheus takes it.
func label(job string) string { return strings.ToValidUTF8(job, "\uFFFD") }

func seconds(t time.Time) float64 { return float64(t.UnixMilli()) / 1000 }
