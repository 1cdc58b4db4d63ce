package launch

import (
	"fmt"
	"log/slog"
	"strings"
	"time"

	"github.com/leaderrun/leaderrun/backends"
	"github.com/leaderrun/leaderrun/internal/cli"
	"github.com/leaderrun/leaderrun/runner"
)

// refused says why the store did not grant the job. In good hands that is no news; a loss is told by the one claim
// that found it.
func (s *Reporter) refused(e *runner.Event, r runner.Result, now time.Time) {
	e.Level = slog.LevelInfo
	f := r.Refusal
	if f == nil {
		e.Text = "not run"
		return
	}
	e.Reason, e.Token = reasonOf(f.Verdict), f.Token
	e.Tick = s.Trigger.Tick
	if f.First {
		e.Level = slog.LevelWarn
	}
	who := runner.HolderText(f.Holder)
	var why string
	switch f.Verdict {
	case backends.Held:
		why = fmt.Sprintf("%s runs on %s", s.Job, who)
		if r.Ending == runner.WaitOver {
			why, e.Hint = fmt.Sprintf("%s still runs on %s", s.Job, who), "--wait says how long to wait"
		}
		if s.Slots > 0 {
			why = fmt.Sprintf("all %d slots of %s are taken", s.Slots, s.Job)
		}
	case backends.Nested:
		e.Level = slog.LevelError
		why = fmt.Sprintf("this run of %s is inside the one on %s, and would wait for it or leave the work to it", s.Job, who)
		e.Hint = "call COMMAND alone here, or give the run inside another job name"
	case backends.Reserved:
		why = fmt.Sprintf("%s is kept for %s for another %s", s.Job, f.Holder.Host, cli.Millis(f.Wait.Milliseconds()))
		e.Hint = "its --min-hold keeps it; `leaderrun break --holder-is-dead` gives it free"
	case backends.IsDone, backends.IsFailed, backends.IsStopped, backends.IsLost, backends.IsMissed:
		why, e.Hint = s.ended(f)
	case backends.IsEarlier:
		why = fmt.Sprintf("%s is earlier than the last one, %s, and nothing is known of it any more", s.Which(), cli.TickText(f.Tick))
	case backends.Late:
		why = fmt.Sprintf("%s is later than --start-deadline %v allows: %v late",
			s.Which(), s.Trigger.StartDeadline, now.Sub(time.Unix(s.Trigger.Tick, 0)).Round(time.Second))
	case backends.Divided:
		e.Level = slog.LevelError
		why, e.Hint = fmt.Sprintf("%s is divided into %d", strings.TrimSuffix(s.Which(), ","), f.Parts), "give all hosts the same --shards"
	case backends.Future, backends.FutureRecorded, backends.Outdated:
		e.Level = slog.LevelError
		why, e.Hint = s.disagrees(f)
	default:
		why = f.Error()
	}
	e.Text = "not run: " + why
}

// reasonOf is the reason that run_skipped gives. People filter by it, so it tells what is to be done and not how the
// store came to know: a tick whose time passed and of which nobody knows anything was missed, as far as anybody
// knows.
func reasonOf(v backends.Verdict) string {
	switch v {
	case backends.IsEarlier:
		return string(backends.IsMissed)
	case backends.FutureRecorded:
		return runner.ReasonFuture
	}
	return string(v)
}

// Which names what the run is for.
func (s *Reporter) Which() string {
	if s.Trigger.Once != "" {
		return fmt.Sprintf("this key of %s, %q,", s.Job, s.Trigger.Once)
	}
	return fmt.Sprintf("this tick of %s, %s,", s.Job, cli.TickText(s.Trigger.Tick))
}

// ended says how the tick or key ended, and how it can be run again where it did not end well.
func (s *Reporter) ended(f *backends.Refusal) (why, hint string) {
	again := fmt.Sprintf("`leaderrun break --forget-tick %s` lets the last tick run again", QuoteWord(s.Job))
	if s.Trigger.Once != "" {
		again = fmt.Sprintf("`leaderrun break --forget-once %s %s` lets it run again", QuoteWord(s.Trigger.Once), QuoteWord(s.Job))
	} else if f.Tick != s.Trigger.Tick || f.Tick == 0 {
		again = ""
	}
	what, who := s.Which(), runner.HolderText(f.Holder)
	switch f.Verdict {
	case backends.IsFailed:
		return fmt.Sprintf("%s failed on %s", what, who), again
	case backends.IsStopped:
		return fmt.Sprintf("%s was stopped on %s%s", what, who, s.forGood()), again
	case backends.IsLost:
		return fmt.Sprintf("%s is lost%s: its run on %s never reported its end", what, s.forGood(), who), again
	case backends.IsMissed:
		return what + " was missed: it could not be started in time", again
	}
	return what + " is done", ""
}

// forGood is what --on-lost rerun adds about a tick or key that it would have run again.
func (s *Reporter) forGood() string {
	if s.Trigger.OnLost != backends.Rerun {
		return ""
	}
	return fmt.Sprintf(" for good (--max-attempts %d, or claimed with --on-lost skip)", s.Trigger.MaxAttempts)
}

// disagrees says what of the record and of this host does not fit together.
func (s *Reporter) disagrees(f *backends.Refusal) (why, hint string) {
	job, who := QuoteWord(s.Job), runner.HolderText(f.Holder)
	switch f.Verdict {
	case backends.Future:
		hint = "compare this host's clock with the backend's"
		if s.Trigger.Schedule.Fingerprint == "" {
			hint = "give the tick that is due now; or compare this host's clock with the backend's"
		}
		return fmt.Sprintf("%s is more than a minute ahead of the backend's clock", s.Which()), hint
	case backends.FutureRecorded:
		return fmt.Sprintf("the recorded tick of %s, %s, is far ahead: %s recorded it", s.Job, cli.TickText(f.Tick), who),
			fmt.Sprintf("correct the clock there, then `leaderrun break --forget-tick %s`", job)
	}
	return fmt.Sprintf("this host's schedule of %s is outdated: %s changed it at %s to %q",
			s.Job, who, f.At.UTC().Format(time.RFC3339), f.Text),
		fmt.Sprintf("change it here too; or `leaderrun break --forget-schedule %s` accepts this host's", job)
}
