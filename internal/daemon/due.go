package daemon

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"os"
	"time"

	"github.com/leaderrun/leaderrun/backends"
	"github.com/leaderrun/leaderrun/internal/jobfile"
	"github.com/leaderrun/leaderrun/runner"
)

type signal = os.Signal

// attempt is one tick of one job that came due here.
type attempt struct {
	job     *job
	def     *jobfile.Job // as the file had it when the tick came due
	tick    time.Time
	startup bool // what was due before the daemon started
	ctx     context.Context
	cancel  context.CancelCauseFunc
	signals chan signal
	leads   bool // its command runs or is about to; the daemon's mutex guards it
}

var (
	errDrain    = errors.New("the daemon is shutting down")
	errReplaced = errors.New("replaced by the next tick")
	errCrowded  = errors.New("too much came due at once")
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
	if d.drain {
		return
	}
	a := &attempt{job: j, def: j.Job, tick: tick, startup: startup, signals: make(chan signal, 4)}
	a.ctx, a.cancel = context.WithCancelCause(context.Background())
	if j.Overlap == jobfile.Replace {
		for other := range d.going {
			if other.job == j {
				other.cancel(errReplaced)
			}
		}
	}
	d.going[a] = true
	d.active.Add(1)
	if j.Overlap != jobfile.Wait {
		go d.attend(a)
		return
	}
	if len(j.waiting) == mostWaiting {
		d.note(j.Job, slog.LevelWarn, "tick_dropped", fmt.Sprintf("%d ticks of %s wait for an earlier one: one is dropped", mostWaiting, j.Name))
		d.forget(j.waiting[0])
		j.waiting = j.waiting[1:]
	}
	j.waiting = append(j.waiting, a)
	if !j.busy {
		j.busy = true
		go d.attendAll(j)
	}
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
	delete(d.going, a)
	d.active.Done()
}

// stopStarting lets nothing start any more: who waits gives up.
func (d *Daemon) stopStarting() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.drain = true
	for a := range d.going {
		if !a.leads {
			a.cancel(errDrain)
		}
	}
}

// attend sees to a tick, and to those before it that nobody has run, if the job wants that.
func (d *Daemon) attend(a *attempt) {
	defer func() {
		d.mu.Lock()
		defer d.mu.Unlock()
		d.forget(a)
	}()
	if a.def.Jitter > 0 && !a.sleep(rand.N(a.def.Jitter)) {
		return
	}
	for _, tick := range d.ticks(a) {
		for again := true; again && a.ctx.Err() == nil; {
			launch := d.Launch(a.def)
			result := d.run(a, tick, launch)
			launch.Ended(tick, result)
			launch.Close()
			again = standsByAgain(a.def, result)
		}
	}
}

// standsByAgain says whether a tick is not done with because this host lost its lease: under rerun whoever can, runs
// it again.
func standsByAgain(def *jobfile.Job, r runner.Result) bool {
	switch r.Ending {
	case runner.LeaseLost, runner.TreeLost, runner.NotStarted, runner.Unrecorded:
		return def.OnLost == backends.Rerun
	}
	return false
}

// sleep waits, unless the attempt is called off.
func (a *attempt) sleep(pause time.Duration) bool {
	timer := time.NewTimer(pause)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-a.ctx.Done():
		return false
	}
}

// run makes the attempt to run one tick.
func (d *Daemon) run(a *attempt, tick time.Time, launch Launch) runner.Result {
	if err := launch.Look(); err != nil {
		return runner.Result{Ending: runner.StartFailed, Err: err}
	}
	if !d.queueUp(a) {
		return runner.Result{Ending: runner.Unreachable, Err: errCrowded}
	}
	place := turn{room: d.starts}
	defer place.leave()
	if a.def.Overlap == jobfile.Replace {
		d.displace(a, tick)
	}
	request := d.request(a, tick, launch)
	r := *d.runner
	r.Observe = func(e runner.Event) {
		switch e.Name {
		case runner.EventAcquired:
			d.leads(a, true)
		case runner.EventReleased: // another tick may follow in this attempt
			d.leads(a, false)
		case runner.EventStarted, runner.EventStandby:
			place.leave()
		}
		launch.Observe(e)
	}
	result := r.Run(a.ctx, request)
	d.leads(a, false)
	d.mu.Lock()
	a.job.floor = max(a.job.floor, result.Grant.Token)
	d.mu.Unlock()
	return result
}

// leads notes whether the attempt's command runs. When it has ended and the daemon drains, nothing follows it: neither
// a tick to be made up for, nor the attempt's own after one that another host had lost.
func (d *Daemon) leads(a *attempt, yes bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	a.leads = yes
	if !yes && d.drain {
		a.cancel(errDrain)
	}
}

// queueUp takes a place among those that start. When so much came due that there is none for longer than the
// job's patience with the backend, the attempt is over.
func (d *Daemon) queueUp(a *attempt) bool {
	patience := time.NewTimer(max(a.def.BackendWait, time.Second))
	defer patience.Stop()
	select {
	case d.starts <- struct{}{}:
		return true
	case <-patience.C:
	case <-a.ctx.Done():
	}
	return false
}

// turn is a place among those that start. One goroutine uses it.
type turn struct {
	room chan struct{}
	left bool
}

func (t *turn) leave() {
	if !t.left {
		t.left = true
		<-t.room
	}
}
