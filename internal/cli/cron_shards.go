package cli

import (
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"time"

	"github.com/leaderrun/leaderrun/internal/metrics"
	"github.com/leaderrun/leaderrun/internal/shards"
	"github.com/leaderrun/leaderrun/runner"
)

// Worked implements daemon.Launch. What became of the shards that were run here was told and counted by each.
func (a *launch) Worked(o shards.Outcome, r runner.Result) {
	a.reporter.trigger.Tick = o.Trigger.Tick
	a.count(func(s *metrics.Set, now time.Time) { s.EndedTick(a.counted, r, time.Unix(o.Trigger.Tick, 0), now) })
	if r.Grant.Token == 0 && (r.Ending != runner.Refused || o.Busy != nil) {
		a.reporter.tell(r, endOf(r, -1))
	}
	if e, looked := shardsEvent(o); looked {
		e.Job = a.job.Name
		a.reporter.say(e)
	}
}

// shardsEvent says what became of a tick whose work is divided, as far as this host knows. looked is false where it knows nothing.
func shardsEvent(o shards.Outcome) (e runner.Event, looked bool) {
	e = runner.Event{
		Name: "tick_worked", Level: slog.LevelInfo, Tick: o.Trigger.Tick,
		Text:   fmt.Sprintf("the tick %s: %d of %d shards done", tickText(o.Trigger.Tick), o.Done, o.Trigger.Parts),
		Fields: []slog.Attr{slog.Int("shards", o.Trigger.Parts), slog.Int("done", o.Done)},
	}
	known := o.Done + o.Running
	add := func(n int, what string) {
		if n > 0 {
			e.Text += fmt.Sprintf(", %d %s", n, what)
			e.Fields = append(e.Fields, slog.Int(what, n))
		}
	}
	add(o.Running, "running")
	for _, state := range slices.Sorted(maps.Keys(o.Ended)) {
		add(o.Ended[state], string(state))
		known += o.Ended[state]
	}
	add(o.Open, "open")
	return e, known > 0
}

// count adds an end to what is served, and to the file.
func (a *launch) count(end func(s *metrics.Set, now time.Time)) {
	now := time.Now()
	if a.metrics != nil {
		end(a.metrics, now)
	}
	if a.file != nil {
		end(a.file.Set, now)
		if err := a.file.Write(); err != nil {
			a.call.console.warnOfMetrics(err)
		}
		a.file = metrics.NewTextfile(a.textfile, a.counted) // what is in the file is not added again
	}
}
