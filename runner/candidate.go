package runner

import (
	"errors"
	"fmt"
	"time"

	"github.com/leaderrun/leaderrun/backends"
)

// What a standby may have said that it waits behind, besides a token.
const (
	behindNobody  = -1
	behindSilence = -2 // the backend does not answer
)

// candidate is what the machine knows of its attempt until the lease is granted.
type candidate struct {
	began        Instant           // read before the first claim was sent
	seen         backends.LastSeen // the last sign of life of another holder, without For
	seenAt       Instant           // when the machine saw it first
	cutoffs      cutoffs
	failures     int   // requests in a row without an answer
	mayBeApplied bool  // a claim of ours may still be applied by the store
	behind       int64 // the token that we said we wait behind, or one of the constants
	maySearch    bool  // the search for an unclaimed instant has not been made yet
	watching     bool  // a watch is open
}

// cutoffs are the instants at which a candidate stops trying. Time that it must wait in any case moves the
// first two.
type cutoffs struct {
	wait    Instant // the end of Request.Wait
	backend Instant // without Request.Wait: the end of Request.BackendWait, for a store that cannot be reached
	start   Instant // the start deadline of the tick
}

func (m *machine) newCutoffs() cutoffs {
	l := cutoffs{wait: never, backend: never, start: never}
	switch {
	case m.request.Wait == Forever:
	case m.request.Wait > 0:
		l.wait = m.after(m.request.Wait)
	default:
		l.backend = m.after(m.request.BackendWait)
	}
	if m.claim.Tick != 0 && m.claim.StartDeadline > 0 {
		l.start = m.after(m.untilTick() + m.claim.StartDeadline)
		l.backend = min(l.backend, l.start)
	}
	return l
}

// patience is when the candidate stops waiting for a store that does not answer.
func (l cutoffs) patience() Instant { return min(l.wait, l.backend) }

// postpone moves the first two cutoffs by a time that the candidate had to wait whatever the options say.
func (l *cutoffs) postpone(d time.Duration) {
	if l.wait != never {
		l.wait = l.wait.Add(d)
	}
	if l.backend != never {
		l.backend = min(l.backend.Add(d), l.start)
	}
}

func (m *machine) untilTick() time.Duration { return time.Unix(m.claim.Tick, 0).Sub(m.wall) }

// sleeping waits for a tick that lies just ahead of the wall clock, which may be stepped meanwhile. Then it waits for as long as
// preferred hosts go first (Request.Yield).
type sleeping struct{ until Instant }

func (p sleeping) on(m *machine, in input) phase { return m.onCandidate(p, in) }

func (p sleeping) due(m *machine) phase {
	if ahead := m.untilTick(); m.claim.Tick != 0 && ahead <= nearTick && !m.reached(m.after(ahead)) {
		return p
	}
	if p.until == 0 {
		p.until = m.after(m.request.Yield)
	}
	if !m.reached(p.until) {
		return p
	}
	m.candidate.began, m.candidate.cutoffs = m.now, m.newCutoffs()
	return m.tryClaim()
}

// claiming waits for the answer to a claim. If it is granted, the lease counts from t0, which was read before the claim was sent.
type claiming struct{ t0 Instant }

func (m *machine) tryClaim() phase {
	c := &m.candidate
	until := min(m.after(m.request.Timeline.requestLimit()), max(c.cutoffs.patience(), m.after(minClaimTime)))
	if c.cutoffs.start > m.now { // if the tick is late already, the claim only asks what became of it: then this limit is no use
		until = min(until, max(c.cutoffs.start, m.after(minLook)))
	}
	claim := m.claim
	if claim.Seen = c.seen; c.seen.Token != 0 {
		claim.Seen.For = m.now.Sub(c.seenAt)
	}
	m.do(doClaim{claim, until})
	return claiming{m.now}
}

