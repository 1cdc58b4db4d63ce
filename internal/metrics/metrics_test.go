package metrics

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil/promlint"
	dto "github.com/prometheus/client_model/go"

	"github.com/leaderrun/leaderrun/backends"
	"github.com/leaderrun/leaderrun/runner"
)

var tick = time.Date(2026, 3, 29, 2, 0, 0, 0, time.UTC)

func granted(holder string) backends.Grant {
	g := backends.Grant{Token: 7, Tick: tick.Unix()}
	g.Claim.Holder.ID = holder
	return g
}

// ran is the result of a run whose command ended with a code.
func ran(holder string, code int) runner.Result {
	r := runner.Result{Ending: runner.Ran, Grant: granted(holder)}
	r.Status.Known, r.Status.Code = true, code
	return r
}

func refusal(v backends.Verdict, first bool) runner.Result {
	return runner.Result{Ending: runner.Refused, Refusal: &backends.Refusal{Verdict: v, First: first}}
}

// observe tells the events of a run, from its grant to its release.
func observe(s *Set, job, holder string) {
	s.now = func() time.Time { return tick.Add(250 * time.Millisecond) }
	for _, e := range []runner.Event{
		{Name: runner.EventAcquired, Took: 3 * time.Millisecond},
		{Name: runner.EventStarted},
		{Name: runner.EventRenewed, Took: 2 * time.Millisecond, Left: 9 * time.Second},
		{Name: runner.EventRenewFail},
		{Name: runner.EventExited, Took: 12 * time.Second},
		{Name: runner.EventReleased},
	} {
		e.Job, e.Holder, e.Tick = job, holder, tick.Unix()
		s.Observe(e)
	}
}

func TestOutcomes(t *testing.T) {
	signalled := ran("h", 0)
	signalled.Signal, signalled.Status.Signal = syscall.SIGHUP, syscall.SIGHUP
	handled := ran("h", 0)
	handled.Signal = syscall.SIGHUP
	unseen := ran("h", 0)
	unseen.Status.Known = false
	for name, c := range map[string]struct {
		result   runner.Result
		stopping bool
		want     string
	}{
		"done":                     {ran("h", 0), false, "done"},
		"failed":                   {ran("h", 3), false, "failed"},
		"nobody saw the end":       {unseen, false, "failed"},
		"asked to stop":            {ran("h", 0), true, "stopped"},
		"died of our signal":       {signalled, false, "stopped"},
		"a reload is no stop":      {handled, false, "done"},
		"broken":                   {runner.Result{Ending: runner.Broken}, true, "stopped"},
		"timed out":                {runner.Result{Ending: runner.TimedOut}, true, "timed_out"},
		"lease lost":               {runner.Result{Ending: runner.LeaseLost}, true, "lost"},
		"guardian lost":            {runner.Result{Ending: runner.TreeLost}, false, "lost"},
		"unconfirmed":              {runner.Result{Ending: runner.Unconfirmed}, true, "unconfirmed"},
		"unrecorded":               {runner.Result{Ending: runner.Unrecorded}, false, "unrecorded"},
		"wait over":                {runner.Result{Ending: runner.WaitOver}, false, "skipped_held"},
		"unreachable":              {runner.Result{Ending: runner.Unreachable}, false, "unreachable"},
		"lost before the start":    {runner.Result{Ending: runner.NotStarted}, false, "unreachable"},
		"credentials":              {runner.Result{Ending: runner.Permanent}, false, "refused"},
		"interrupted":              {runner.Result{Ending: runner.Interrupted}, false, "interrupted"},
		"start failed":             {runner.Result{Ending: runner.StartFailed, Err: errors.New("no")}, false, "start_failed"},
		"no refusal":               {runner.Result{Ending: runner.Refused}, false, "refused"},
		"held":                     {refusal(backends.Held, false), false, "skipped_held"},
		"vanished":                 {refusal(backends.Vanished, false), false, "skipped_held"},
		"quarantined":              {refusal(backends.Quarantined, false), false, "skipped_held"},
		"the tick is done":         {refusal(backends.IsDone, false), false, "skipped_done"},
		"the tick is failed":       {refusal(backends.IsFailed, false), false, "skipped_ended"},
		"the tick is stopped":      {refusal(backends.IsStopped, false), false, "skipped_ended"},
		"the tick is lost":         {refusal(backends.IsLost, true), false, "skipped_ended"},
		"the tick is missed":       {refusal(backends.IsMissed, false), false, "skipped_ended"},
		"a later tick was run":     {refusal(backends.IsEarlier, false), false, "skipped_ended"},
		"late":                     {refusal(backends.Late, true), false, "skipped_late"},
		"our clock is ahead":       {refusal(backends.Future, false), false, "refused"},
		"another's clock is ahead": {refusal(backends.FutureRecorded, false), false, "refused"},
		"outdated":                 {refusal(backends.Outdated, false), false, "refused"},
		"abandoned":                {refusal(backends.Abandoned, false), false, "refused"},
	} {
		if got := outcomeOf(c.result, c.stopping); got != c.want {
			t.Errorf("%s: %s, want %s", name, got, c.want)
		}
	}
}

