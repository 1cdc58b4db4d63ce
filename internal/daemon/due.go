package daemon

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"time"

	"github.com/leaderrun/leaderrun/backends"
	"github.com/leaderrun/leaderrun/internal/jobfile"
	"github.com/leaderrun/leaderrun/internal/shards"
	"github.com/leaderrun/leaderrun/runner"
)

// attempt is one tick of one job that came due here.
type attempt struct {
	job     *job
	def     *jobfile.Job // as the file had it when the tick came due
	tick    time.Time
	startup bool            // what was due before the daemon started
	driver  backends.Driver // the store, as its runs use it

	ctx    context.Context         // ends the attempt, and stops its command
	cancel context.CancelCauseFunc //
	wanted context.Context         // ends what comes before a command: then nothing more starts
	giveUp context.CancelCauseFunc //
	after  []*attempt              // that it overtook
	over   chan struct{}           // closed at its end

	// The daemon's mutex guards these.
	runs       map[*going]bool // that were begun and are not over: several, if the job is divided
	unanswered bool            // the backend was asked about the tick, and does not answer
}

// going is a run that is not over. The daemon's mutex guards it.
type going struct {
	signals chan os.Signal // for its command
	leads   bool           // it has the lease: its command runs, or is about to
}

// Why an attempt ends that no signal and no store ended.
var (
	ErrDrain     = errors.New("the daemon is shutting down")
	ErrReplaced  = errors.New("replaced by the next tick")
	ErrOvertaken = errors.New("the next tick came due before the backend had answered")
	ErrRemoved   = errors.New("the job is not in the file any more")
)

// fire starts what is due, and returns when something is due next.
func (d *Daemon) fire(now time.Time) time.Time {
	d.mu.Lock()
	defer d.mu.Unlock()
	for j := d.queue.first(); j != nil && !j.next.After(now); j = d.queue.first() {
		if tick, ok := j.Schedule.Last(now); ok { // of several that have passed, the latest
			d.due(j, tick, false)
		}
		d.plan(j, now)
	}
	if j := d.queue.first(); j != nil {
		return j.next
	}
	return now.Add(longestSleep)
}

// catchUpAll looks after what came due while no daemon was there.
func (d *Daemon) catchUpAll() {
	d.mu.Lock()
	defer d.mu.Unlock()
	now := d.Clock.Now()
	for _, j := range d.jobs {
		if tick, ok := j.Schedule.Last(now); ok && j.CatchUp > 0 {
			d.due(j, tick, true)
		}
	}
}

// due begins the attempt to run a tick, as the job's overlap says. It needs d.mu.
func (d *Daemon) due(j *job, tick time.Time, startup bool) {
	for _, other := range j.attempts {
		if !other.tick.Before(tick) { // the clock was turned back
			return
		}
	}
	var overtaken []*attempt
	for _, other := range j.attempts {
		switch {
		case j.Overlap == jobfile.Replace:
			other.cancel(ErrReplaced)
		case j.Overlap == jobfile.Forbid && other.unanswered:
			// Else, after an outage, the ticks that came due meanwhile would run in any order, and each be in the way
			// of the present one.
			other.giveUp(ErrOvertaken)
			overtaken = append(overtaken, other)
		}
	}
	a := &attempt{
		job: j, def: j.Job, tick: tick, startup: startup, driver: d.runner.Driver,
		after: overtaken, over: make(chan struct{}), runs: map[*going]bool{},
	}
	a.ctx, a.cancel = context.WithCancelCause(context.Background())
	a.wanted, a.giveUp = context.WithCancelCause(a.ctx)
	j.attempts = append(j.attempts, a)
	d.going[a] = true
	d.active.Add(1)
	if j.Overlap == jobfile.Wait {
		d.wait(a)
		return
	}
	d.protect(func() { d.attend(a) })
}

// wait puts an attempt behind those of earlier ticks. It needs d.mu.
func (d *Daemon) wait(a *attempt) {
	j := a.job
	if len(j.waiting) == mostWaiting {
		d.warn(j.Job, "tick_dropped",
			fmt.Sprintf("%d ticks wait for an earlier one: that of %s is dropped", mostWaiting, j.waiting[0].tick.UTC().Format(time.RFC3339)))
		d.forget(j.waiting[0])
		j.waiting = j.waiting[1:]
	}
	j.waiting = append(j.waiting, a)
	if !j.busy {
		j.busy = true
		d.protect(func() { d.attendAll(j) })
	}
}