func (p claiming) on(m *machine, in input) phase {
	a, ok := in.(claimAnswer)
	if !ok {
		return m.onCandidate(p, in)
	}
	m.raiseFloor(a)
	refusal, isRefusal := errors.AsType[*backends.Refusal](a.err)
	switch {
	case a.err == nil:
		return p.granted(m, a.grant)
	case backends.IsPermanent(a.err):
		return m.giveUp(Result{Ending: Permanent, Err: a.err})
	case isRefusal:
		return m.refused(refusal)
	}
	return m.unanswered(a.err)
}

// raiseFloor remembers the token that an answer shows, even if the answer came too late. Every later claim must get a greater one.
func (m *machine) raiseFloor(a claimAnswer) {
	m.claim.Floor = max(m.claim.Floor, a.grant.Token)
	if r, ok := errors.AsType[*backends.Refusal](a.err); ok {
		m.claim.Floor = max(m.claim.Floor, r.Token)
	}
}

func (p claiming) granted(m *machine, g backends.Grant) phase {
	timeline, err := m.request.Timeline.For(g.TTL)
	if err != nil {
		m.candidate.mayBeApplied = true
		err = fmt.Errorf("the backend granted another TTL than asked for: %w", err)
		return m.giveUp(Result{Ending: Permanent, Err: &backends.PermanentError{Kind: backends.Configuration, Err: err}})
	}
	if m.now >= timeline.Deadline(p.t0).Term {
		return m.unanswered(fmt.Errorf("the reply took %v", brief(m.now.Sub(p.t0))))
	}
	return m.hold(g, timeline, p.t0)
}

// refused decides what follows a refusal. The candidate waits if waiting can help.
func (m *machine) refused(r *backends.Refusal) phase {
	c := &m.candidate
	m.observe(r.Seen)
	c.failures, m.refusal = 0, r
	if !c.watching && (r.Verdict == backends.Held || r.Verdict == backends.Reserved) && m.request.Wait > 0 {
		c.watching = true
		m.do(doWatch{})
	}
	later := m.request.Yield + m.jitter(min(m.request.Timeline.TTL/20, maxJitter))
	switch r.Verdict {
	case backends.Held, backends.Reserved:
		return m.standBy(r, m.after(max(r.Wait, minLook)+later))
	case backends.Vanished, backends.Quarantined:
		if m.now >= c.cutoffs.start {
			return m.late(r)
		}
		m.tellWait(r)
		until := m.after(max(r.Wait, time.Millisecond) + later)
		return standby{until: min(until, c.cutoffs.start), heedsNews: true, setAside: m.now}
	case backends.Outdated:
		if c.maySearch {
			c.maySearch = false
			m.do(doSearch{*r})
			return searching{}
		}
	}
	return m.giveUp(Result{Ending: Refused})
}

// standBy decides whether to wait for a job that somebody else has.
func (m *machine) standBy(r *backends.Refusal, look Instant) phase {
	c := &m.candidate
	ofOurTick := r.Tick == m.claim.Tick
	switch {
	case m.request.Wait == 0, m.request.SameTickOnly && !ofOurTick:
		return m.giveUp(Result{Ending: Refused})
	case m.now >= c.cutoffs.wait:
		return m.giveUp(Result{Ending: WaitOver})
	case m.now >= c.cutoffs.start && !ofOurTick: // the run of another tick had the job until it was too late for ours
		return m.late(r)
	}
	if c.behind != r.Token {
		c.behind = r.Token
		m.tellStandby(r)
	}
	if m.now < c.cutoffs.start {
		look = min(look, c.cutoffs.start)
	}
	return standby{until: min(look, c.cutoffs.wait), heedsNews: true, setAside: never}
}

// late ends the attempt of a candidate whose tick may not start any more.
func (m *machine) late(r *backends.Refusal) phase {
	m.refusal = &backends.Refusal{Verdict: backends.Late, Tick: m.claim.Tick, Token: r.Token}
	return m.giveUp(Result{Ending: Refused})
}

