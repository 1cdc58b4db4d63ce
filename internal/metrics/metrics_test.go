package metrics

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil/promlint"
	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"

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

// pageOf is what a set shows of runs.
func pageOf(t *testing.T, s *Set) []byte {
	t.Helper()
	text, err := s.text()
	if err != nil {
		t.Fatal(err)
	}
	return text
}

// shows checks samples of a page, without the leaderrun_ of their names. One that begins with - must not be there, whatever its value.
func shows(t *testing.T, page []byte, samples ...string) {
	t.Helper()
	for _, want := range samples {
		series, unwanted := strings.CutPrefix(want, "-")
		end := "\n"
		if unwanted {
			end = " "
		}
		if bytes.Contains(page, []byte("\nleaderrun_"+series+end)) == unwanted {
			t.Errorf("samples: want %s in\n%s", want, page)
		}
	}
}

func TestWhatIsCounted(t *testing.T) {
	events := func(s *Set, holder string, names ...string) {
		for _, name := range names {
			s.Observe(runner.Event{Name: name, Job: "job", Holder: holder, Tick: tick.Unix()})
		}
	}
	found := ran("h", 0)
	found.Grant.Lost = []backends.Occurrence{{State: backends.Lost}, {State: backends.Missed}, {State: backends.Lost}}
	found.Refusal = &backends.Refusal{Verdict: backends.Held, First: true} // what came before the grant
	second := ran("second", 0)
	second.Before = []runner.Result{ran("first", 3)}
	for name, c := range map[string]struct {
		do   func(s *Set)
		want []string
	}{
		"nothing": {func(*Set) {}, []string{`election_seconds_count 0`, `-leading{job="job"}`}},
		"a run": {func(s *Set) {
			observe(s, "job", "h")
			s.Ended("job", ran("h", 0), tick, tick.Add(time.Minute))
		}, []string{
			`runs_total{job="job",outcome="done"} 1`, `leader_changes_total{job="job"} 1`, `renewal_failures_total{job="job"} 1`,
			`ticks_lost_total{job="job"} 0`, `ticks_missed_total{job="job"} 0`, `last_run_exit_code{job="job"} 0`,
			`last_tick_timestamp_seconds{job="job"} 1.7747496e+09`, `last_success_timestamp_seconds{job="job"} 1.77474966e+09`,
			`run_duration_seconds_count 1`, `start_lateness_seconds_count 1`, `election_seconds_count 1`,
			`renewal_seconds_count 1`, `renewal_left_seconds_count 1`, `renewal_left_seconds_sum 9`,
		}},
		"a skipped run says nothing of the last one": {
			func(s *Set) { s.Ended("job", refusal(backends.Held, false), time.Time{}, tick) },
			[]string{
				`runs_total{job="job",outcome="skipped_held"} 1`, `ticks_lost_total{job="job"} 0`, // the increase from it can be seen
				`-last_run_exit_code{job="job"}`, `-last_success_timestamp_seconds{job="job"}`, `-last_tick_timestamp_seconds{job="job"}`,
			},
		},
		"a failed run": {
			func(s *Set) { s.Ended("job", ran("h", 3), time.Time{}, tick) },
			[]string{`last_run_exit_code{job="job"} 3`, `-last_success_timestamp_seconds{job="job"}`},
		},
		"what a claim found": {
			func(s *Set) { s.Ended("job", found, tick, tick) },
			[]string{`ticks_lost_total{job="job"} 2`, `ticks_missed_total{job="job"} 1`},
		},
		"what several found is counted once": {func(s *Set) {
			for _, v := range []backends.Verdict{backends.IsLost, backends.Late} {
				s.Ended("job", refusal(v, true), tick, tick)
				s.Ended("job", refusal(v, false), tick, tick) // told by another
			}
		}, []string{`ticks_lost_total{job="job"} 1`, `ticks_missed_total{job="job"} 1`}},
		"a stop shows in the events only: the command may have ended with 0": {func(s *Set) {
			events(s, "h", runner.EventAcquired, runner.EventStarted, runner.EventStopping)
			s.Ended("job", ran("h", 0), tick, tick)
		}, []string{`runs_total{job="job",outcome="stopped"} 1`, `-last_success_timestamp_seconds{job="job"}`}},
		"only the first start is late, and a step of the clock is no negative sample": {func(s *Set) {
			s.now = func() time.Time { return tick.Add(-time.Second) }
			events(s, "h", runner.EventAcquired, runner.EventStarted, runner.EventExited, runner.EventStarted)
			s.Observe(runner.Event{Name: runner.EventAcquired, Job: "job", Holder: "without tick"})
			s.Observe(runner.Event{Name: runner.EventStarted, Job: "job", Holder: "without tick"})
			s.Ended("job", ran("h", 0), tick, tick)
			s.Ended("job", ran("without tick", 0), time.Time{}, tick)
		}, []string{`start_lateness_seconds_count 1`, `start_lateness_seconds_sum 0`}},
		"runs of earlier ticks": {func(s *Set) {
			observe(s, "job", "first")
			observe(s, "job", "second")
			s.Ended("job", second, tick.Add(time.Hour), tick.Add(time.Hour))
		}, []string{
			`runs_total{job="job",outcome="failed"} 1`, `runs_total{job="job",outcome="done"} 1`,
			`last_run_exit_code{job="job"} 0`, `last_tick_timestamp_seconds{job="job"} 1.7747532e+09`,
		}},
		"a job that is forgotten, beside another": {func(s *Set) {
			for _, job := range []string{"old", "job"} {
				observe(s, job, job)
				s.Ended(job, ran(job, 0), tick, tick)
			}
			s.Forget("old")
		}, []string{
			`runs_total{job="job",outcome="done"} 1`, `election_seconds_count 2`, `-runs_total{job="old",outcome="done"}`,
			`-leader_changes_total{job="old"}`, `-last_run_exit_code{job="old"}`, `-leading{job="old"}`,
		}},
		"shards say nothing of the last tick": {func(s *Set) {
			events(s, "a", runner.EventAcquired)
			events(s, "second", runner.EventAcquired)
			s.ShardEnded("job", ran("a", 3))
			s.ShardEnded("job", second)
		}, []string{
			`leading{job="job"} 0`, `runs_total{job="job",outcome="done"} 1`, `runs_total{job="job",outcome="failed"} 2`,
			`-last_success_timestamp_seconds{job="job"}`, `-last_tick_timestamp_seconds{job="job"}`, `-last_run_exit_code{job="job"}`,
		}},
		"a tick whose shards are not all done": {
			func(s *Set) { s.TickEnded("job", 3, false, tick, tick) },
			[]string{
				`last_run_exit_code{job="job"} 3`, `last_tick_timestamp_seconds{job="job"} 1.7747496e+09`,
				`-last_success_timestamp_seconds{job="job"}`,
			},
		},
		"a key whose shards are all done": {
			func(s *Set) { s.TickEnded("job", 0, true, time.Time{}, tick) },
			[]string{`last_success_timestamp_seconds{job="job"} 1.7747496e+09`, `-last_tick_timestamp_seconds{job="job"}`},
		},
	} {
		t.Run(name, func(t *testing.T) {
			s := New()
			c.do(s)
			shows(t, pageOf(t, s), c.want...)
			if len(s.open) != 0 {
				t.Errorf("%d runs are remembered that have ended", len(s.open))
			}
		})
	}
}

