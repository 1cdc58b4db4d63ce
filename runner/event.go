package runner

import (
	"log/slog"
	"time"
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

// emit reports an event of the current run.
func (a *attempt) emit(level slog.Level, name, text string, fields ...slog.Attr) {
	a.report(Event{Name: name, Level: level, Text: text, Fields: fields})
}

func (a *attempt) report(e Event) {
	if a.r.Observe == nil {
		return
	}
	e.Job, e.Holder, e.Token, e.Tick = a.req.Job, a.claim.Holder.ID, a.grant.Token, a.grant.Tick
	if e.Tick == 0 {
		e.Tick = a.req.Occasion.Tick
	}
	a.r.Observe(e)
}

// brief rounds a duration for people.
func brief(d time.Duration) time.Duration {
	if d > time.Second {
		return d.Round(100 * time.Millisecond)
	}
	return d.Round(time.Millisecond)
}