func TestARunIsCounted(t *testing.T) {
	reg := newScraped()
	s := New(reg.Registry)
	observe(s, "job", "h")
	s.Ended("job", ran("h", 0), tick, tick.Add(time.Minute))

	expect(t, reg, 1, "leaderrun_runs_total", `job="job"`, `outcome="done"`)
	expect(t, reg, 1, "leaderrun_leader_changes_total", `job="job"`)
	expect(t, reg, 1, "leaderrun_renewal_failures_total", `job="job"`)
	expect(t, reg, 0, "leaderrun_ticks_lost_total", `job="job"`)
	expect(t, reg, 0, "leaderrun_ticks_missed_total", `job="job"`)
	expect(t, reg, float64(tick.Unix()), "leaderrun_last_tick_timestamp_seconds", `job="job"`)
	expect(t, reg, float64(tick.Unix()+60), "leaderrun_last_success_timestamp_seconds", `job="job"`)
	expect(t, reg, 0, "leaderrun_last_run_exit_code", `job="job"`)
	for _, name := range []string{
		"leaderrun_run_duration_seconds", "leaderrun_start_lateness_seconds", "leaderrun_election_seconds",
		"leaderrun_renewal_seconds", "leaderrun_renewal_left_seconds",
	} {
		expect(t, reg, 1, name)
	}
}

func TestASkippedRunSaysNothingOfTheLastOne(t *testing.T) {
	reg := newScraped()
	s := New(reg.Registry)
	s.Ended("job", refusal(backends.Held, false), time.Time{}, tick)
	expect(t, reg, 1, "leaderrun_runs_total", `job="job"`, `outcome="skipped_held"`)
	expect(t, reg, 0, "leaderrun_ticks_lost_total", `job="job"`) // the increase from it can be seen
	expect(t, reg, absent, "leaderrun_last_run_exit_code", `job="job"`)
	expect(t, reg, absent, "leaderrun_last_success_timestamp_seconds", `job="job"`)
	expect(t, reg, absent, "leaderrun_last_tick_timestamp_seconds", `job="job"`)

	s.Ended("job", ran("h", 3), time.Time{}, tick)
	expect(t, reg, 3, "leaderrun_last_run_exit_code", `job="job"`)
	expect(t, reg, absent, "leaderrun_last_success_timestamp_seconds", `job="job"`)
}

func TestWhatAClaimFoundIsCountedOnce(t *testing.T) {
	reg := newScraped()
	s := New(reg.Registry)
	r := ran("h", 0)
	r.Grant.Lost = []backends.Occurrence{{State: backends.Lost}, {State: backends.Missed}, {State: backends.Lost}}
	r.Refusal = &backends.Refusal{Verdict: backends.Held, First: true} // what came before the grant
	s.Ended("job", r, tick, tick)
	expect(t, reg, 2, "leaderrun_ticks_lost_total", `job="job"`)
	expect(t, reg, 1, "leaderrun_ticks_missed_total", `job="job"`)

	s.Ended("job", refusal(backends.IsLost, true), tick, tick)
	s.Ended("job", refusal(backends.IsLost, false), tick, tick) // told by another
	s.Ended("job", refusal(backends.Late, true), tick, tick)
	s.Ended("job", refusal(backends.Late, false), tick, tick)
	expect(t, reg, 3, "leaderrun_ticks_lost_total", `job="job"`)
	expect(t, reg, 2, "leaderrun_ticks_missed_total", `job="job"`)
}

