package daemon

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/leaderrun/leaderrun/backends"
	"github.com/leaderrun/leaderrun/internal/jobfile"
	"github.com/leaderrun/leaderrun/runner"
)

// trigger is a tick of a job.
func trigger(def *jobfile.Job, tick time.Time) backends.Trigger {
	return backends.Trigger{
		Tick: tick.Unix(), OnLost: def.OnLost, MaxAttempts: def.MaxAttempts, StartDeadline: def.StartDeadline, Parts: def.Shards,
		Schedule: backends.Schedule{Fingerprint: def.Schedule.Fingerprint(), Text: def.Schedule.String()},
	}
}

// request says to the runner how a job, or a shard of one, is to run.
func (d *Daemon) request(a *attempt, def *jobfile.Job, trigger backends.Trigger) runner.Request {
	d.mu.Lock()
	floor := d.floors[def.Name]
	d.mu.Unlock()
	r := runner.Request{
		Job: def.Name, Host: d.Host, Inside: d.Inside, Floor: floor, Timeline: def.Timeline,
		Trigger: trigger, BackendWait: def.BackendWait, KillAfter: def.KillAfter, Timeout: def.Timeout,
		Retries: def.Retries, RetryDelay: def.RetryDelay, Wanted: a.wanted,
		FindUnclaimed: d.FindUnclaimed,
	}
	if waits(def) {
		r.Wait = runner.Forever
		// Under forbid it stands by for this tick; an earlier one's run is an overlap.
		r.SameTickOnly = def.Overlap == jobfile.Forbid
	}
	return r
}

// waits says whether a tick of the job is waited for, also while the backend cannot be reached.
func waits(def *jobfile.Job) bool {
	return def.Overlap != jobfile.Forbid || def.OnLost == backends.Rerun
}

// ticks returns what the attempt is to run: its tick, and before it those that nobody has claimed since the
// recorded one, as many as the job catches up, the oldest first. An error is a store that does not answer.
func (d *Daemon) ticks(a *attempt) ([]time.Time, error) {
	own := []time.Time{a.tick}
	if a.def.CatchUp == 0 {
		return own, nil
	}
	status, err := d.known(a)
	switch {
	case err != nil && !errors.Is(err, backends.ErrUnknownJob):
		return nil, err
	case err != nil || status.Record.Tick.Tick == 0:
		if a.startup {
			return nil, nil
		}
		return own, nil
	}
	ticks := behind(a.def, lastSeenTo(a.def, status.Record), a.tick)
	switch {
	case len(ticks) == 0 && (!a.startup || status.Record.Tick.MayRunAgain(a.def.OnLost)):
		return own, nil
	case len(ticks) > 1 && a.def.Overlap == jobfile.Forbid && status.Lease != nil:
		return nil, nil // a run is in the way of them all; a claim would have the first of them noted as passed over
	}
	return ticks, nil
}

// known reads what the store knows of the job.
func (d *Daemon) known(a *attempt) (backends.Status, error) {
	if a.def.Shards == 0 {
		return d.inspect(a, a.def.Name)
	}
	s, err := d.inspectWhole(a)
	d.mu.Lock()
	defer d.mu.Unlock()
	s.Record.Passed = max(s.Record.Passed, a.job.passed)
	return s, err
}

// lastSeenTo returns the last tick that somebody has seen to. One that was claimed and never started is not: a later one
// passes it over. One that is claimed now may still become that, and who has time to wait for its end sees to it. What
// an earlier run was in the way of has been seen to, where that is what the job wants.
func lastSeenTo(def *jobfile.Job, r backends.Record) time.Time {
	last := r.Tick.Tick
	switch {
	case r.Tick.State == backends.Open, def.Overlap == jobfile.Wait && r.Tick.MayRunAgain(def.OnLost):
		last--
	case def.Overlap == jobfile.Forbid:
		last = max(last, r.Passed)
	}
	return time.Unix(last, 0)
}

// behind returns the last ticks after another one, up to tick, as many as the job catches up and tick itself.
func behind(def *jobfile.Job, last, tick time.Time) []time.Time {
	var ticks []time.Time
	for ok := true; ok && tick.After(last) && len(ticks) <= def.CatchUp; tick, ok = def.Schedule.Last(tick.Add(-time.Second)) {
		ticks = append(ticks, tick)
	}
	slices.Reverse(ticks)
	return ticks
}

// inspect reads the record of a job or a shard, as patiently as a claim.
func (d *Daemon) inspect(a *attempt, job string) (backends.Status, error) {
	end := time.Now().Add(a.def.BackendWait)
	for {
		status, err := d.inspectOnce(a, job)
		gaveUp := !waits(a.def) && time.Now().After(end)
		if err == nil || backends.IsAnswer(err) || gaveUp || !a.sleep(time.Second) {
			return status, err
		}
	}
}

func (d *Daemon) inspectOnce(a *attempt, job string) (backends.Status, error) {
	place := turn{room: d.starts}
	if !place.take(a.wanted) {
		return backends.Status{}, context.Cause(a.wanted)
	}
	defer place.leave()
	ctx, cancel := context.WithTimeout(a.wanted, a.def.Timeline.TTL/6)
	defer cancel()
	return d.ask(ctx, a, d.Store.Inspect, job)
}

// ask reads a record once, and notes whether the store answers.
func (d *Daemon) ask(
	ctx context.Context, a *attempt, read func(context.Context, string) (backends.Status, error), job string,
) (backends.Status, error) {
	status, err := read(ctx, job)
	d.mu.Lock()
	defer d.mu.Unlock()
	a.unanswered = err != nil && !backends.IsAnswer(err)
	return status, err
}
