package daemon

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/leaderrun/leaderrun/backends"
	"github.com/leaderrun/leaderrun/internal/jobfile"
	"github.com/leaderrun/leaderrun/internal/panics"
	"github.com/leaderrun/leaderrun/internal/shards"
	"github.com/leaderrun/leaderrun/internal/slots"
	"github.com/leaderrun/leaderrun/runner"
)

// tickWork is this host's part of the work on one tick of a job that is divided. The other hosts that have the tick do theirs.
type tickWork struct {
	*Daemon
	attempt *attempt
	warned  sync.Once // of another number of shards

	mu   sync.Mutex
	well runner.Result // of the last run here that ended well; without a grant: none did
}

// workOn works through the shards of a tick. It returns false when the ticks after it are not to be tried.
func (d *Daemon) workOn(a *attempt, tick time.Time) bool {
	launch := d.Launch(a.def)
	defer launch.Close()
	if err := d.look(a, launch); err != nil {
		launch.Worked(shards.Outcome{Trigger: trigger(a.def, tick)}, a.withoutCommand(err))
		return false
	}
	if a.def.Overlap == jobfile.Replace {
		d.displaceShards(a, tick)
	}
	w := &tickWork{Daemon: d, attempt: a}
	r := d.request(a, a.def, trigger(a.def, tick))
	leases := shards.Remember(asked{d.runner.Driver, d, a})
	a.driver = leases
	work := shards.Tick{
		Store: leases, Job: r.Job, Trigger: r.Trigger, Parallel: a.def.Parallel, TTL: r.Timeline.TTL,
		Wait: r.Wait, BackendWait: r.BackendWait, Inside: d.Inside, SameTickOnly: r.SameTickOnly, Run: w.run, Wanted: a.wanted,
		Warn: func(name, text, _ string) {
			if name != shards.EventDiffers {
				d.warn(a.def, name, text)
				return
			}
			w.warned.Do(func() { d.warn(a.def, name, text+"; give all hosts the same file") })
		},
	}
	outcome := work.Work(a.ctx)
	for _, before := range outcome.Before {
		launch.Worked(before, w.result(before))
	}
	launch.Worked(outcome, w.result(outcome))
	if outcome.Busy != nil && a.def.Overlap == jobfile.Forbid {
		d.mu.Lock()
		a.job.passed = max(a.job.passed, tick.Unix())
		d.mu.Unlock()
	}
	tooLate := outcome.Stop != nil && outcome.Stop.Ending == runner.Refused && seenTo(*outcome.Stop) // or refused for good, for another reason
	return a.wanted.Err() == nil && (outcome.IsOver() || tooLate)
}

// look finds the command on this host, before any shard is claimed. A panic is a fault of this job's, as in try.
func (d *Daemon) look(a *attempt, launch Launch) (err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("a fault of leaderrun itself: %w", panics.Of(p))
		}
	}()
	return launch.Look(a.wanted)
}

// run is a shards.Run.
func (w *tickWork) run(ctx context.Context, s shards.Shard) runner.Result {
	def := *w.attempt.def
	def.Name = slots.Name(def.Name, s.Number)
	launch := w.Launch(&def)
	defer launch.Close()
	request := w.request(w.attempt, &def, s.Trigger)
	request.Wait, request.SameTickOnly, request.Wanted = s.Wait, false, s.Wanted
	r := w.try(ctx, w.attempt, launch, request, s.Observe)
	launch.Ended(time.Unix(s.Trigger.Tick, 0), r)
	if r.Ending == runner.Ran && r.Status.Known && r.Status.ExitCode() == 0 {
		w.mu.Lock()
		defer w.mu.Unlock()
		w.well = r
	}
	return r
}