func TestLeading(t *testing.T) {
	reg := newScraped()
	s := New(reg.Registry)
	event := func(name string) { s.Observe(runner.Event{Name: name, Job: "job", Holder: "h"}) }
	leads := func(want float64) {
		t.Helper()
		expect(t, reg, want, "leaderrun_leading", `job="job"`)
	}
	event(runner.EventAcquired)
	leads(1)
	s.Ended("job", refusal(backends.Held, false), tick, tick) // another attempt of this very process
	leads(1)
	event(runner.EventLost) // its tree is still being killed
	leads(1)
	event(runner.EventReleased)
	leads(0)
	s.Ended("job", ran("h", 0), tick, tick)
	leads(0)

	event(runner.EventAcquired)
	s.Ended("job", runner.Result{Ending: runner.Unconfirmed, Grant: granted("h")}, tick, tick) // never released
	leads(0)
	if len(s.open) != 0 {
		t.Errorf("%d runs are remembered that have ended", len(s.open))
	}
}

// A stop shows in the events only: the command may have ended with 0.
func TestARunThatWasAskedToStopIsNotDone(t *testing.T) {
	reg := newScraped()
	s := New(reg.Registry)
	for _, name := range []string{runner.EventAcquired, runner.EventStarted, runner.EventStopping} {
		s.Observe(runner.Event{Name: name, Job: "job", Holder: "h"})
	}
	s.Ended("job", ran("h", 0), tick, tick)
	expect(t, reg, 1, "leaderrun_runs_total", `job="job"`, `outcome="stopped"`)
	expect(t, reg, absent, "leaderrun_last_success_timestamp_seconds", `job="job"`)
}

func TestOnlyTheFirstStartIsLate(t *testing.T) {
	reg := newScraped()
	s := New(reg.Registry)
	s.now = func() time.Time { return tick.Add(-time.Second) } // a step of the clock: not a negative sample
	for _, name := range []string{runner.EventAcquired, runner.EventStarted, runner.EventExited, runner.EventStarted} {
		s.Observe(runner.Event{Name: name, Job: "job", Holder: "h", Tick: tick.Unix()})
	}
	expect(t, reg, 1, "leaderrun_start_lateness_seconds")
	if sum := histogramOf(t, reg, "leaderrun_start_lateness_seconds").GetSampleSum(); sum != 0 {
		t.Errorf("late by %v", sum)
	}
	s.Observe(runner.Event{Name: runner.EventAcquired, Job: "job", Holder: "without tick"})
	s.Observe(runner.Event{Name: runner.EventStarted, Job: "job", Holder: "without tick"})
	expect(t, reg, 1, "leaderrun_start_lateness_seconds")
}

func TestRunsOfEarlierTicksCountToo(t *testing.T) {
	reg := newScraped()
	s := New(reg.Registry)
	observe(s, "job", "first")
	observe(s, "job", "second")
	r := ran("second", 0)
	r.Before = []runner.Result{ran("first", 3)}
	s.Ended("job", r, tick.Add(time.Hour), tick.Add(time.Hour))
	expect(t, reg, 1, "leaderrun_runs_total", `job="job"`, `outcome="failed"`)
	expect(t, reg, 1, "leaderrun_runs_total", `job="job"`, `outcome="done"`)
	expect(t, reg, 0, "leaderrun_last_run_exit_code", `job="job"`)
	expect(t, reg, float64(tick.Unix()+3600), "leaderrun_last_tick_timestamp_seconds", `job="job"`)
	if len(s.open) != 0 {
		t.Errorf("%d runs are remembered that have ended", len(s.open))
	}
}

func TestForget(t *testing.T) {
	reg := newScraped()
	s := New(reg.Registry)
	for _, job := range []string{"old", "kept"} {
		observe(s, job, job)
		s.Ended(job, ran(job, 0), tick, tick)
	}
	s.Forget("old")
	families, err := reg.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range families {
		for _, m := range f.Metric {
			if strings.Contains(labelsIn(m), "old") {
				t.Errorf("%s still has %s", f.GetName(), labelsIn(m))
			}
		}
	}
	expect(t, reg, 1, "leaderrun_runs_total", `job="kept"`, `outcome="done"`)
}

// Ten thousand jobs must not make ten thousand histograms, and what no job can be called must not be fatal.
func TestSeriesPerJob(t *testing.T) {
	reg := newScraped()
	s := New(reg.Registry)
	const jobs = 100
	for n := range jobs {
		job := fmt.Sprintf("job %d \xff\n\"", n)
		observe(s, job, job)
		s.Ended(job, ran(job, 0), tick, tick)
	}
	families, err := reg.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range families {
		want := jobs
		if f.GetType() == dto.MetricType_HISTOGRAM {
			want = 1
		}
		if len(f.Metric) != want {
			t.Errorf("%s has %d series for %d jobs", f.GetName(), len(f.Metric), jobs)
		}
	}
}

