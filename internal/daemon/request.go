package daemon

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"time"

	"github.com/leaderrun/leaderrun/backends"
	"github.com/leaderrun/leaderrun/internal/jobfile"
	"github.com/leaderrun/leaderrun/runner"
)

// request says to the runner how a tick of the job is to run.
func (d *Daemon) request(a *attempt, tick time.Time, launch Launch) runner.Request {
	def := a.def
	d.mu.Lock()
	floor := a.job.floor
	d.mu.Unlock()
	r := runner.Request{
		Job: def.Name, Host: d.Host, Floor: floor, Timeline: def.Timeline,
		Occasion: backends.Occasion{
			Tick: tick.Unix(), OnLost: def.OnLost, MaxAttempts: def.MaxAttempts, StartDeadline: def.StartDeadline,
			Schedule: backends.Schedule{Fingerprint: def.Schedule.Fingerprint(), Text: def.Schedule.String()},
		},
		BackendWait: def.BackendWait, KillAfter: def.KillAfter, Timeout: def.Timeout,
		Retries: def.Retries, RetryDelay: def.RetryDelay,
		Tree: launch.Tree, Env: launch.Env, Checks: launch.Checks(), Signals: a.signals, Prove: d.Prove,
	}
	if waits(def) {
		r.Wait = runner.Forever
		// Under forbid it stands by for this tick; an earlier one's run is an overlap.
		r.SameTickOnly = def.Overlap == jobfile.Forbid
	}
	return r
}

// ticks returns what the attempt is to run: its tick, and before it those that nobody has claimed since the
// recorded one, as many as the job catches up, the oldest first; and before these the recorded one, if it may never
// have run.
func (d *Daemon) ticks(a *attempt) []time.Time {
	if a.def.CatchUp == 0 {
		return []time.Time{a.tick}
	}
	status, err := d.inspect(a)
	if err != nil || status.Record.Tick.Tick == 0 {
		if a.startup {
			return nil
		}
		return []time.Time{a.tick}
	}
	recorded := status.Record.Tick
	ticks := behind(a.def, time.Unix(recorded.Tick, 0), a.tick)
	switch {
	case len(ticks) == 0 && (!a.startup || toRepeat(a.def, recorded)):
		return []time.Time{a.tick}
	case len(ticks) > 0 && mayBeLeftOut(a.def, recorded):
		return slices.Insert(ticks, 0, time.Unix(recorded.Tick, 0))
	}
	return ticks
}

// mayBeLeftOut says whether a claim for a later tick could leave the recorded one without a run. One that was claimed and
// never started is open: a later tick passes it over. One that is claimed now may still become that, and who has time to
// wait for its end sees to it.
func mayBeLeftOut(def *jobfile.Job, o backends.Occurrence) bool {
	return toRepeat(def, o) && (o.State == backends.Open || def.Overlap == jobfile.Wait)
}

// behind returns the last ticks after recorded up to tick, as many as the job catches up and tick itself.
func behind(def *jobfile.Job, recorded, tick time.Time) []time.Time {
	var ticks []time.Time
	for ok := true; ok && tick.After(recorded) && len(ticks) <= def.CatchUp; tick, ok = def.Schedule.Last(tick.Add(-time.Second)) {
		ticks = append(ticks, tick)
	}
	slices.Reverse(ticks)
	return ticks
}

// toRepeat says whether a recorded tick may run again: the store decides.
func toRepeat(def *jobfile.Job, o backends.Occurrence) bool {
	switch o.State {
	case backends.Open:
		return true
	case backends.Claimed, backends.Lost, backends.Stopped:
		return def.OnLost == backends.Rerun
	}
	return false
}

// inspect reads the job's record, as patiently as a claim.
func (d *Daemon) inspect(a *attempt) (backends.Status, error) {
	if !d.queueUp(a) {
		return backends.Status{}, errCrowded
	}
	defer func() { <-d.starts }()
	end := time.Now().Add(a.def.BackendWait)
	for {
		ctx, cancel := context.WithTimeout(a.ctx, a.def.Timeline.TTL/6)
		status, err := d.Store.Inspect(ctx, a.def.Name)
		cancel()
		gaveUp := !waits(a.def) && time.Now().After(end)
		if err == nil || isAnswer(err) || gaveUp || !a.sleep(time.Second) {
			return status, err
		}
	}
}

// waits says whether a tick of the job is waited for, also while the backend cannot be reached.
func waits(def *jobfile.Job) bool {
	return def.Overlap != jobfile.Forbid || def.OnLost == backends.Rerun
}

// displace asks the run of an earlier tick to end, on whichever host it is.
func (d *Daemon) displace(a *attempt, tick time.Time) {
	ctx, cancel := context.WithTimeout(a.ctx, a.def.Timeline.TTL/3)
	defer cancel()
	status, err := d.Store.Inspect(ctx, a.def.Name)
	if err != nil || status.Lease == nil || status.Record.Tick.Tick == 0 || status.Record.Tick.Tick >= tick.Unix() {
		return // it is waited out
	}
	by := d.Host
	by.ID = fmt.Sprintf("%s-%d", a.def.Name, tick.Unix())
	err = d.Store.Order(ctx, backends.Order{
		Job: a.def.Name, Kind: backends.Stop, By: by, Token: status.Lease.Token,
		Reason: "replaced by the tick of " + tick.UTC().Format(time.RFC3339),
	})
	if err != nil && !isAnswer(err) {
		d.note(a.def, slog.LevelWarn, "replace_failed", fmt.Sprintf("the earlier run could not be asked to end: %v", err))
	}
}

// isAnswer says whether the store has answered, though with no.
func isAnswer(err error) bool {
	if errors.Is(err, backends.ErrUnknownJob) || errors.Is(err, backends.ErrOver) {
		return true
	}
	_, refused := errors.AsType[*backends.Refusal](err)
	_, permanent := errors.AsType[*backends.PermanentError](err)
	return refused || permanent
}