// result is what became of a whole tick, as if it had been one run: that of a shard which decides it, where one does.
func (w *tickWork) result(o shards.Outcome) runner.Result {
	w.mu.Lock()
	well := w.well
	w.mu.Unlock()
	interrupted := o.Stop != nil && o.Stop.Ending == runner.Interrupted
	switch {
	case o.Stop != nil && !interrupted:
		return *o.Stop
	case o.Bad != nil && (o.IsOver() || o.Bad.Grant.Token != 0 || o.Differs()):
		return *o.Bad
	case o.IsDone() && well.Grant.Tick == o.Trigger.Tick:
		return well
	case o.IsDone():
		return runner.Result{Ending: runner.Refused, Refusal: &backends.Refusal{Verdict: backends.IsDone, Tick: o.Trigger.Tick}}
	case o.Busy != nil:
		return runner.Result{Ending: runner.Refused, Refusal: o.Busy}
	case interrupted:
		r := *o.Stop
		if err := context.Cause(w.attempt.wanted); err != nil && r.Signal == 0 {
			r.Err = err
		}
		return r
	}
	return runner.Result{Ending: runner.Refused, Refusal: &backends.Refusal{Verdict: backends.Held, Tick: o.Trigger.Tick}}
}

// asked is the store of an attempt. It notes whether it answers.
type asked struct {
	backends.Driver
	d *Daemon
	a *attempt
}

// Look implements shards.Leases.
func (s asked) Look(ctx context.Context, job string) (backends.Status, error) {
	return s.d.ask(ctx, s.a, s.d.Store.Look, job)
}

// inspectWhole reads the records of all shards, and returns what they say together: that of the first, with the tick as it stands as a
// whole. As long as a shard of it is open and nobody works on one, nobody has seen to the tick.
func (d *Daemon) inspectWhole(a *attempt) (backends.Status, error) {
	first, err := d.inspect(a, slots.Name(a.def.Name, 0))
	n := first.Record.Tick.Parts
	if err != nil || n == 0 || n > shards.Most {
		return first, err
	}
	all := make([]backends.Status, n)
	all[0] = first
	err = shards.Together(n-1, func(i int) (err error) { // one that has no answer is enough: each is asked as patiently as a claim
		all[i+1], err = d.inspect(a, slots.Name(a.def.Name, i+1))
		if errors.Is(err, backends.ErrUnknownJob) {
			return nil
		}
		return err
	})
	if err != nil {
		return first, err
	}
	return together(a.def, all), nil
}

// together puts what is known of the shards of a tick together.
func together(def *jobfile.Job, all []backends.Status) backends.Status {
	whole := all[0]
	tick := whole.Record.Tick.Tick
	for _, s := range all {
		o := s.Record.Tick
		switch {
		case o.Tick > tick: // it has just begun
		case o.Tick < tick || o.State == backends.Open:
			whole.Record.Tick.State = backends.Open
		case whole.Record.Tick.State == backends.Open:
		case o.MayRunAgain(def.OnLost), o.State == backends.Claimed && !whole.Record.Tick.MayRunAgain(def.OnLost):
			whole.Record.Tick = o
		}
		if whole.Lease == nil {
			whole.Lease = s.Lease
		}
		whole.Record.Passed = max(whole.Record.Passed, s.Record.Passed)
	}
	if whole.Lease != nil && whole.Record.Tick.State == backends.Open {
		whole.Record.Tick.State = backends.Claimed
	}
	return whole
}

// displaceShards asks the runs of an earlier tick to end, whichever shards they are of, on whichever hosts. The daemons there let none
// of them begin any more: the tick is due for them, too.
func (d *Daemon) displaceShards(a *attempt, tick time.Time) {
	first, err := d.inspect(a, slots.Name(a.def.Name, 0))
	n := a.def.Shards
	if err == nil {
		n = min(max(n, first.Record.Tick.Parts), shards.Most)
	}
	for k := range n {
		if a.wanted.Err() == nil {
			d.displace(a, slots.Name(a.def.Name, k), tick)
		}
	}
}
