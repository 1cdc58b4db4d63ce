package runner

import (
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"time"

	"github.com/leaderrun/leaderrun/backends"
	"github.com/leaderrun/leaderrun/internal/lifeline"
)

// lease is what the machine knows of its lease, and of the requests that keep it.
type lease struct {
	grant    backends.Grant
	timeline Timeline // of the TTL that was granted, which may not be the one asked for
	owner    owner
	sentAt   Instant  // the latest t0 of a request that the store has answered; it only moves forward
	deadline Deadline // what the tree obeys; it stays as it is once the lease is given up

	renewAt  Instant // when the next renewal goes out
	hedgeAt  Instant // when a second renewal goes out beside one without an answer; never: none does
	lastSent Instant // when a renewal, or the claim, went out last
	sent     int     // how many renewals went out, which is also the number of the last one
	inFlight int     // renewals without an answer, of those that were due
	failures int     // in a row
	failure  error   // why renewals fail

	watchAt Instant // when to open a watch on our own lease; never: it is open, or none is wanted
	newsAt  Instant // when the watch last told us to look

	checks    []check // the checks without an answer, in the order in which they came
	answering int     // renewals without an answer that went out for checks
}

// owner is whose the lease is, as far as the machine knows.
type owner int

const (
	ours    owner = iota
	givenUp       // ours until it runs out, but it was not renewed in time and the run is being ended
	taken         // the store said that it is not ours: somebody else may already have it
)

// loss is how a lease is lost.
type loss struct {
	owner     owner
	what      string // for people
	answer    error  // for those who ask
	terminate bool   // whether the tree must still get SIGTERM
}

var (
	expired    = loss{givenUp, "the lease could not be renewed in time", errGivenUp, true}
	terminated = loss{givenUp, "the lease could not be renewed in time", errGivenUp, false} // the guardian has already sent SIGTERM
	lost       = loss{taken, "the lease is not ours any more", backends.ErrLost, false}
)

// watchAfter is how old a run is when it begins to watch its own lease. Most runs are shorter, and need no watch.
const watchAfter = time.Second

// hold begins to keep a lease. The claim that was granted was sent after t0.
func (m *machine) hold(g backends.Grant, timeline Timeline, t0 Instant) phase {
	m.lease = lease{
		grant: g, timeline: timeline, sentAt: t0, deadline: timeline.Deadline(t0),
		hedgeAt: never, lastSent: t0, watchAt: never,
	}
	m.planRenewal()
	m.do(doHangUp{}) // ends the watch of the standby
	m.tellGrant(g)
	return granted{}
}

// validUntil is the end of the lease on this machine's clock.
func (l *lease) validUntil() Instant { return l.timeline.Deadline(l.sentAt).End }

// term is when the run must end if the lease is not renewed; never: it is being ended already, or the lease is gone.
func (l *lease) term() Instant {
	if l.owner != ours {
		return never
	}
	return l.deadline.Term
}

// fresh says whether enough of the lease is left to start the command.
func (m *machine) fresh() bool {
	return m.lease.sentAt.Add(m.lease.timeline.TTL).Sub(m.now) >= m.lease.timeline.TTL/2
}

// renews says whether a renewal still makes sense.
func (m *machine) renews() bool { return m.lease.owner != taken && m.now < m.lease.validUntil() }

// planRenewal plans the next renewal: after a third of the TTL, or a little earlier at random, so that many holders do not renew
// in step.
func (m *machine) planRenewal() {
	every := m.lease.timeline.renewEvery()
	m.lease.renewAt = m.lease.sentAt.Add(every - m.jitter(every/20))
}

// keep sends a renewal when one is due, and a hedge when that one stays without an answer. Renewals for checks are sent in
// addition, and never replace one that is due.
func (m *machine) keep() {
	l := &m.lease
	m.answerLate()
	if m.reached(l.watchAt) {
		l.watchAt = never
		m.do(doWatch{})
	}
	switch {
	case !m.renews():
	case l.inFlight == 0 && m.reached(l.renewAt):
		l.hedgeAt = m.after(l.timeline.hedge())
		l.inFlight++
		m.sendRenewal(false)
	case m.reached(l.hedgeAt):
		l.hedgeAt = never
		l.inFlight++
		m.sendRenewal(false)
	case m.reached(l.checkDueAt()):
		l.answering++
		m.sendRenewal(true)
	}
}

// sendRenewal sends one renewal. It may take a sixth of the TTL.
func (m *machine) sendRenewal(forCheck bool) {
	l := &m.lease
	l.sent++
	l.lastSent = m.now
	m.do(doRenew{l.grant, l.sent, m.now, min(m.after(l.timeline.requestLimit()), l.validUntil()), forCheck})
}

// onHeld takes the inputs that mean the same in every phase with a lease.
func (m *machine) onHeld(p held, in input) phase {
	l := &m.lease
	switch in := in.(type) {
	case renewAnswer:
		return m.renewed(p, in)
	case signal:
		return p.pass(m, in.sig)
	case cancelled:
		return p.end(m, stop{cause: cause{ending: Ran, err: in.err}, why: in.err.Error()})
	case treeEvent:
		if in.Kind == lifeline.Terminated && l.owner == ours { // the guardian has sent SIGTERM: that cannot be undone
			return p.lose(m, terminated)
		}
		m.tellSurvivors(in.Event)
	case question:
		m.inquire(in.number)
	case leaseNews: // only a renewal can tell what has happened
		if in.Look {
			l.newsAt = m.now
			m.lookSoon()
		}
	case watchClosed: // meanwhile the renewals find out what it would have told
		l.watchAt = m.after(l.timeline.renewEvery())
	}
	return p
}

