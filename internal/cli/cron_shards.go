package cli

import (
	"log/slog"

	"github.com/leaderrun/leaderrun/internal/shards"
	"github.com/leaderrun/leaderrun/runner"
)

// Worked implements daemon.Launch. What became of the shards that were run here was told and counted by each.
func (a *launch) Worked(o shards.Outcome, r runner.Result) {
	a.reporter.trigger.Tick = o.Trigger.Tick
	if o.Done+o.Running+o.Open+len(o.Ended) == 0 { // nobody looked
		a.over(r)
		return
	}
	end := endOf(r, -1)
	a.whole(a.job.Name, o, end)
	switch {
	case o.Busy != nil, o.Stop != nil && o.StopShard < 0 && o.Stop.Ending != runner.Interrupted:
		a.reporter.tell(r, end)
		return
	}
	sum := sumOf(o)
	e := runner.Event{
		Name: eventShards, Level: slog.LevelInfo, Job: a.job.Name, Tick: o.Trigger.Tick,
		Text: "the tick " + tickText(o.Trigger.Tick) + ": " + sum.text(), Fields: sum.fields(),
	}
	if o.Bad != nil && o.Bad.Ending != runner.Refused { // a run here
		e.Level = slog.LevelWarn
	}
	a.reporter.say(e)
}