func TestNamesAreAsPrometheusWantsThem(t *testing.T) {
	reg := newScraped()
	s := New(reg.Registry)
	file := NewTextfile(t.TempDir(), "job")
	for _, s := range []*Set{s, file.Set} {
		observe(s, "job", "h")
		s.Ended("job", ran("h", 0), tick, tick)
	}
	for name, g := range map[string]prometheus.Gatherer{"daemon": reg, "file": scraped{file.registry}} {
		families, err := g.Gather()
		if err != nil {
			t.Fatal(err)
		}
		problems, err := promlint.NewWithMetricFamilies(families).Lint()
		if err != nil {
			t.Fatal(err)
		}
		for _, p := range problems {
			t.Errorf("%s: %s: %s", name, p.Metric, p.Text)
		}
		want := len(definitions())
		if name == "file" {
			want-- // leaderrun_leading
		}
		if len(families) != want {
			t.Errorf("%s: %d metrics, want %d", name, len(families), want)
		}
	}
}

func TestScrape(t *testing.T) {
	reg := NewRegistry()
	s := New(reg)
	observe(s, "job", "h")
	server := httptest.NewServer(Handler(reg))
	defer server.Close()
	response, err := http.Get(server.URL)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		"\nleaderrun_leader_changes_total{job=\"job\"} 1\n", "\nleaderrun_renewal_left_seconds_bucket{le=\"10\"} 1\n", "\ngo_goroutines ",
	} {
		if !strings.Contains(string(body), want) {
			t.Errorf("the page has no %q", want)
		}
	}
}

func TestSetIsForSeveralGoroutines(t *testing.T) {
	reg := newScraped()
	s := New(reg.Registry)
	s.now = func() time.Time { return tick }
	var group sync.WaitGroup
	const jobs, each = 8, 50
	for n := range jobs {
		group.Go(func() {
			for m := range each {
				holder := fmt.Sprintf("%d-%d", n, m)
				for _, name := range []string{runner.EventAcquired, runner.EventStarted, runner.EventStopping, runner.EventReleased} {
					s.Observe(runner.Event{Name: name, Job: "job", Holder: holder, Tick: tick.Unix()})
				}
				s.Ended("job", ran(holder, 0), tick, tick)
				_, _ = reg.Gather()
			}
		})
	}
	group.Wait()
	expect(t, reg, jobs*each, "leaderrun_runs_total", `job="job"`, `outcome="stopped"`)
	expect(t, reg, 0, "leaderrun_leading", `job="job"`)
}

// What is known of the last tick of a job in shards is about the whole, however its last shard ended.
func TestShards(t *testing.T) {
	reg := newScraped()
	s := New(reg.Registry)
	for _, holder := range []string{"a", "b"} {
		s.Observe(runner.Event{Name: runner.EventAcquired, Job: "job", Holder: holder})
	}
	expect(t, reg, 2, "leaderrun_leading", `job="job"`)
	s.ShardEnded("job", ran("a", 3))
	earlier := ran("b", 0)
	earlier.Before = []runner.Result{ran("c", 0)}
	s.ShardEnded("job", earlier)
	expect(t, reg, 0, "leaderrun_leading", `job="job"`)
	expect(t, reg, 2, "leaderrun_runs_total", `job="job"`, `outcome="done"`)
	expect(t, reg, 1, "leaderrun_runs_total", `job="job"`, `outcome="failed"`)
	expect(t, reg, absent, "leaderrun_last_success_timestamp_seconds", `job="job"`)
	expect(t, reg, absent, "leaderrun_last_tick_timestamp_seconds", `job="job"`)

	s.TickEnded("job", 3, false, tick, tick)
	expect(t, reg, 3, "leaderrun_last_run_exit_code", `job="job"`)
	expect(t, reg, float64(tick.Unix()), "leaderrun_last_tick_timestamp_seconds", `job="job"`)
	expect(t, reg, absent, "leaderrun_last_success_timestamp_seconds", `job="job"`)
	s.TickEnded("job", 0, true, time.Time{}, tick.Add(time.Minute))
	expect(t, reg, float64(tick.Unix()+60), "leaderrun_last_success_timestamp_seconds", `job="job"`)
	expect(t, reg, float64(tick.Unix()), "leaderrun_last_tick_timestamp_seconds", `job="job"`)
}
