package runner

import (
	"fmt"
	"syscall"

	"github.com/leaderrun/leaderrun/backends"
	"github.com/leaderrun/leaderrun/internal/lifeline"
)

// What follows for the command when the run is to end, for people.
const (
	stoppingIt = "stopping the command"
	endingRest = "ending what the command left behind"
	notAgain   = "not trying the command again"
)

// cause is why a run ends otherwise than by the command alone. Zero: it does not.
type cause struct {
	ending    Ending // what the result says; 0: nothing but the command's code
	signalled bool   // a signal to leaderrun ended the run
	final     bool   // no other try follows
	err       error  // of the result
}

// outcome says how a run that ended with a status is recorded.
func (c cause) outcome(s lifeline.Status) backends.Outcome {
	o := backends.Outcome{State: backends.Failed, Exit: s.ExitCode()}
	switch {
	case c.ending == LeaseLost, c.ending == TreeLost:
		o.State = backends.Lost
	case c.ending == Broken, c.ending == Ran, c.signalled:
		o.State = backends.Stopped
	case c.ending == TimedOut, c.ending == StartFailed:
	case s.Known && s.ExitCode() == 0:
		o.State = backends.Done
	}
	return o
}

// stop is a wish to end the run while the lease is ours.
type stop struct {
	cause
	why  string // for people
	lost string // what is told beside, for people; empty: nothing
}

func (m *machine) tellStop(consequence string, s stop) {
	m.info(EventStopping, consequence+": "+s.why)
	if s.lost != "" {
		m.tellLost(s.lost)
	}
}

// noteLoss notes that the run ends because its lease does, and tells who asks.
func (m *machine) noteLoss(consequence string, how loss) {
	m.lease.standing = how.standing
	text := how.what + ": " + consequence
	if how.standing == givenUp && m.lease.failure != nil {
		text += ": " + m.lease.failure.Error()
	}
	m.tellLost(text)
	m.answerNo(how.answer)
}

// live is a tree of which something may be alive.
type live struct {
	started   Instant
	killAt    Instant // the end of --kill-after; never: none
	killedAt  Instant // when the tree was killed; never: it was not
	asked     bool    // SIGTERM or SIGINT came: the next one kills
	unguarded bool    // the guardian was lost, and that was told
	cause     cause
}

// kill ends the tree now.
func (l *live) kill(m *machine) {
	if l.killedAt == never {
		l.killedAt = m.now
		m.do(doKill{})
	}
}

// terminate asks the tree to end, and kills it after --kill-after.
func (l *live) terminate(m *machine) {
	m.do(doSignal{syscall.SIGTERM})
	l.armKill(m)
}

func (l *live) armKill(m *machine) {
	if m.request.KillAfter > 0 && l.killAt == never {
		l.killAt = m.after(m.request.KillAfter)
	}
}

// lose ends the tree for want of a lease: with the grace that is left or, where somebody else may have the lease, at once.
func (l *live) lose(m *machine, consequence string, how loss) {
	l.cause.ending, l.cause.final, l.cause.err = LeaseLost, true, nil
	m.noteLoss(consequence, how)
	if how.terminate {
		m.do(doTerminate{})
	}
	if how.standing == taken {
		l.killedAt = never // a guardian that kills by itself hears of it too: it is taken for lost sooner then
		l.kill(m)
	}
}

// pass passes a signal on. A second SIGTERM or SIGINT kills.
func (l *live) pass(m *machine, sig syscall.Signal) {
	if asksToEnd(sig) {
		l.armKill(m)
		if l.asked && l.killedAt == never {
			l.kill(m)
			return
		}
		l.asked = true
	}
	m.do(doSignal{sig})
}

// due kills when it is time, and keeps the lease. It says whether the tree is given up: it was killed and cannot be confirmed
// dead, and the lease has run out.
func (l *live) due(m *machine) (hopeless bool) {
	if l.killedAt == never && m.reached(min(m.lease.deadline.Kill, l.killAt)) {
		l.kill(m)
	}
	m.keep()
	return l.killedAt != never && m.reached(max(m.lease.validUntil(), l.killedAt).Add(killBudget))
}

// abandonTree leaves a tree behind that nothing can end. Nothing is released.
func (m *machine) abandonTree(s lifeline.Status) phase {
	m.answerNo(errOver)
	return m.finish(Result{Ending: Unconfirmed, Status: s, Err: errUnconfirmed})
}

// running is the time in which the command runs. It is being ended where there is a cause.
type running struct{ live }

func (p running) on(m *machine, in input) phase {
	switch e, _ := in.(treeEvent); e.Kind {
	case lifeline.Exited:
		m.tellExited(e.Status, m.now.Sub(p.started))
		return p.ended(m, e.Status)
	case lifeline.GuardianLost:
		return p.loseGuardian(m, e.Err)
	case lifeline.Dead:
		return p.ended(m, e.Status).dead(m)
	case lifeline.Unconfirmed:
		p.killedAt = min(p.killedAt, m.now) // by the guardian, perhaps
	}
	return m.onHeld(p, in)
}

func (p running) due(m *machine) phase {
	if t := m.request.Timeout; t > 0 && p.cause.ending == 0 && m.reached(p.started.Add(t)) {
		p.timeOut(m)
	}
	if p.live.due(m) {
		return m.abandonTree(lifeline.Status{})
	}
	return p
}

