package runner

import (
	"fmt"
	"log/slog"
	"time"

	"github.com/leaderrun/leaderrun/backends"
	"github.com/leaderrun/leaderrun/internal/lifeline"
)

// Event is something that happened to a run. The names and reasons are a contract: people filter by them.
type Event struct {
	Name   string     // one of the Event… names
	Level  slog.Level // what the event is worth saying at
	Reason string     // of run_skipped
	Text   string     // one line for people: what, and why
	Hint   string     // the remedy; may be empty

	Job    string
	Holder string // the run's holder id; empty before one exists
	Token  int64  // 0: no lease yet
	Tick   int64  // Unix seconds; 0: none
	Fields []slog.Attr

	// Took is how long it took: lease_acquired since just before the first claim, lease_renewed since the request was
	// sent, child_exited since the command was started. 0 elsewhere.
	Took time.Duration
	// Left is, in lease_renewed, how much of the lease's validity was left when the answer came. 0 elsewhere.
	Left time.Duration
}

// The names of events.
const (
	EventSkipped   = "run_skipped"
	EventStandby   = "standing_by"
	EventSilent    = "claim_unanswered"
	EventAcquired  = "lease_acquired"
	EventStarted   = "child_started"
	EventRenewed   = "lease_renewed"
	EventRenewFail = "renew_failed"
	EventLost      = "lease_lost"
	EventStopping  = "child_stopping"
	EventLeftovers = "child_leftovers"
	EventUndead    = "child_unconfirmed"
	EventExited    = "child_exited"
	EventTimedOut  = "child_timed_out" // in place of child_stopping, where another start follows
	EventRetrying  = "child_retrying"  // at the beginning of the pause; the field try counts from 1
	EventReleased  = "lease_released"
	EventNoted     = "record_noted"
)

// Reasons of run_skipped beside the verdicts of backends.
const (
	ReasonUnreachable = "unreachable"
	ReasonFuture      = "future"
	ReasonSignal      = "signal"
	ReasonRefused     = "refused"
)

// info is an event that is worth a line to whoever wants to know more.
func info(name, text string, fields ...slog.Attr) Event {
	return Event{Name: name, Level: slog.LevelInfo, Text: text, Fields: fields}
}

func warning(name, text string, fields ...slog.Attr) Event {
	return Event{Name: name, Level: slog.LevelWarn, Text: text, Fields: fields}
}

func claimUnanswered(err error) Event {
	return info(EventSilent, fmt.Sprintf("the backend does not answer: %v", err))
}

func standingByForBackend() Event {
	e := info(EventStandby, "standing by: the backend does not answer")
	e.Reason = ReasonUnreachable
	return e
}

func standingBy(h backends.Holder) Event {
	return info(EventStandby, "standing by behind "+HolderText(h),
		slog.String("behind", h.ID), slog.String("behind_host", h.Host), slog.Int("behind_pid", h.PID))
}

func waitingOut(r *backends.Refusal) Event {
	why := "a lease vanished that was not released; its holder may still be alive"
	if r.Verdict == backends.Quarantined {
		why = "the backend may have forgotten who runs the job"
	}
	return info(EventStandby, fmt.Sprintf("waiting %v: %s", brief(r.Wait), why), slog.String("verdict", string(r.Verdict)))
}

func acquired(token int64, took time.Duration) Event {
	e := info(EventAcquired, fmt.Sprintf("lease acquired with token %d", token))
	e.Took = took
	return e
}

// findings tells what this very claim found lost, missed or overruled: nobody else will.
func findings(g backends.Grant) []Event {
	var all []Event
	for _, o := range g.Lost {
		all = append(all, warning(EventNoted, lossText(o), slog.String("state", string(o.State))))
	}
	for _, note := range g.Notes {
		all = append(all, warning(EventNoted, note))
	}
	return all
}

func lossText(o backends.Occurrence) string {
	what := fmt.Sprintf("key %q", o.Key)
	if o.Tick != 0 {
		what = "tick " + time.Unix(o.Tick, 0).UTC().Format(time.RFC3339)
	}
	if o.State == backends.Missed {
		return what + " was missed: an earlier run was still going"
	}
	return fmt.Sprintf("%s is lost: its run on %s never reported its end", what, HolderText(o.Claimant))
}

// HolderText names a holder for people.
func HolderText(h backends.Holder) string {
	if h.Host == "" {
		return "another holder"
	}
	return fmt.Sprintf("%s, process %d", h.Host, h.PID)
}

func commandStarted(try int) Event {
	e := info(EventStarted, "command started")
	if try > 1 {
		e.Fields = []slog.Attr{slog.Int("try", try)}
	}
	return e
}

func commandEnded(s lifeline.Status, took time.Duration) Event {
	e := info(EventExited, fmt.Sprintf("command ended with code %d", s.ExitCode()), slog.Int("code", s.ExitCode()))
	e.Took = took
	return e
}

func retrying(s lifeline.Status, late bool, try int, req Request) Event {
	what := fmt.Sprintf("the command failed with code %d", s.ExitCode())
	if late {
		what = "the command took too long"
	}
	return info(EventRetrying, fmt.Sprintf("%s: try %d of %d in %v", what, try, req.Retries+1, req.RetryDelay), slog.Int("try", try))
}

func stopping(consequence, why string) Event { return info(EventStopping, consequence+": "+why) }

func timedOut(limit time.Duration) Event {
	return info(EventTimedOut, stoppingIt+": "+ranLonger(limit))
}

func ranLonger(limit time.Duration) string {
	return fmt.Sprintf("the command ran longer than %v", limit)
}

func leaseLost(text string) Event { return Event{Name: EventLost, Level: slog.LevelError, Text: text} }

func leaseRenewed(took, left time.Duration) Event {
	return Event{Name: EventRenewed, Level: slog.LevelDebug, Text: "lease renewed", Took: took, Left: left}
}

func renewFailed(err error) Event {
	return info(EventRenewFail, fmt.Sprintf("a renewal failed: %v", err))
}

func leftovers(n int) Event {
	return warning(EventLeftovers, fmt.Sprintf("the command left %d process(es) behind, which are being ended", n), slog.Int("count", n))
}

func unguarded(err error) Event {
	return warning(EventLeftovers, err.Error()+": killing what the command may have left behind")
}

func unconfirmed(n int) Event {
	return warning(EventUndead, fmt.Sprintf("%d process(es) of the command survive SIGKILL; the lease is kept while the backend answers", n))
}

func released(s backends.State) Event { return info(EventReleased, "lease released: "+string(s)) }

func notReleased(err error) Event {
	return warning(EventReleased, fmt.Sprintf("the lease could not be released and runs out by itself: %v", err))
}

func notRecorded(err error) Event {
	e := warning(EventReleased, fmt.Sprintf("the end of the run could not be recorded: %v", err))
	e.Hint = "the lease runs out by itself; until then the job does not start again"
	return e
}

func withReason(reason string) string {
	if reason == "" {
		return ""
	}
	return ": " + reason
}

// brief rounds a duration for people.
func brief(d time.Duration) time.Duration {
	if d > time.Second {
		return d.Round(100 * time.Millisecond)
	}
	return d.Round(time.Millisecond)
}