func TestLeading(t *testing.T) {
	s := New()
	leads := func(want int) {
		t.Helper()
		shows(t, pageOf(t, s), fmt.Sprintf(`leading{job="job"} %d`, want))
	}
	event := func(name string) { s.Observe(runner.Event{Name: name, Job: "job", Holder: "h"}) }
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
}

// parsed is a page as Prometheus reads it.
func parsed(t *testing.T, page []byte) []*dto.MetricFamily {
	t.Helper()
	parser := expfmt.NewTextParser(model.LegacyValidation)
	families, err := parser.TextToMetricFamilies(bytes.NewReader(page))
	if err != nil {
		t.Fatalf("%v\n%s", err, page)
	}
	return slices.Collect(maps.Values(families))
}

// Names are as Prometheus wants them, whatever jobs are called. Ten thousand jobs must not make ten thousand histograms.
func TestPages(t *testing.T) {
	const jobs = 100
	daemon, file := New(), NewTextfile("", "job")
	for n := range jobs {
		job := fmt.Sprintf("job %d \xff\n\"", n)
		observe(daemon, job, job)
		daemon.Ended(job, ran(job, 0), tick, tick)
	}
	observe(file.Set, "job", "h")
	file.Ended("job", ran("h", 0), tick, tick)
	text, err := file.textAfter(nil)
	if err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		page             []byte
		families, series int
	}{
		"daemon": {pageOf(t, daemon), len(definitions), jobs},
		"file":   {text, len(definitions) - 1, 1}, // without leaderrun_leading
	} {
		families := parsed(t, c.page)
		problems, err := promlint.NewWithMetricFamilies(families).Lint()
		if err != nil || len(problems) != 0 {
			t.Errorf("%s: %v, %v", name, problems, err)
		}
		if len(families) != c.families {
			t.Errorf("%s: %d metrics, want %d", name, len(families), c.families)
		}
		for _, f := range families {
			want := c.series
			if f.GetType() == dto.MetricType_HISTOGRAM {
				want = 1
			}
			if len(f.Metric) != want {
				t.Errorf("%s: %s has %d series", name, f.GetName(), len(f.Metric))
			}
		}
	}
}

func TestAPageIsPackedForWhoAsks(t *testing.T) {
	s := New()
	observe(s, "job", "h")
	server := httptest.NewServer(s)
	defer server.Close()
	for _, packed := range []bool{true, false} {
		client := &http.Client{Transport: &http.Transport{DisableCompression: !packed}} // it unpacks what it has asked for
		answer, err := client.Get(server.URL)
		if err != nil {
			t.Fatal(err)
		}
		page, err := io.ReadAll(answer.Body)
		_ = answer.Body.Close()
		if kind := answer.Header.Get("Content-Type"); err != nil || answer.Uncompressed != packed || kind != "text/plain; version=0.0.4; charset=utf-8" {
			t.Errorf("packed: %v, want %v; %s, %v", answer.Uncompressed, packed, kind, err)
		}
		shows(t, page, `leader_changes_total{job="job"} 1`, `renewal_left_seconds_bucket{le="10"} 1`)
		for _, f := range processFamilies(tick) {
			if len(f.series) != 1 || !bytes.Contains(page, []byte("# TYPE "+f.name+" ")) {
				t.Errorf("the page lacks %s", f.name)
			}
		}
		client.CloseIdleConnections()
	}
}

func TestSetIsForSeveralGoroutines(t *testing.T) {
	s := New()
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
				pageOf(t, s)
			}
		})
	}
	group.Wait()
	shows(t, pageOf(t, s), `runs_total{job="job",outcome="stopped"} 400`, `leading{job="job"} 0`)
}
