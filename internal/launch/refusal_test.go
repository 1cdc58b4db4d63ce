package launch

import (
	"bytes"
	"errors"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/leaderrun/leaderrun/backends"
	"github.com/leaderrun/leaderrun/internal/cli"
	"github.com/leaderrun/leaderrun/internal/daemon"
	"github.com/leaderrun/leaderrun/runner"
)

// The reasons are a contract: people filter by them.
var skipReasons = []string{"held", "done", "failed", "stopped", "lost", "missed", "late", "outdated", "future", "unreachable"}

func TestRefusals(t *testing.T) {
	const last = 1795140000 // 2026-11-20T02:00:00Z
	tick := backends.Trigger{Tick: last, OnLost: backends.Skip, MaxAttempts: 3}
	rerun := backends.Trigger{Tick: last, OnLost: backends.Rerun, MaxAttempts: 3}
	key := backends.Trigger{Once: "v 42", OnLost: backends.Skip, MaxAttempts: 3}
	deadline := backends.Trigger{Tick: last, StartDeadline: 10 * time.Minute}
	planned := backends.Trigger{Tick: last, Schedule: backends.Schedule{Fingerprint: "1-x", Text: "@daily (UTC)"}}
	web1 := backends.Holder{Host: "web1", PID: 7}
	now := time.Unix(last+12*60, 0)
	for _, c := range []struct {
		name    string
		trigger backends.Trigger
		refusal backends.Refusal
		ending  runner.Ending
		level   slog.Level
		reason  string
		text    string // after "not run: "
		hint    string // a part of it; "": none
	}{
		{"held", tick, backends.Refusal{Verdict: backends.Held, Holder: web1}, runner.Refused, slog.LevelInfo, "held", "j runs on web1, process 7", ""},
		{"held for too long", tick, backends.Refusal{Verdict: backends.Held, Holder: web1}, runner.WaitOver, slog.LevelInfo, "held", "j still runs on web1, process 7", "--wait"},
		{"done", tick, backends.Refusal{Verdict: backends.IsDone, Tick: last}, runner.Refused, slog.LevelInfo, "done", "this tick of j, 2026-11-20T02:00:00Z, is done", ""},
		{"a key is done", key, backends.Refusal{Verdict: backends.IsDone}, runner.Refused, slog.LevelInfo, "done", `this key of j, "v 42", is done`, ""},
		{"failed", tick, backends.Refusal{Verdict: backends.IsFailed, Holder: web1, Tick: last}, runner.Refused, slog.LevelInfo, "failed", "this tick of j, 2026-11-20T02:00:00Z, failed on web1, process 7", "break --forget-tick j`"},
		{"an earlier one failed", tick, backends.Refusal{Verdict: backends.IsFailed, Holder: web1, Tick: last - 60}, runner.Refused, slog.LevelInfo, "failed", "this tick of j, 2026-11-20T02:00:00Z, failed on web1, process 7", ""},
		{"a key failed", key, backends.Refusal{Verdict: backends.IsFailed, Holder: web1}, runner.Refused, slog.LevelInfo, "failed", `this key of j, "v 42", failed on web1, process 7`, "break --forget-once 'v 42' j`"},
		{"stopped", tick, backends.Refusal{Verdict: backends.IsStopped, Holder: web1, Tick: last}, runner.Refused, slog.LevelInfo, "stopped", "this tick of j, 2026-11-20T02:00:00Z, was stopped on web1, process 7", "--forget-tick"},
		{"found lost", tick, backends.Refusal{Verdict: backends.IsLost, Holder: web1, Tick: last, First: true}, runner.Refused, slog.LevelWarn, "lost", "this tick of j, 2026-11-20T02:00:00Z, is lost: its run on web1, process 7 never reported its end", "--forget-tick"},
		{"known to be lost", tick, backends.Refusal{Verdict: backends.IsLost, Tick: last}, runner.Refused, slog.LevelInfo, "lost", "this tick of j, 2026-11-20T02:00:00Z, is lost: its run on another holder never reported its end", "--forget-tick"},
		{"no attempt left", rerun, backends.Refusal{Verdict: backends.IsLost, Holder: web1, Tick: last, First: true}, runner.Refused, slog.LevelWarn, "lost", "this tick of j, 2026-11-20T02:00:00Z, is lost for good (--max-attempts 3, or claimed with --on-lost skip): its run on web1, process 7 never reported its end", "--forget-tick"},
		{"missed", tick, backends.Refusal{Verdict: backends.IsMissed, Tick: last}, runner.Refused, slog.LevelInfo, "missed", "this tick of j, 2026-11-20T02:00:00Z, was missed: it could not be started in time", "--forget-tick"},
		{"earlier than all that is known", tick, backends.Refusal{Verdict: backends.IsEarlier, Tick: last + 60}, runner.Refused, slog.LevelInfo, "missed", "this tick of j, 2026-11-20T02:00:00Z, is earlier than the last one, 2026-11-20T02:01:00Z, and nothing is known of it any more", ""},
		{"late", deadline, backends.Refusal{Verdict: backends.Late, Tick: last, First: true}, runner.Refused, slog.LevelWarn, "late", "this tick of j, 2026-11-20T02:00:00Z, is later than --start-deadline 10m0s allows: 12m0s late", ""},
		{"ahead", planned, backends.Refusal{Verdict: backends.Future}, runner.Refused, slog.LevelError, "future", "this tick of j, 2026-11-20T02:00:00Z, is more than a minute ahead of the backend's clock", "compare this host's clock"},
		{"given ahead", tick, backends.Refusal{Verdict: backends.Future}, runner.Refused, slog.LevelError, "future", "this tick of j, 2026-11-20T02:00:00Z, is more than a minute ahead of the backend's clock", "the tick that is due now"},
		{"recorded ahead", planned, backends.Refusal{Verdict: backends.FutureRecorded, Holder: web1, Tick: last + 86400}, runner.Refused, slog.LevelError, "future", "the recorded tick of j, 2026-11-21T02:00:00Z, is far ahead: web1, process 7 recorded it", "`leaderrun break --forget-tick j`"},
		{"outdated", planned, backends.Refusal{Verdict: backends.Outdated, Holder: web1, At: now, Text: "@hourly (UTC)"}, runner.Refused, slog.LevelError, "outdated", `this host's schedule of j is outdated: web1, process 7 changed it at 2026-11-20T02:12:00Z to "@hourly (UTC)"`, "`leaderrun break --forget-schedule j`"},
	} {
		s := &Reporter{Job: "j", Trigger: c.trigger}
		var e runner.Event
		s.refused(&e, runner.Result{Ending: c.ending, Refusal: &c.refusal}, now)
		if e.Level != c.level || e.Reason != c.reason || e.Text != "not run: "+c.text || !strings.Contains(e.Hint, c.hint) || (e.Hint == "") != (c.hint == "") {
			t.Errorf("%s: %v %s\n%s\n%s", c.name, e.Level, e.Reason, e.Text, e.Hint)
		}
		if e.Tick != c.trigger.Tick || !slices.Contains(skipReasons, e.Reason) {
			t.Errorf("%s: of tick %d, for the reason %s", c.name, e.Tick, e.Reason)
		}
	}
}