func (p *running) timeOut(m *machine) {
	p.cause.ending = TimedOut
	name := EventStopping
	if !p.asked && (m.hasRetries() || m.lease.grant.Tick != m.claim.Tick) { // the command starts again, perhaps for our own tick
		name = EventTimedOut
	}
	m.info(name, fmt.Sprintf("%s: the command ran longer than %v", stoppingIt, m.request.Timeout))
	p.terminate(m)
}

func (m *machine) hasRetries() bool { return m.tries <= m.request.Retries }

// end keeps the first cause. Any other means that no try follows.
func (p running) end(m *machine, s stop) phase {
	if p.cause.ending != 0 {
		p.cause.final = true
		return p
	}
	s.signalled = p.cause.signalled
	p.cause = s.cause
	m.tellStop(stoppingIt, s)
	p.terminate(m)
	return p
}

func (p running) lose(m *machine, how loss) phase {
	p.live.lose(m, stoppingIt, how)
	return p
}

func (p running) pass(m *machine, sig syscall.Signal) phase {
	m.note(sig)
	if asksToEnd(sig) {
		p.cause.signalled, p.cause.final = true, true
		m.tellStop(stoppingIt, stop{why: "received " + sig.String()})
	}
	p.live.pass(m, sig)
	return p
}

// loseGuardian notes that the wrapper ends the tree itself.
func (p running) loseGuardian(m *machine, err error) phase {
	if p.unguarded {
		return p
	}
	p.unguarded, p.killedAt = true, m.now
	if p.cause.ending != LeaseLost {
		p.cause.ending, p.cause.final, p.cause.err = TreeLost, true, nil
	}
	m.tellLost(err.Error() + ": " + stoppingIt)
	return p
}

// ended settles what the command came to. SIGHUP and SIGQUIT to leaderrun count as a stop only where the command died of them:
// others use them to reload, or to show where they are. A command that failed is tried again; one that was ended with the run
// is not, and neither is one whose end nobody saw.
func (p running) ended(m *machine, s lifeline.Status) sweeping {
	q := sweeping{live: p.live, status: s}
	ours := m.signal != 0 && s.Signal == m.signal
	if ours && q.cause.ending == 0 {
		q.cause.signalled = true
	}
	failed := s.Known && q.cause.outcome(s).State == backends.Failed
	q.follows = failed && !q.cause.final && m.hasRetries()
	if ours && q.follows { // the signal came in the timeout's grace
		q.cause, q.follows = cause{signalled: true}, false
	}
	return q
}

// sweeping is the time between the end of the command and the death of what it left behind. What the command came to stands,
// but for the loss of the lease, unless another try is to follow.
type sweeping struct {
	live
	status  lifeline.Status
	follows bool // another try, once the whole tree is dead
}

func (p sweeping) on(m *machine, in input) phase {
	switch e, _ := in.(treeEvent); e.Kind {
	case lifeline.GuardianLost:
		return p.loseGuardian(m, e.Err)
	case lifeline.Dead:
		return p.dead(m)
	case lifeline.Unconfirmed:
		p.killedAt = min(p.killedAt, m.now)
	}
	return m.onHeld(p, in)
}

func (p sweeping) due(m *machine) phase {
	if p.live.due(m) {
		return m.abandonTree(p.status)
	}
	return p
}

func (p sweeping) end(m *machine, s stop) phase {
	if !p.follows {
		return p
	}
	p.follows, p.cause = false, s.cause
	m.tellStop(endingRest, s)
	p.terminate(m)
	return p
}

func (p sweeping) lose(m *machine, how loss) phase {
	p.follows = false
	p.live.lose(m, endingRest, how)
	return p
}

// pass ends a run that another try was to follow as if that had died of the signal. It may also be the one that the command died
// of, of which leaderrun hears a moment later.
func (p sweeping) pass(m *machine, sig syscall.Signal) phase {
	switch {
	case !endsRun(sig):
	case p.follows:
		m.signal = sig
		p.follows, p.cause = false, cause{signalled: true, final: true}
		p.status = lifeline.Status{Known: true, Signal: sig}
		m.tellStop(endingRest, stop{why: "received " + sig.String()})
	case p.cause.signalled && sig != p.status.Signal: // another one ended the run
	default:
		m.signal = sig
		p.cause.signalled = p.cause.signalled || p.cause.ending == 0 && sig == p.status.Signal
	}
	p.live.pass(m, sig)
	return p
}

// loseGuardian notes that the wrapper kills what the command left behind. What the command came to is known.
func (p sweeping) loseGuardian(m *machine, err error) phase {
	if p.unguarded {
		return p
	}
	p.unguarded, p.killedAt, p.follows = true, m.now, false
	m.warn(EventLeftovers, err.Error()+": killing what the command may have left behind")
	return p
}

// dead goes on when the whole tree is confirmed dead: only then may the command be tried again, or the lease be released.
func (p sweeping) dead(m *machine) phase {
	if !p.follows {
		return m.record(p.cause, p.status)
	}
	m.tellRetry(p.status, p.cause.ending == TimedOut)
	return pausing{status: p.status, until: m.after(m.request.RetryDelay)}
}
