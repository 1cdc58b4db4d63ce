package cli

import (
	"context"
	"encoding/json"
	"os"
	"syscall"
	"testing"

	"github.com/leaderrun/leaderrun/backends"
	"github.com/leaderrun/leaderrun/internal/lifeline"
	"github.com/leaderrun/leaderrun/internal/shards"
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
		want    ExitStatus
	}{
		{nil, bySignal(syscall.SIGTERM)},
		{[]runner.Result{undone}, bySignal(syscall.SIGTERM)},
		{[]runner.Result{undone, well}, ExitStatus{}},
		{[]runner.Result{undone, well, badly}, ExitStatus{Code: 3}},
	} {
		if got := w.endOfWorkers(c.results); got != c.want {
			t.Errorf("%+v instead of %+v", got, c.want)
		}
	}
}

// Under a service manager, HUP is passed on to the workers, and the host goes on sharing. Elsewhere it ends the program.
func TestAHangupForWorkers(t *testing.T) {
	t.Parallel()
	for name, notify := range map[string]*notifier{"a service manager": {}, "nobody": nil} {
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

// Each member has the shards that its process runs now, and nobody those of who has no place.
func TestMembersOf(t *testing.T) {
	runs := func(host string, pid int, leads string) backends.Status {
		s := backends.Status{Record: backends.Record{Holder: backends.Holder{ID: "run", Host: host, PID: pid, User: "www"}}}
		if leads != "" {
			s.Lease = &backends.Lease{Holder: leads}
		}
		return s
	}
	roll := []shards.Member{
		{Place: 0, Holder: backends.Holder{ID: "a", Host: "web1", PID: 7, User: "www"}},
		{Place: 1, Holder: backends.Holder{ID: "b", Host: "web1", PID: 8, User: "www"}},
		{Place: 3, Holder: backends.Holder{ID: "c"}}, // the store has lost who it is
	}
	members := membersOf(roll, map[int]backends.Status{
		11: runs("web1", 7, "run"), 2: runs("web1", 7, "run"), 3: runs("web1", 7, ""), 4: runs("web1", 8, "another"), 5: runs("web9", 7, "run"),
	})
	got, err := json.Marshal(members)
	if want := `[{"place":0,"holder":"a","host":"web1","pid":7,"user":"www","shards":[2,11]},` +
		`{"place":1,"holder":"b","host":"web1","pid":8,"user":"www","shards":[]},` +
		`{"place":3,"holder":"c","host":null,"pid":null,"user":null,"shards":[]}]`; err != nil || string(got) != want {
		t.Errorf("%s, %v\nwant %s", got, err, want)
	}
}