// lacking is the failure of a store that was reached, and lacks something.
type lacking struct{}

func (lacking) Error() string  { return "no space left" }
func (lacking) Remedy() string { return "make room" }

func TestWhatIsTold(t *testing.T) {
	for _, c := range []struct {
		by     *Reporter
		result runner.Result
		end    cli.ExitStatus
		want   string
	}{
		{ // in the log of a daemon the tick that was given up is not the one of the time at which the line was written
			&Reporter{prefix: "j: ", inFile: true, Trigger: backends.Trigger{Tick: 1795140000}},
			runner.Result{Ending: runner.Interrupted, Err: daemon.ErrOvertaken},
			cli.ExitStatus{},
			"leaderrun: j: not run for the tick 2026-11-20T02:00:00Z: the next tick came due before the backend had answered\n",
		},
		{ // although an error was told before: it is the last that is heard of these processes
			&Reporter{loud: true},
			runner.Result{Ending: runner.Unconfirmed, Err: errors.New("processes live")},
			cli.ExitStatus{Code: 75},
			"leaderrun: the run is given up: processes live\nhint: look for them on this host: another run may start beside them\n",
		},
		{ // a store that says what it lacks can be reached
			&Reporter{},
			runner.Result{Ending: runner.Unreachable, Err: lacking{}},
			cli.ExitStatus{},
			"leaderrun: not run: no space left\nhint: make room\n",
		},
		{
			&Reporter{},
			runner.Result{Ending: runner.Unrecorded, Err: lacking{}},
			cli.ExitStatus{},
			"leaderrun: the command ended with code 0, and that could not be recorded: no space left\n" +
				"hint: make room; others will find the tick or key lost\n",
		},
	} {
		var said bytes.Buffer
		c.by.Console, c.by.Job = &cli.Console{Out: &said}, "j"
		c.by.Tell(c.result, c.end)
		c.by.Console.Close()
		if said.String() != c.want {
			t.Errorf("%q, want %q", said.String(), c.want)
		}
	}
}
