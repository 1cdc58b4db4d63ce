package command

import (
	"fmt"
	"log/slog"
	"sync/atomic"
	"time"

	"github.com/leaderrun/leaderrun/backends"
	"github.com/leaderrun/leaderrun/runner"
)

// story follows one run and tells it: to people and machines on stderr, and to systemd.
type story struct {
	voice   *voice
	notify  *notifier
	job     string
	started atomic.Bool // the command was started
	loud    bool        // an error was told already
}

// event is told by the runner, from one goroutine.
func (s *story) event(e runner.Event) {
	if e.Name == runner.EventStarted {
		s.started.Store(true)
	}
	s.loud = s.loud || e.Level >= slog.LevelError
	s.notify.event(e)
	s.voice.event(e)
}

// tell says how it ended, where the runner's own events do not: a run that was skipped, and errors.
func (s *story) tell(r runner.Result, end End) {
	e := runner.Event{Name: runner.EventSkipped, Job: s.job, Tick: r.Grant.Tick, Token: r.Grant.Token, Level: slog.LevelError}
	switch r.Ending {
	case runner.Refused, runner.WaitOver:
		s.refusal(&e, r)
	case runner.Unreachable:
		e.Reason, e.Text = runner.ReasonUnreachable, fmt.Sprintf("not run: the backend cannot be reached: %v", r.Err)
		e.Hint = "--wait and --backend-wait say how long to go on trying"
	case runner.NotStarted:
		e.Reason, e.Text = runner.ReasonUnreachable, fmt.Sprintf("not run: %v", r.Err)
	case runner.Permanent:
		e.Reason, e.Text, e.Hint = runner.ReasonRefused, fmt.Sprintf("not run: %v", r.Err), hintOf(r.Err)
	case runner.Interrupted:
		e.Level, e.Reason, e.Text = slog.LevelInfo, runner.ReasonSignal, "not run: received "+r.Signal.String()
	case runner.StartFailed:
		e.Name, e.Text, e.Hint = "error", fmt.Sprint(r.Err), hintOf(r.Err)
	case runner.Ran:
		if r.Status.Known {
			return
		}
		e.Name, e.Text = "error", "nobody saw how the command ended"
	case runner.TimedOut:
		e.Name, e.Text = "timed_out", "the command was ended by --timeout"
	default:
		if s.loud {
			return
		}
		e.Name, e.Text = "error", "the run was stopped"
		if r.Err != nil {
			e.Text = fmt.Sprintf("the run was stopped: %v", r.Err)
		}
		if r.Ending == runner.Unrecorded {
			e.Text = fmt.Sprintf("the end of the run could not be recorded: %v", r.Err)
		}
	}
	e.Fields = append(e.Fields, slog.Int("code", end.Code))
	s.voice.event(e)
}

// refusal says why the store did not grant the job. In good hands that is no news.
func (s *story) refusal(e *runner.Event, r runner.Result) {
	e.Level = slog.LevelInfo
	f := r.Refusal
	if f == nil {
		e.Text = "not run"
		return
	}
	e.Reason, e.Token = string(f.Verdict), f.Token
	if e.Tick == 0 {
		e.Tick = f.Tick
	}
	if f.First {
		e.Level = slog.LevelWarn
	}
	who := runner.HolderText(f.Holder)
	switch f.Verdict {
	case backends.Held:
		e.Text = fmt.Sprintf("not run: %s runs on %s", s.job, who)
		if r.Ending == runner.WaitOver {
			e.Text = fmt.Sprintf("not run: %s still runs on %s", s.job, who)
			e.Hint = "--wait says how long to wait"
		}
	case backends.IsDone, backends.IsFailed, backends.IsStopped, backends.IsLost, backends.IsMissed:
		e.Text = fmt.Sprintf("not run: this tick of %s is %s", s.job, f.Verdict)
	case backends.IsEarlier:
		e.Text = fmt.Sprintf("not run: a later tick of %s has been run", s.job)
	case backends.Late:
		e.Text = fmt.Sprintf("not run: too late for this tick of %s", s.job)
	case backends.Future, backends.FutureRecorded:
		e.Level, e.Reason = slog.LevelError, runner.ReasonFuture
		e.Text, e.Hint = fmt.Sprintf("not run: the tick of %s lies ahead of the backend's clock", s.job), "compare this host's clock"
		if f.Verdict == backends.FutureRecorded {
			e.Text = fmt.Sprintf("not run: a tick of %s far ahead was recorded by %s", s.job, who)
			e.Hint = "compare that host's clock; `leaderrun break --forget-tick` clears the record"
		}
	case backends.Outdated:
		e.Level = slog.LevelError
		e.Text = fmt.Sprintf("not run: the schedule of %s was changed by %s at %s to %q", s.job, who, f.At.Format(time.RFC3339), f.Text)
		e.Hint = "`leaderrun break --forget-schedule` accepts this host's schedule"
	default:
		e.Text = fmt.Sprintf("not run: %v", f)
	}
}
