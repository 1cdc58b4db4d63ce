package launch

import (
	"log/slog"

	"github.com/leaderrun/leaderrun/internal/cli"
	"github.com/leaderrun/leaderrun/internal/shards"
	"github.com/leaderrun/leaderrun/runner"
)

// Worked implements daemon.Launch. What became of the shards that were run here was told and counted by each.
func (a *Attempt) Worked(o shards.Outcome, r runner.Result) {
	a.Reporter.Trigger.Tick = o.Trigger.Tick
	if o.Done+o.Running+o.Open+len(o.Ended) == 0 { // nobody looked
		a.Over(r)
		return
	}
	end := cli.EndOf(r, -1)
	a.Whole(a.job.Name, o, end)
	switch {
	case o.Busy != nil, o.Stop != nil && o.StopShard < 0 && o.Stop.Ending != runner.Interrupted:
		a.Reporter.Tell(r, end)
		return
	}
	sum := SumOf(o)
	e := runner.Event{
		Name: EventShards, Level: slog.LevelInfo, Job: a.job.Name, Tick: o.Trigger.Tick,
		Text: "the tick " + cli.TickText(o.Trigger.Tick) + ": " + sum.Text(), Fields: sum.Fields(),
	}
	if o.Bad != nil && o.Bad.Ending != runner.Refused { // a run here
		e.Level = slog.LevelWarn
	}
	a.Reporter.say(e)
}
