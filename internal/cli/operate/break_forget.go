package operate

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/leaderrun/leaderrun/backends"
	"github.com/leaderrun/leaderrun/internal/cli"
)

// forgetAll forgets a part of a job's record, or, if the job is divided, of the record of each shard. Slots have none of what is forgotten.
func (b *breaking) forgetAll(ctx context.Context, names []string) error {
	names = slices.DeleteFunc(slices.Clone(names), func(name string) bool { return name == b.job })
	seen, err := inspectJobs(ctx, b.store, names)
	if err != nil {
		return err
	}
	if !slices.ContainsFunc(seen, func(s backends.Status) bool { return isPart(s.Record) }) {
		return b.forgetOf(ctx, b.job, nil, nil)
	}
	of := &seen[0]
	for i := range seen { // the record of shard 0 may have been forgotten
		if of.Record.LastTick().Tick == 0 {
			of = &seen[i]
		}
	}
	if err := b.nobodyIsAtWork(names, seen, of.Record.LastTick().Tick); err != nil {
		return err
	}
	// Shard 0 is the last: until it is forgotten, who comes goes on with the same number of shards.
	found := map[string]bool{}
	for _, name := range slices.Backward(names) {
		if err := b.forgetOf(ctx, name, of, found); err != nil {
			return err
		}
	}
	b.mean(*of)
	for _, o := range b.forget {
		if what := forgettable(o); !found[what] {
			b.Console.Warn(fmt.Sprintf("no %s of %s is recorded", what, b.job), "")
		}
	}
	return nil
}

// nobodyIsAtWork refuses to forget a tick or key while one of its shards runs, unless that run is to be ended before: what was forgotten
// of the others would be run again at once.
func (b *breaking) nobodyIsAtWork(names []string, seen []backends.Status, tick int64) error {
	for i, s := range seen {
		for _, o := range b.forget {
			if b.kind == "" && has(s, tick, o) && runsFor(s, o) {
				return notForgotten(names[i], &backends.Refusal{Verdict: backends.Held, Holder: s.Record.Holder, Wait: s.Lease.Left})
			}
		}
	}
	return nil
}

// runsFor says whether the present run is for the tick or key that is to be forgotten.
func runsFor(s backends.Status, o backends.Order) bool {
	if s.Lease == nil || o.Kind == backends.ForgetSchedule {
		return false
	}
	i := slices.IndexFunc(s.Record.Runs, func(run backends.Run) bool { return run.Token == s.Lease.Token })
	return i >= 0 && (o.Kind == backends.ForgetTick && s.Record.Runs[i].Tick == s.Record.Tick.Tick || o.Kind == backends.ForgetKey && s.Record.Runs[i].Key == o.Key)
}

// notForgotten is the fault of a tick or key that runs, or may.
func notForgotten(job string, r *backends.Refusal) error {
	f := refused(job, r)
	f.Hint = "--force or --holder-is-dead end the run first"
	return f
}

// forgetOf ends the run of a job or shard, if that was asked for, and forgets what was asked for. of: the record of shard 0, for a
// shard: one that has not come to that tick is left alone. found gets what was there to forget.
func (b *breaking) forgetOf(ctx context.Context, name string, of *backends.Status, found map[string]bool) error {
	one := *b
	one.job, one.forget = name, slices.Clone(b.forget)
	s, err := inspectJob(ctx, b.store, name)
	if err != nil {
		return err
	}
	for i := range one.forget {
		one.forget[i].Job = name
	}
	one.mean(s)
	one.end = patienceFor(b.wait)
	if b.kind != "" && (of == nil || !b.isIdle(s)) {
		if one.run, err = one.endRun(ctx, s); err != nil {
			return err
		}
		if one.run != nil {
			if err := one.await(ctx, one.run, one.end); err != nil {
				return err
			}
		}
	}
	for _, o := range one.forget {
		if of != nil {
			if !has(s, of.Record.LastTick().Tick, o) {
				continue
			}
			found[forgettable(o)] = true
		}
		if err := one.forgetPart(ctx, o); err != nil {
			return err
		}
	}
	return nil
}

// has says whether a shard has what is to be forgotten.
func has(s backends.Status, tick int64, o backends.Order) bool {
	switch o.Kind {
	case backends.ForgetTick:
		return tick != 0 && s.Record.Tick.Tick == tick
	case backends.ForgetKey:
		return slices.ContainsFunc(s.Record.Once, func(x backends.Occurrence) bool { return x.Key == o.Key })
	}
	return s.Record.Schedule.Fingerprint != "" || len(s.Record.Former) > 0
}

// forgetPart forgets a tick, a key or the schedule.
func (b *breaking) forgetPart(ctx context.Context, o backends.Order) error {
	what := forgettable(o)
	err := orderWhenSafe(ctx, b.Call, b.store, o, b.wait)
	if r, ok := errors.AsType[*backends.Refusal](err); ok {
		return notForgotten(b.job, r)
	}
	switch {
	case errors.Is(err, backends.ErrOver) && o.Tick != 0:
		return &cli.Fault{
			Code: cli.CodeNotRun, What: b.job, Why: "the " + what + " is not the recorded one any more", Err: err,
			Hint: "`leaderrun status` shows which one is",
		}
	case errors.Is(err, backends.ErrOver):
		b.Console.Warn(fmt.Sprintf("no %s of %s is recorded", what, b.job), "")
		return nil
	case err == nil:
		remark(b.Call, b.job, fmt.Sprintf("the %s of %s is forgotten", what, b.job))
	}
	return err
}

// forgettable names what an order forgets.
func forgettable(o backends.Order) string {
	switch {
	case o.Kind == backends.ForgetKey:
		return fmt.Sprintf("key %q", o.Key)
	case o.Kind == backends.ForgetSchedule:
		return "schedule"
	case o.Tick != 0:
		return "tick " + cli.TickText(o.Tick)
	}
	return "tick"
}
