package run

import (
	"context"
	"os"
	"syscall"
	"testing"

	"github.com/leaderrun/leaderrun/backends"
	"github.com/leaderrun/leaderrun/internal/cli"
	"github.com/leaderrun/leaderrun/internal/launch"
	"github.com/leaderrun/leaderrun/internal/lifeline"
	"github.com/leaderrun/leaderrun/runner"
)

// A claim that was granted when the signal came, and was taken back, is no answer of a worker.
func TestEndOfWorkers(t *testing.T) {
	w := &crew{plan: &runPlan{conflict: -1}, received: syscall.SIGTERM}
	grant := backends.Grant{Token: 7}
	undone := runner.Result{Ending: runner.Interrupted, Grant: grant}
	well := runner.Result{Ending: runner.Ran, Grant: grant, Status: lifeline.Status{Known: true}}
	badly := runner.Result{Ending: runner.Ran, Grant: grant, Status: lifeline.Status{Known: true, Code: 3}}
	for _, c := range []struct {
		results []runner.Result
		want    cli.ExitStatus
	}{
		{nil, cli.BySignal(syscall.SIGTERM)},
		{[]runner.Result{undone}, cli.BySignal(syscall.SIGTERM)},
		{[]runner.Result{undone, well}, cli.ExitStatus{}},
		{[]runner.Result{undone, well, badly}, cli.ExitStatus{Code: 3}},
	} {
		if got := w.endOfWorkers(c.results); got != c.want {
			t.Errorf("%+v instead of %+v", got, c.want)
		}
	}
}

// Under a service manager, HUP is passed on to the workers, and the host goes on sharing. Elsewhere it ends the program.
func TestAHangupForWorkers(t *testing.T) {
	t.Parallel()
	for name, notify := range map[string]*launch.Notifier{"a service manager": {}, "nobody": nil} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := &crew{plan: &runPlan{}, notify: notify, started: true, going: map[chan os.Signal]bool{}}
			w.wanted, w.giveUp = context.WithCancelCause(t.Context())
			signals, leave := w.join()
			defer leave()
			w.pass(syscall.SIGHUP)
			if goesOn := w.wanted.Err() == nil; goesOn != (notify != nil) {
				t.Errorf("it goes on: %v", goesOn)
			}
			if len(signals) != 1 {
				t.Error("the worker has not got it")
			}
		})
	}
}
