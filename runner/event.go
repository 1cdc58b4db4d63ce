package runner

import (
	"cmp"
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
	EventTraced    = "child_traced"
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

// tell reports an event of the run.
func (m *machine) tell(e Event) {
	e.Job = cmp.Or(m.lease.grant.Claim.Job, m.claim.Job) // what was granted may be a part of what was claimed
	e.Holder, e.Token, e.Tick = m.claim.Holder.ID, m.lease.grant.Token, m.lease.grant.Tick
	if e.Tick == 0 {
		e.Tick = m.claim.Tick
	}
	m.do(doTell{e})
}

func (m *machine) info(name, text string, fields ...slog.Attr) {
	m.tell(Event{Name: name, Level: slog.LevelInfo, Text: text, Fields: fields})
}

func (m *machine) warn(name, text string, fields ...slog.Attr) {
	m.tell(Event{Name: name, Level: slog.LevelWarn, Text: text, Fields: fields})
}

func (m *machine) tellLost(text string) {
	m.tell(Event{Name: EventLost, Level: slog.LevelError, Text: text})
}

func (m *machine) tellStandby(r *backends.Refusal) {
	h, text := r.Holder, "standing by behind "+HolderText(r.Holder)
	if r.Verdict == backends.Reserved {
		text = fmt.Sprintf("waiting %v: the job is kept for %s", brief(r.Wait), h.Host)
	}
	m.info(EventStandby, text,
		slog.String("behind", h.ID), slog.String("behind_host", h.Host), slog.Int("behind_pid", h.PID))
}

func (m *machine) tellWait(r *backends.Refusal) {
	verdict := slog.String("verdict", string(r.Verdict))
	if r.Verdict == backends.Quarantined { // once in the life of a store, at best, and nobody else says why nothing happens
		m.warn(EventStandby, QuarantineText(r.Wait), verdict)
		return
	}
	m.info(EventStandby, fmt.Sprintf("waiting %v: a lease vanished that was not released; its holder may still be alive", brief(r.Wait)), verdict)
}

// QuarantineText says for people why a store grants nothing for so long.
func QuarantineText(wait time.Duration) string {
	return fmt.Sprintf("waiting %v: the backend may have forgotten who runs the job: it is new, or was restarted or emptied", brief(wait))
}

// tellGrant tells of the lease, and what this very claim found lost, missed or overruled: nobody else will.
func (m *machine) tellGrant(g backends.Grant) {
	m.tell(Event{
		Name: EventAcquired, Level: slog.LevelInfo, Took: m.now.Sub(m.candidate.began),
		Text: fmt.Sprintf("lease acquired with token %d", g.Token),
	})
	for _, o := range g.Lost {
		m.warn(EventNoted, lossText(o), slog.String("state", string(o.State)))
	}
	for _, note := range g.Notes {
		m.warn(EventNoted, note)
	}
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

func (m *machine) tellStarted() {
	if m.tries == 1 {
		m.info(EventStarted, "command started")
	} else {
		m.info(EventStarted, "command started", slog.Int("try", m.tries))
	}
}

func (m *machine) tellExited(s lifeline.Status, took time.Duration) {
	m.tell(Event{
		Name: EventExited, Level: slog.LevelInfo, Took: took,
		Text:   fmt.Sprintf("command ended with code %d", s.ExitCode()),
		Fields: []slog.Attr{slog.Int("code", s.ExitCode())},
	})
}

func (m *machine) tellRetry(s lifeline.Status, tookTooLong bool) {
	what := fmt.Sprintf("the command failed with code %d", s.ExitCode())
	if tookTooLong {
		what = "the command took too long"
	}
	m.info(EventRetrying, fmt.Sprintf("%s: try %d of %d in %v", what, m.tries+1, m.request.Retries+1, m.request.RetryDelay),
		slog.Int("try", m.tries+1))
}

// tellSurvivors takes what a tree tells of processes that outlive what was to be their end.
func (m *machine) tellSurvivors(e lifeline.Event) {
	switch e.Kind {
	case lifeline.Leftovers:
		m.warn(EventLeftovers, fmt.Sprintf("the command left %d process(es) behind, which are being ended", e.Count), slog.Int("count", e.Count))
	case lifeline.Unconfirmed:
		if e.Count == 0 && e.Tracer != 0 {
			m.warn(EventTraced, fmt.Sprintf("the command and what it left behind have ended; process %d traces them and keeps them from being waited for", e.Tracer), slog.Int("tracer", e.Tracer))
			return
		}
		m.warn(EventUndead, fmt.Sprintf("%d process(es) of the command survive SIGKILL; the lease is kept while the backend answers", e.Count))
	}
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