// unanswered decides what follows a claim without an answer. The store may have granted it, or may grant it still.
func (m *machine) unanswered(err error) phase {
	c := &m.candidate
	c.failures, c.mayBeApplied = c.failures+1, true
	m.info(EventSilent, fmt.Sprintf("the backend does not answer: %v", err))
	if m.request.Wait > 0 && c.behind != behindSilence { // a standby waits for the backend, too
		c.behind = behindSilence
		m.tell(Event{Name: EventStandby, Reason: ReasonUnreachable, Text: "standing by: the backend does not answer"})
	}
	if m.now >= c.cutoffs.patience() {
		return m.giveUp(Result{Ending: Unreachable, Err: err})
	}
	return standby{until: min(m.after(m.pause(c.failures)), c.cutoffs.patience()), setAside: never}
}

// standby waits before the next claim.
type standby struct {
	until     Instant
	heedsNews bool    // whether news end it early
	setAside  Instant // the time since then does not count against the cutoffs; never: all of it does
}

func (p standby) on(m *machine, in input) phase {
	n, ok := in.(leaseNews)
	if !ok {
		return m.onCandidate(p, in)
	}
	m.observe(n.Seen)
	if n.Look && p.heedsNews {
		p.until = min(p.until, m.after(m.request.Yield))
	}
	return p
}

func (p standby) due(m *machine) phase {
	if !m.reached(p.until) {
		return p
	}
	if p.setAside != never {
		m.candidate.cutoffs.postpone(m.now.Sub(p.setAside))
	}
	return m.tryClaim()
}

// observe remembers a sign of life of another holder, unless it is the one that the machine saw last. The holder's silence counts from
// after the answer or the news that showed it, because it was sent before. If late news show an older one, we only wait longer.
func (m *machine) observe(seen backends.LastSeen) {
	if c := &m.candidate; seen.Token != 0 && seen != c.seen {
		c.seen, c.seenAt = seen, m.now
	}
}

// searching waits until the search for an instant of the recorded schedule that nobody claimed has ended. If there is one, nobody
// uses that schedule any more.
type searching struct{}

func (p searching) on(m *machine, in input) phase {
	a, ok := in.(searchAnswer)
	switch {
	case !ok:
		return m.onCandidate(p, in)
	case !a.found:
		return m.giveUp(Result{Ending: Refused})
	}
	m.claim.Unclaimed = a.unclaimed
	return m.tryClaim()
}

// onCandidate takes the inputs that mean the same in every phase before the grant.
func (m *machine) onCandidate(p phase, in input) phase {
	switch in := in.(type) {
	case signal:
		if m.note(in.sig) {
			return m.interrupt(p, nil)
		}
	case cancelled:
		return m.interrupt(p, in.err)
	case unwanted:
		return m.interrupt(p, in.err)
	case question:
		m.do(doAnswer{number: in.number, err: errNotHeld})
	case watchClosed: // the next refusal opens another watch; until then the timer replaces it
		m.candidate.watching = false
	}
	return p
}

// interrupt ends the attempt because of a signal, or because the caller wants that.
func (m *machine) interrupt(p phase, err error) phase {
	result := Result{Ending: Interrupted, Err: err}
	if _, ok := p.(claiming); ok {
		m.candidate.mayBeApplied = true
		m.do(doHangUp{})
		return withdrawing{result}
	}
	return m.giveUp(result)
}

// giveUp ends an attempt without a grant. If one of its claims may still reach the store, that claim is taken back first.
func (m *machine) giveUp(r Result) phase {
	if !m.candidate.mayBeApplied {
		return m.finish(r)
	}
	m.do(doHangUp{})
	return m.release(releasing{what: withdrawal, result: r})
}

// withdrawing waits until the driver has returned from the claim that was hung up. Only then the claim is taken back.
type withdrawing struct{ result Result }

func (p withdrawing) on(m *machine, in input) phase {
	switch in := in.(type) {
	case claimAnswer:
		m.raiseFloor(in)
		return m.giveUp(p.result)
	case question:
		m.do(doAnswer{number: in.number, err: errNotHeld})
	}
	return p
}
