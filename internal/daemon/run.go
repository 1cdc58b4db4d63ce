package daemon

import (
	"context"
	"fmt"
	"os"
	"sync/atomic"
	"time"

	"github.com/leaderrun/leaderrun/backends"
	"github.com/leaderrun/leaderrun/internal/jobfile"
	"github.com/leaderrun/leaderrun/internal/panics"
	"github.com/leaderrun/leaderrun/runner"
)

// run makes one attempt to run one tick of a job that is not divided.
func (d *Daemon) run(a *attempt, tick time.Time, launch Launch) runner.Result {
	return d.try(a.ctx, a, launch, d.request(a, a.def, trigger(a.def, tick)), nil)
}

// try makes one attempt to run what the request says; observe may be nil. A panic is a fault of this job's: the others go on, and the
// guardian ends the command, if there is one, by the deadline of its lease. One that came before there was a lease ends the attempt: no
// run is lost, and it would come again at once.
func (d *Daemon) try(ctx context.Context, a *attempt, launch Launch, request runner.Request, observe func(runner.Event)) (result runner.Result) {
	var acquired atomic.Bool
	g := d.enter(a)
	defer func() {
		if p := recover(); p != nil {
			result = runner.Result{Ending: runner.StartFailed, Err: fmt.Errorf("a fault of leaderrun itself: %w", panics.Of(p))}
			if acquired.Load() {
				result.Ending = runner.TreeLost
			}
		}
		d.leave(a, g)
		d.mu.Lock()
		defer d.mu.Unlock()
		d.floors[request.Job] = max(d.floors[request.Job], result.Floor)
	}()
	if err := launch.Look(a.wanted); err != nil {
		return a.withoutCommand(err)
	}
	place := turn{room: d.starts}
	if !place.take(a.wanted) {
		return a.interrupted()
	}
	defer place.leave()
	if a.def.Overlap == jobfile.Replace && a.def.Shards == 0 {
		d.displace(a, request.Job, time.Unix(request.Trigger.Tick, 0))
	}
	request.Tree, request.Env, request.Checks, request.Signals = launch.Tree, launch.Env, launch.Checks(), g.signals
	r := *d.runner
	r.Driver = a.driver
	r.Observe = func(e runner.Event) {
		if e.Name == runner.EventAcquired {
			acquired.Store(true)
		}
		d.follow(a, g, e)
		switch e.Name {
		case runner.EventStarted, runner.EventStandby, runner.EventSilent: // it limits bursts, not waiting
			place.leave()
		}
		launch.Observe(e)
		if observe != nil {
			observe(e)
		}
	}
	return r.Run(ctx, request)
}

// withoutCommand is the result of an attempt that has not found its command.
func (a *attempt) withoutCommand(err error) runner.Result {
	if a.wanted.Err() != nil {
		return a.interrupted()
	}
	return runner.Result{Ending: runner.StartFailed, Err: err}
}

// interrupted is the result of an attempt that was given up before it claimed anything.
func (a *attempt) interrupted() runner.Result {
	return runner.Result{Ending: runner.Interrupted, Err: context.Cause(a.wanted)}
}

// enter and leave keep which runs of an attempt are not over.
func (d *Daemon) enter(a *attempt) *going {
	g := &going{signals: make(chan os.Signal, 4)}
	d.mu.Lock()
	defer d.mu.Unlock()
	a.runs[g] = true
	return g
}

func (d *Daemon) leave(a *attempt, g *going) {
	d.mu.Lock()
	defer d.mu.Unlock()
	delete(a.runs, g)
	a.unanswered = false
}

// follow keeps what others need to know of a run.
func (d *Daemon) follow(a *attempt, g *going, e runner.Event) {
	d.mu.Lock()
	defer d.mu.Unlock()
	switch e.Name {
	case runner.EventAcquired:
		g.leads, a.unanswered = true, false
	case runner.EventReleased:
		g.leads = false
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

// displace asks the run of an earlier tick of a job, or of a shard, to end, on whichever host it is. Where the backend does not answer, the run
// is waited out.
func (d *Daemon) displace(a *attempt, job string, tick time.Time) {
	const tries = 3
	for i := range tries {
		err := d.askToEnd(a, job, tick)
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

func (d *Daemon) askToEnd(a *attempt, job string, tick time.Time) error {
	ctx, cancel := context.WithTimeout(a.wanted, a.def.Timeline.TTL/6)
	defer cancel()
	status, err := d.Store.Inspect(ctx, job)
	if err != nil || status.Lease == nil || !ranFor(status, tick) {
		return err
	}
	by := d.Host
	by.ID = fmt.Sprintf("%s-%d", job, tick.Unix())
	return d.Store.Order(ctx, backends.Order{
		Job: job, Kind: backends.Stop, By: by, Token: status.Lease.Token,
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
