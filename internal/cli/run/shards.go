package run

import (
	"context"
	"fmt"
	"log/slog"
	"strings"

	"github.com/leaderrun/leaderrun/backends"
	"github.com/leaderrun/leaderrun/internal/cli"
	"github.com/leaderrun/leaderrun/internal/launch"
	"github.com/leaderrun/leaderrun/internal/shards"
	"github.com/leaderrun/leaderrun/internal/slots"
	"github.com/leaderrun/leaderrun/internal/value"
	"github.com/leaderrun/leaderrun/runner"
)

// checkShards says whether a run can be divided as the command line says, and takes out of the request what does not go with that.
func checkShards(s *cli.Settings, job string, r *runner.Request) error {
	n := r.Trigger.Parts
	switch {
	case n == 0 && s.Typed("parallel"):
		return cli.Usage("--parallel", "the work is not divided", "--shards N says into how many parts")
	case n == 0:
		return nil
	case s.Typed("slots"):
		return cli.Usage("--slots, --shards", "a run has either a slot or a shard", "--slots N is for up to N runs of one command, --shards N for one work in N parts")
	case !r.Trigger.Given() && r.Wait != runner.Forever:
		return cli.Usage("--shards", "the run is for no tick or key", "for work that ends, add --schedule, --every, --tick or --once; for workers that do not, --wait forever")
	case !r.Trigger.Given() && s.Typed("parallel"):
		return cli.Usage("--parallel", "workers without a tick or key are divided evenly among the hosts", "leave it out")
	case s.Typed("min-hold"):
		return cli.Usage("--min-hold", "the work is divided among hosts", "leave it out")
	case s.Typed("prefer"):
		return cli.Usage("--prefer", "the work is divided among hosts", "start it only on those that are to do it")
	case len(slots.Name(job, n-1)) > value.LongestName:
		return cli.Usage("JOB", fmt.Sprintf("the names of its shards are longer than %d bytes", value.LongestName), "")
	}
	r.MinHold, r.Yield = 0, 0 // settings for other jobs
	return nil
}

// runShards works through a tick or key together with other hosts.
func runShards(c *cli.Call, plan *runPlan, store backends.Backend) (cli.ExitStatus, error) {
	w, err := newCrew(c, plan, store)
	if err != nil {
		return cli.ExitStatus{}, err
	}
	r := plan.request
	tick := shards.Tick{
		Store: w.leases, Job: plan.job, Trigger: r.Trigger, Parallel: plan.parallel, TTL: plan.timeline.TTL, Wait: r.Wait, BackendWait: r.BackendWait, Inside: w.inside,
		Run: w.run, Warn: func(_, text, hint string) { c.Console.Warn(text, hint) }, Wanted: w.wanted,
		Tell: func(e runner.Event) {
			w.follow(e)
			c.Console.Event(e)
		},
	}
	out := tick.Work(context.Background())
	end := w.endOf(out)
	w.tell(out, end)
	w.commands.Whole(plan.job, out, end)
	w.close(end)
	return end, nil
}

// endOf is what the work on a whole tick or key comes to: well if every shard is done, whoever did it.
func (w *crew) endOf(o shards.Outcome) cli.ExitStatus {
	conflict := w.plan.conflict
	sig := w.signal()
	switch {
	case o.Busy != nil:
		return w.endOfWait(runner.Result{Ending: runner.Refused, Refusal: o.Busy})
	case o.IsDone():
		return cli.ExitStatus{Code: cli.CodeSkipped}
	case sig != 0:
		return cli.BySignal(sig)
	case o.Stop != nil:
		return cli.EndOf(*o.Stop, conflict)
	case o.Bad != nil && (o.Bad.Ending != runner.Refused || o.IsOver() || o.Differs()):
		return cli.EndOf(*o.Bad, conflict)
	}
	return w.endOfWait(runner.Result{Ending: runner.Refused, Refusal: &backends.Refusal{Verdict: backends.Held}})
}

// endOfWait is the end of who leaves a tick to others: in good hands, unless a wait for them was asked for and is over.
func (w *crew) endOfWait(r runner.Result) cli.ExitStatus {
	if w.plan.request.Wait > 0 {
		r.Ending = runner.WaitOver
	}
	return cli.EndOf(r, w.plan.conflict)
}

// tell says what became of the whole tick or key. What became of each shard that was run here was told.
func (w *crew) tell(o shards.Outcome, end cli.ExitStatus) {
	s := &launch.Reporter{Console: w.commands.Call.Console, Job: w.plan.job, Trigger: o.Trigger}
	for _, before := range o.Before {
		w.tellSum(before, slog.LevelInfo)
	}
	switch {
	case o.Busy != nil:
		s.Tell(runner.Result{Ending: runner.Refused, Refusal: o.Busy}, end)
		return
	case o.Stop != nil && o.Stop.Ending == runner.Interrupted:
		w.tellSum(o, slog.LevelInfo)
		return
	case o.Stop != nil && o.StopShard < 0:
		s.Tell(*o.Stop, end)
		return
	}
	level := slog.LevelInfo
	if o.Bad != nil && o.Bad.Ending != runner.Refused {
		level = slog.LevelWarn
	}
	w.tellSum(o, level, slog.Int("code", end.Code))
}

// tellSum tells how many shards stand how.
func (w *crew) tellSum(o shards.Outcome, level slog.Level, more ...slog.Attr) {
	sum := launch.SumOf(o)
	e := runner.Event{Name: launch.EventShards, Level: level, Job: w.plan.job, Tick: o.Trigger.Tick}
	s := &launch.Reporter{Job: w.plan.job, Trigger: o.Trigger}
	e.Text = strings.TrimSuffix(s.Which(), ",") + ": " + sum.Text()
	if level > slog.LevelInfo {
		e.Hint = fmt.Sprintf("`leaderrun status %s` shows each shard", launch.QuoteWord(w.plan.job))
	}
	if o.Trigger.Once != "" {
		e.Fields = append(e.Fields, slog.String("once", o.Trigger.Once))
	}
	e.Fields = append(append(e.Fields, sum.Fields()...), more...)
	w.commands.Call.Console.Event(e)
}
