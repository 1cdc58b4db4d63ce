package launch

import (
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync/atomic"
	"time"

	"github.com/leaderrun/leaderrun/backends"
	"github.com/leaderrun/leaderrun/internal/cli"
	"github.com/leaderrun/leaderrun/internal/credentialplugin"
	"github.com/leaderrun/leaderrun/internal/daemon"
	"github.com/leaderrun/leaderrun/internal/panics"
	"github.com/leaderrun/leaderrun/runner"
)

// Reporter follows one run and tells it: to people and machines on stderr, and to systemd.
type Reporter struct {
	Console *cli.Console
	Notify  *Notifier
	Job     string
	Slots   int              // how many the job has; 0: none
	prefix  string           // of what people read, where there are several jobs
	inFile  bool             // the options of the run stand in a job file
	Trigger backends.Trigger // what the run is for
	Started atomic.Bool      // the command was started
	loud    bool             // an error was told already
}

// Event is told by the runner, from one goroutine.
func (s *Reporter) Event(e runner.Event) {
	if e.Name == runner.EventStarted {
		s.Started.Store(true)
	}
	s.loud = s.loud || e.Level >= slog.LevelError
	s.Notify.Event(e)
	s.say(e)
}

// asKeys are the options that texts name, as they are called in a job file.
var asKeys = strings.NewReplacer("--start-deadline", "start_deadline", "--timeout", "timeout",
	"--max-attempts", "max_attempts", "--on-lost", "on_lost:")

// say tells an event. Where there are several jobs it says which, and of one of a job file it speaks of the file's keys.
func (s *Reporter) say(e runner.Event) {
	e.Text = s.prefix + e.Text
	if s.inFile {
		e.Text = asKeys.Replace(e.Text)
		if strings.HasPrefix(e.Hint, "--") {
			e.Hint = ""
		}
	}
	s.Console.Event(e)
}

// Tell says how it ended, where the runner's own events do not: a run that was skipped, and errors.
func (s *Reporter) Tell(r runner.Result, end cli.ExitStatus) {
	e := runner.Event{Name: runner.EventSkipped, Job: s.Job, Tick: r.Grant.Tick, Token: r.Grant.Token, Level: slog.LevelError}
	if e.Tick == 0 {
		e.Tick = s.Trigger.Tick
	}
	if s.Trigger.Once != "" {
		e.Fields = append(e.Fields, slog.String("once", s.Trigger.Once))
	}
	p, faulty := errors.AsType[*panics.Panic](r.Err)
	if faulty {
		defer s.Console.Stack(p)
	}
	switch r.Ending {
	case runner.Refused, runner.WaitOver:
		s.refused(&e, r, time.Now())
	case runner.Unreachable:
		e.Reason, e.Text = runner.ReasonUnreachable, fmt.Sprintf("not run: the backend cannot be reached: %v", r.Err)
		e.Hint = "`leaderrun doctor` looks for the reason; --wait and --backend-wait say how long to go on trying"
		if hint := cli.HintOf(r.Err); hint != "" { // it was reached, and says what it lacks
			e.Text, e.Hint = fmt.Sprintf("not run: %v", r.Err), hint
		}
		if errors.Is(r.Err, credentialplugin.ErrAtWork) { // it ends with this process, and begins anew with the next one
			e.Hint = fmt.Sprintf("--backend-wait %v, or a --wait as long, gives a credential plugin the time that it may take", credentialplugin.Longest)
		}
	case runner.NotStarted:
		e.Reason, e.Text = runner.ReasonUnreachable, fmt.Sprintf("not run: %v", r.Err)
	case runner.Permanent:
		e.Reason, e.Text, e.Hint = runner.ReasonRefused, fmt.Sprintf("not run: %v", r.Err), cli.HintOf(r.Err)
	case runner.Interrupted:
		e.Level, e.Reason, e.Text = slog.LevelInfo, runner.ReasonSignal, "not run: received "+r.Signal.String()
		if r.Signal == 0 {
			e.Text = fmt.Sprintf("not run for the tick %s: %v", cli.TickText(e.Tick), r.Err)
		}
		if errors.Is(r.Err, daemon.ErrOvertaken) { // nobody else may have run it
			e.Level, e.Reason = slog.LevelWarn, runner.ReasonUnreachable
		}
	case runner.StartFailed:
		e.Name, e.Text, e.Hint = "error", fmt.Sprint(r.Err), cli.HintOf(r.Err)
	case runner.Ran:
		if r.Status.Known {
			return
		}
		e.Name, e.Text = "error", "nobody saw how the command ended"
	case runner.TimedOut:
		e.Name, e.Text = "timed_out", "the command was ended by --timeout"
	case runner.Unconfirmed: // told although the loss of the lease was: this is what somebody has to look after
		e.Name, e.Text = runner.EventUndead, fmt.Sprintf("the run is given up: %v", r.Err)
		e.Hint = "look for them on this host: another run may start beside them"
	default:
		if s.loud && !faulty {
			return
		}
		e.Name, e.Text = "error", "the run was stopped"
		if r.Err != nil {
			e.Text = fmt.Sprintf("the run was stopped: %v", r.Err)
		}
		if r.Ending == runner.Unrecorded {
			e.Text = fmt.Sprintf("the command ended with code %d, and that could not be recorded: %v", r.Status.ExitCode(), r.Err)
			e.Hint = "others will find the tick or key lost"
			if hint := cli.HintOf(r.Err); hint != "" {
				e.Hint = hint + "; " + e.Hint
			}
		}
	}
	if r.Ending != runner.Interrupted || r.Signal != 0 { // else the program goes on
		e.Fields = append(e.Fields, slog.Int("code", end.Code))
	}
	s.say(e)
}
