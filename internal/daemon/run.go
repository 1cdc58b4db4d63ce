package daemon

import (
	"context"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/leaderrun/leaderrun/backends"
	"github.com/leaderrun/leaderrun/internal/jobfile"
	"github.com/leaderrun/leaderrun/internal/panics"
	"github.com/leaderrun/leaderrun/runner"
)

// run makes one attempt to run one tick. A panic is a fault of this job's: the others go on, and the guardian ends the command,
// if there is one, by the deadline of its lease. One that came before there was a lease ends the attempt: no run is lost, and it would
// come again at once.
func (d *Daemon) run(a *attempt, tick time.Time, launch Launch) (result runner.Result) {
	var acquired atomic.Bool
	defer func() {
		if p := recover(); p != nil {
			result = runner.Result{Ending: runner.StartFailed, Err: fmt.Errorf("a fault of leaderrun itself: %w", panics.Of(p))}
			if acquired.Load() {
				result.Ending = runner.TreeLost
			}
		}
		d.mu.Lock()
		defer d.mu.Unlock()
		a.running, a.unanswered = false, false
		d.floors[a.def.Name] = max(d.floors[a.def.Name], result.Floor)
	}()
	if err := launch.Look(a.wanted); err != nil {
		if a.wanted.Err() != nil {
			return runner.Result{Ending: runner.Interrupted, Err: context.Cause(a.wanted)}
		}
		return runner.Result{Ending: runner.StartFailed, Err: err}
	}
	place := turn{room: d.starts}
	if !place.take(a.wanted) {
		return runner.Result{Ending: runner.Interrupted, Err: context.Cause(a.wanted)}
	}
	defer place.leave()
	if a.def.Overlap == jobfile.Replace {
		d.displace(a, tick)
	}
	r := *d.runner
	r.Observe = func(e runner.Event) {
		if e.Name == runner.EventAcquired {
			acquired.Store(true)
		}
		d.follow(a, e)
		switch e.Name {
		case runner.EventStarted, runner.EventStandby, runner.EventSilent: // it limits bursts, not waiting
			place.leave()
		}
		launch.Observe(e)
	}
	return r.Run(a.ctx, d.request(a, tick, launch))
}

// follow keeps what others need to know of an attempt.
func (d *Daemon) follow(a *attempt, e runner.Event) {
	d.mu.Lock()
	defer d.mu.Unlock()
	switch e.Name {
	case runner.EventAcquired:
		a.running, a.unanswered = true, false
	case runner.EventReleased:
		a.running = false
	case runner.EventStandby:
		a.unanswered = e.Reason == runner.ReasonUnreachable
	case runner.EventSilent:
		a.unanswered = true
	}
}

// turn is a place among those that start. One goroutine uses it.
type turn struct {
	room chan struct{}
	has  bool
}

// take waits for the place, and returns false when ctx ends first.
func (t *turn) take(ctx context.Context) bool {
	select {
	case t.room <- struct{}{}:
		t.has = true
	case <-ctx.Done():
	}
	return t.has
}

// leave gives the place back, if it was not yet.
func (t *turn) leave() {
	if t.has {
		t.has = false
		<-t.room
	}
}

// displace asks the run of an earlier tick to end, on whichever host it is. Where the backend does not answer, the run
// is waited out.
func (d *Daemon) displace(a *attempt, tick time.Time) {
	const tries = 3
	for i := range tries {
		err := d.askToEnd(a, tick)
		if err == nil || backends.IsAnswer(err) {
			return
		}
		if i == tries-1 {
			d.warn(a.def, "replace_failed", fmt.Sprintf("the earlier run could not be asked to end: %v", err))
		} else if !a.sleep(time.Second) {
			return
		}
	}
}

func (d *Daemon) askToEnd(a *attempt, tick time.Time) error {
	ctx, cancel := context.WithTimeout(a.wanted, a.def.Timeline.TTL/6)
	defer cancel()
	status, err := d.Store.Inspect(ctx, a.def.Name)
	if err != nil || status.Lease == nil || !ranFor(status, tick) {
		return err
	}
	by := d.Host
	by.ID = fmt.Sprintf("%s-%d", a.def.Name, tick.Unix())
	return d.Store.Order(ctx, backends.Order{
		Job: a.def.Name, Kind: backends.Stop, By: by, Token: status.Lease.Token,
		Reason: "replaced by the tick of " + tick.UTC().Format(time.RFC3339),
	})
}

// ranFor says whether the present run is that of a tick before the given one. A run without a tick is somebody's own.
func ranFor(s backends.Status, tick time.Time) bool {
	for _, run := range s.Record.Runs {
		if run.Token == s.Lease.Token {
			return run.Tick != 0 && run.Tick < tick.Unix()
		}
	}
	return false
}
