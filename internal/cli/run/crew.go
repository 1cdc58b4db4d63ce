package run

import (
	"context"
	"errors"
	"fmt"
	"os"
	"sync"
	"syscall"

	"github.com/leaderrun/leaderrun/backends"
	"github.com/leaderrun/leaderrun/internal/cli"
	"github.com/leaderrun/leaderrun/internal/jobfile"
	"github.com/leaderrun/leaderrun/internal/launch"
	"github.com/leaderrun/leaderrun/internal/panics"
	"github.com/leaderrun/leaderrun/internal/shards"
	"github.com/leaderrun/leaderrun/internal/slots"
	"github.com/leaderrun/leaderrun/internal/supervise"
	"github.com/leaderrun/leaderrun/runner"
)

// crew runs the command of one `leaderrun run` for several shards at a time: each has a lease, a guardian, a socket for checks and a
// prefix of its messages, as the jobs of a daemon do. It hears the signals for all of them.
type crew struct {
	commands *launch.Launcher
	plan     *runPlan
	leases   *shards.Memory
	runner   runner.Runner // on the leases
	host     backends.Holder
	inside   backends.Inside
	notify   *launch.Notifier

	wanted context.Context         //nolint:containedctx // ends with the first signal that asks the program to end: nothing starts any more
	giveUp context.CancelCauseFunc // ends wanted

	mu       sync.Mutex
	going    map[chan os.Signal]bool // the runs
	floors   map[string]int64        // the highest token seen, by shard
	started  bool                    // a command was started
	received syscall.Signal          // the first that asked the program to end; 0: none
}

// newCrew makes a crew that hears the signals of the call from now on. Its user closes it.
func newCrew(c *cli.Call, plan *runPlan, store backends.Backend) (*crew, error) {
	if begun := launch.BegunTree(c); begun != nil {
		begun.Discard() // each run has a guardian of its own, with other files
	}
	commands, err := launch.NewLauncher(c, false, plan.metrics)
	if err != nil {
		return nil, err
	}
	supervise.ReapStrays()
	supervise.KeepImage()
	w := &crew{
		commands: commands, plan: plan, host: launch.ThisHolder(), notify: launch.NewNotifier(c.Settings.Lookup, plan.ready),
		leases: shards.Remember(store), going: map[chan os.Signal]bool{}, floors: map[string]int64{},
	}
	w.inside = launch.Inside()
	w.runner.Driver = w.leases
	w.wanted, w.giveUp = context.WithCancelCause(context.Background())
	panics.Go(func() {
		for sig := range c.Signals {
			w.pass(sig)
		}
	})
	return w, nil
}

// close tells whoever wants to know how the program ends. No run goes on.
func (w *crew) close(end cli.ExitStatus) {
	w.giveUp(nil)
	w.commands.Sockets.Remove()
	w.notify.Close(end)
}

// errSignal is why nothing starts any more.
var errSignal = errors.New("received a signal")

// pass passes a signal on to all commands. After one that asks the program to end, nothing starts any more.
func (w *crew) pass(sig syscall.Signal) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if sig == syscall.SIGHUP && w.notify != nil && !w.started { // as of a single run: see reporter.filter
		return
	}
	if supervise.EndsRun(sig) && !w.reloads(sig) {
		if w.received == 0 {
			w.received = sig
		}
		w.giveUp(fmt.Errorf("%w: %v", errSignal, sig))
	}
	for signals := range w.going {
		select {
		case signals <- sig:
		default:
		}
	}
}

// reloads says whether a signal asks workers to read their files again: HUP is a service manager's word for that. It does not end a
// single run whose command goes on, either.
func (w *crew) reloads(sig syscall.Signal) bool {
	return sig == syscall.SIGHUP && w.notify != nil && !w.plan.request.Trigger.Given()
}

// signal returns the first signal that asked the program to end; 0: none did.
func (w *crew) signal() syscall.Signal {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.received
}

// join makes the channel through which a run gets the signals that come from now on.
func (w *crew) join() (signals chan os.Signal, leave func()) {
	w.mu.Lock()
	defer w.mu.Unlock()
	signals = make(chan os.Signal, signalsPending)
	w.going[signals] = true
	return signals, func() {
		w.mu.Lock()
		defer w.mu.Unlock()
		delete(w.going, signals)
	}
}

// run is a shards.Run.
func (w *crew) run(ctx context.Context, s shards.Shard) runner.Result {
	p := w.plan
	name := slots.Name(p.job, s.Number)
	launch := w.commands.Prepare(&jobfile.Job{Name: name, Argv: p.argv, Timeline: p.timeline})
	defer launch.Close()
	launch.TokenEnv = p.tokenEnv
	launch.Reporter.Trigger = s.Trigger
	if err := launch.Look(s.Wanted); err != nil {
		return runner.Result{Ending: runner.StartFailed, Err: err}
	}
	signals, leave := w.join()
	defer leave()
	request := p.request
	request.Job, request.Host, request.Inside, request.Trigger, request.Wait, request.Wanted = name, w.host, w.inside, s.Trigger, s.Wait, s.Wanted
	request.Signals, request.Tree, request.Env, request.Checks = signals, launch.Tree, launch.Env, launch.Checks()
	one := w.runner
	one.Observe = func(e runner.Event) {
		w.follow(e)
		launch.Observe(e)
		if s.Observe != nil {
			s.Observe(e)
		}
	}
	w.mu.Lock()
	request.Floor = w.floors[name]
	w.mu.Unlock()
	result := guarded(func() runner.Result { return one.Run(ctx, request) })
	w.mu.Lock()
	w.floors[name] = max(w.floors[name], result.Floor)
	w.mu.Unlock()
	launch.Over(result)
	return result
}

// follow tells the service manager what the program does as a whole: one shard that ends is not its end.
func (w *crew) follow(e runner.Event) {
	w.mu.Lock()
	defer w.mu.Unlock()
	switch e.Name {
	case runner.EventStarted:
		w.started = true
		w.notify.Event(e)
	case runner.EventStandby, runner.EventAcquired:
		w.notify.Event(e)
	}
}