// protect runs f beside the others. A panic that is not one job's (see run) ends the daemon, and its commands with it, but in order.
func (d *Daemon) protect(f func()) {
	go func() {
		defer func() {
			if p := recover(); p != nil {
				select {
				case d.broken <- fmt.Errorf("panic: %v", p):
				default:
				}
			}
		}()
		f()
	}()
}

// attendAll runs the waiting ticks of a job one after the other.
func (d *Daemon) attendAll(j *job) {
	for {
		d.mu.Lock()
		if len(j.waiting) == 0 {
			j.busy = false
			d.mu.Unlock()
			return
		}
		a := j.waiting[0]
		j.waiting = j.waiting[1:]
		d.mu.Unlock()
		d.attend(a)
	}
}

// forget ends the bookkeeping of an attempt. It needs d.mu.
func (d *Daemon) forget(a *attempt) {
	a.cancel(nil)
	j := a.job
	j.attempts = slices.DeleteFunc(j.attempts, func(x *attempt) bool { return x == a })
	delete(d.going, a)
	close(a.over)
	d.active.Done()
}

// attend sees to a tick, and to those before it that nobody has run, if the job wants that.
func (d *Daemon) attend(a *attempt) {
	defer func() {
		d.mu.Lock()
		defer d.mu.Unlock()
		d.forget(a)
	}()
	for _, other := range a.after { // a claim of its, of which it does not know yet, would be in our way
		select {
		case <-other.over:
		case <-a.wanted.Done():
		}
	}
	a.after = nil
	if a.def.Jitter > 0 && !a.sleep(rand.N(a.def.Jitter)) {
		d.end(a, a.tick, a.interrupted())
		return
	}
	ticks, err := d.ticks(a)
	if err != nil {
		d.end(a, a.tick, runner.Result{Ending: runner.Unreachable, Err: err})
		return
	}
	for _, tick := range ticks {
		if !d.attendTo(a, tick) {
			return
		}
	}
}

// attendTo tries to run a tick until it is done with. It returns false when those after it are not to be tried.
func (d *Daemon) attendTo(a *attempt, tick time.Time) bool {
	if a.def.Shards > 0 {
		return d.workOn(a, tick)
	}
	for {
		launch := d.Launch(a.def)
		result := d.run(a, tick, launch)
		launch.Ended(tick, result)
		launch.Close()
		switch {
		case a.wanted.Err() != nil:
			return false
		case !isUndone(a.def, tick, result):
			return seenTo(result)
		case result.Ending == runner.NotStarted && !a.sleep(runner.OthersFirst):
			return false
		}
	}
}

// end tells how an attempt ended that did not get as far as a claim.
func (d *Daemon) end(a *attempt, tick time.Time, r runner.Result) {
	launch := d.Launch(a.def)
	defer launch.Close()
	if a.def.Shards > 0 {
		launch.Worked(shards.Outcome{Trigger: trigger(a.def, tick)}, r)
		return
	}
	launch.Ended(tick, r)
}

// seenTo says whether a tick has come to its end, on whatever host, so that a later one may be claimed: that passes over
// one that nobody has started.
func seenTo(r runner.Result) bool {
	switch r.Ending {
	case runner.Refused: // held: the run that goes on is in the way of all the others, too
		return r.Refusal.Verdict != backends.Held && r.Refusal.Verdict != backends.Reserved
	case runner.StartFailed:
		return r.Status.Known
	case runner.Unreachable, runner.NotStarted, runner.Interrupted, runner.Permanent:
		return false
	}
	return true
}

// isUndone says whether a tick is to be claimed again: because the run of an earlier one came first and ended so
// that ours was not claimed, or because this host lost its lease, and under rerun whoever can runs it again.
func isUndone(def *jobfile.Job, tick time.Time, r runner.Result) bool {
	earlier := r.Grant.Tick != 0 && r.Grant.Tick < tick.Unix()
	switch r.Ending {
	case runner.NotStarted:
		return true
	case runner.LeaseLost, runner.TreeLost, runner.Unrecorded:
		return earlier || def.OnLost == backends.Rerun
	case runner.Broken, runner.Unconfirmed:
		return earlier
	case runner.StartFailed:
		return earlier && r.Status.Known
	}
	return false
}

// sleep waits, unless the attempt is given up.
func (a *attempt) sleep(pause time.Duration) bool {
	timer := time.NewTimer(pause)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-a.wanted.Done():
		return false
	}
}