// renewed takes the answer to a renewal. If the lease has run out meanwhile, an answer proves nothing: others may have been granted.
func (m *machine) renewed(p held, a renewAnswer) phase {
	l := &m.lease
	if a.forCheck {
		l.answering--
	} else if l.inFlight--; l.inFlight == 0 {
		l.hedgeAt = never
	}
	switch {
	case l.owner == taken:
	case errors.Is(a.err, backends.ErrLost):
		return p.lose(m, lost)
	case a.t0 < l.sentAt: // a later renewal was answered already: this answer says nothing new
	case a.err != nil:
		m.renewalFailed(a)
	case m.now >= l.validUntil():
		l.failure = fmt.Errorf("the reply came %v after the lease ran out", brief(m.now.Sub(l.validUntil())))
	default:
		m.extend(a.t0)
		m.answerYes(a.number)
		if b := a.answer.Break; b != nil {
			return p.end(m, stop{
				cause: cause{ending: Broken, err: &BrokenError{*b}}, why: "it was broken" + withReason(b.Reason),
				lost: "the run was broken from " + HolderText(b.By) + withReason(b.Reason),
			})
		}
	}
	return p
}

// renewalFailed plans the next renewal after one has failed. If the failed one was sent for a check, the next one that is due can
// only become earlier by that.
func (m *machine) renewalFailed(a renewAnswer) {
	l := &m.lease
	l.failure = a.err
	if a.forCheck {
		l.renewAt = min(l.renewAt, m.after(m.pause(l.failures+1)))
	} else {
		l.failures++
		l.renewAt = m.after(m.pause(l.failures))
	}
	m.info(EventRenewFail, fmt.Sprintf("a renewal failed: %v", a.err))
}

// extend makes the lease count from t0, because the store has answered a request that was sent after it. If the run is being
// ended already, this does not save it: it only keeps the lease until the tree is dead.
func (m *machine) extend(t0 Instant) {
	l := &m.lease
	l.failures, l.failure = 0, nil
	if t0 <= l.sentAt {
		return
	}
	left := l.validUntil().Sub(m.now)
	l.sentAt = t0
	if l.owner == ours {
		l.deadline = l.timeline.Deadline(t0)
		m.do(doExtend{l.deadline})
	}
	m.planRenewal()
	if t0 < l.newsAt { // the renewal was sent before the news came
		m.lookSoon()
	}
	m.tell(Event{Name: EventRenewed, Level: slog.LevelDebug, Text: "lease renewed", Took: m.now.Sub(t0), Left: left})
}

// lookSoon makes the next renewal go out at once, but not sooner than a moment after the last one.
func (m *machine) lookSoon() {
	m.lease.renewAt = min(m.lease.renewAt, m.lease.lastSent.Add(minLook))
}

// Why a run does not lead.
var (
	errNotHeld = errors.New("the lease is not acquired yet")
	errOver    = errors.New("the run is over")
	errGivenUp = errors.New("the lease could not be renewed in time and the run is being stopped")

	errStoreSaysNo = errors.New("the backend refuses to renew the lease")
)

// maxAnswering is how many renewals for checks may be without an answer: one, and one more when that one stays silent.
const maxAnswering = 2

// check is a question from the command that waits for its answer: does the run still lead?
type check struct {
	number int
	sent   int     // how many renewals had been sent when the check came: only a later one answers it
	until  Instant // without an answer by then it is answered with a no
}

// inquire takes a check.
func (m *machine) inquire(number int) {
	l := &m.lease
	switch {
	case l.owner == taken:
		m.do(doAnswer{number: number, err: backends.ErrLost})
	case l.owner == givenUp, m.now >= l.validUntil():
		m.do(doAnswer{number: number, err: errGivenUp})
	default: // a new array: copies of the machine share the old one
		l.checks = append(slices.Clip(l.checks), check{number, l.sent, m.after(l.timeline.requestLimit())})
	}
}

// checkDueAt returns when the next renewal for checks goes out. If none was sent since the last check came, one goes out a moment
// after the last renewal, so that many checks share a few renewals. If one was sent and stays silent, a second one follows.
func (l *lease) checkDueAt() Instant {
	if len(l.checks) == 0 || l.answering >= maxAnswering {
		return never
	}
	if l.checks[len(l.checks)-1].sent == l.sent {
		return l.lastSent.Add(minLook)
	}
	return l.lastSent.Add(l.timeline.hedge())
}

// answerYes says yes to the checks that had come before the renewal with this number was sent.
func (m *machine) answerYes(number int) {
	l := &m.lease
	for len(l.checks) > 0 && l.checks[0].sent < number {
		m.do(doAnswer{number: l.checks[0].number, until: l.validUntil()})
		l.checks = l.checks[1:]
	}
}

// answerLate says no to the checks that have waited too long.
func (m *machine) answerLate() {
	l := &m.lease
	for len(l.checks) > 0 && m.reached(l.checks[0].until) {
		err := fmt.Errorf("the backend did not answer within %v", brief(l.timeline.requestLimit()))
		if l.failure != nil && backends.IsAnswer(l.failure) {
			err = errStoreSaysNo
		}
		m.do(doAnswer{number: l.checks[0].number, err: err, cause: l.failure})
		l.checks = l.checks[1:]
	}
}

// answerNo says no to all checks.
func (m *machine) answerNo(err error) {
	for _, c := range m.lease.checks {
		m.do(doAnswer{number: c.number, err: err})
	}
	m.lease.checks = nil
}
