package runner

import (
	"fmt"
	"syscall"

	"github.com/leaderrun/leaderrun/backends"
	"github.com/leaderrun/leaderrun/internal/lifeline"
)

// What messages say about the command when the run must end.
const (
	stoppingIt = "stopping the command"
	endingRest = "ending what the command left behind"
	notAgain   = "not trying the command again"
)

// cause is why a run ends, if it does not end by the command alone. Zero: it does.
type cause struct {
	ending    Ending // the result's; 0: the command's exit code says all
	signalled bool   // a signal to leaderrun ended the run
	err       error  // the result's
}

// outcome says what the store records about a run that ended with this cause and status.
func (c cause) outcome(s lifeline.Status) backends.Outcome {
	o := backends.Outcome{State: backends.Failed, Exit: s.ExitCode()}
	if c.ending == TimedOut {
		o.Note = "its timeout ended it"
	}
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

// stop is a reason to end the run although the lease is ours.
type stop struct {
	cause
	why  string // for people
	lost string // a second message, for people; empty: none
}

func (m *machine) tellStop(consequence string, s stop) {
	m.info(EventStopping, consequence+": "+s.why)
	if s.lost != "" {
		m.tellLost(s.lost)
	}
}

// noteLoss notes that the run must end because its lease is lost, and answers all checks with a no.
func (m *machine) noteLoss(consequence string, how loss) {
	m.lease.owner = how.owner
	text := how.what + ": " + consequence
	if how.owner == givenUp && m.lease.failure != nil {
		text += ": " + m.lease.failure.Error()
	}
	m.tellLost(text)
	m.answerNo(how.answer)
}

// liveTree is what the machine knows of a tree in which a process may be alive.
type liveTree struct {
	started    Instant
	killAt     Instant // when --kill-after has passed; never: it does not count yet, or is not set
	killedAt   Instant // when the tree was killed; never: it was not
	askedToEnd bool    // SIGTERM or SIGINT has come: the next one kills
	unguarded  bool    // the guardian is lost, and the user was told
	cause      cause
}

// kill ends the tree now.
func (l *liveTree) kill(m *machine) {
	if l.killedAt == never {
		l.killedAt = m.now
		m.do(doKill{lost: m.lease.owner == taken})
	}
}

// terminate sends SIGTERM, and SIGKILL after --kill-after.
func (l *liveTree) terminate(m *machine) {
	m.do(doSignal{syscall.SIGTERM})
	l.armKill(m)
}

func (l *liveTree) armKill(m *machine) {
	if m.request.KillAfter > 0 && l.killAt == never {
		l.killAt = m.after(m.request.KillAfter)
	}
}

// lose ends the tree because its lease is lost. If the lease is still ours until it runs out, the tree gets the grace that is left.
// If somebody else may have it, the tree is killed at once.
func (l *liveTree) lose(m *machine, consequence string, how loss) {
	l.cause.ending, l.cause.err = LeaseLost, nil
	m.noteLoss(consequence, how)
	if how.terminate {
		m.do(doTerminate{})
	}
	if how.owner == taken {
		l.killedAt = never // a guardian that already kills by itself is told too: the wrapper then waits less long for it
		l.kill(m)
	}
}

// pass passes a signal on. A second SIGTERM or SIGINT kills.
func (l *liveTree) pass(m *machine, sig syscall.Signal) {
	if lifeline.AsksToEnd(sig) {
		l.armKill(m)
		if l.askedToEnd && l.killedAt == never {
			l.kill(m)
			return
		}
		l.askedToEnd = true
	}
	m.do(doSignal{sig})
}

// due kills the tree when it is time, and renews the lease. It says whether the tree is hopeless: it was killed, nobody could
// confirm that it is dead, and the lease has run out.
func (l *liveTree) due(m *machine) (hopeless bool) {
	if l.killedAt == never && m.reached(min(m.lease.deadline.Kill, l.killAt)) {
		l.kill(m)
	}
	m.keep()
	return l.killedAt != never && m.reached(max(m.lease.validUntil(), l.killedAt).Add(killBudget))
}

// abandonTree ends the attempt although the tree may live. It releases nothing, so the store waits until the lease has run out.
func (m *machine) abandonTree(s lifeline.Status) phase {
	m.answerNo(errOver)
	return m.finish(Result{Ending: Unconfirmed, Status: s, Err: errUnconfirmed})
}

// running is the phase in which the command runs. If there is a cause, the command is being ended.
type running struct {
	liveTree
	final bool // another cause came after the first one: no other try follows, even if the first one is the timeout
}

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
	if p.liveTree.due(m) {
		return m.abandonTree(lifeline.Status{})
	}
	return p
}

func (p *running) timeOut(m *machine) {
	p.cause.ending = TimedOut
	name := EventStopping
	if !p.askedToEnd && (m.hasRetries() || m.lease.grant.Tick != m.claim.Tick) { // another start follows, perhaps the one for our own tick
		name = EventTimedOut
	}
	m.info(name, fmt.Sprintf("%s: the command ran longer than %v", stoppingIt, m.request.Timeout))
	p.terminate(m)
}

func (m *machine) hasRetries() bool { return m.tries <= m.request.Retries }

// end keeps the first cause. A later one only means that no other try follows.
func (p running) end(m *machine, s stop) phase {
	if p.cause.ending != 0 {
		p.final = true
		return p
	}
	s.signalled = p.cause.signalled
	p.cause = s.cause
	m.tellStop(stoppingIt, s)
	p.terminate(m)
	return p
}

func (p running) lose(m *machine, how loss) phase {
	p.liveTree.lose(m, stoppingIt, how)
	return p
}

func (p running) pass(m *machine, sig syscall.Signal) phase {
	m.note(sig)
	if lifeline.AsksToEnd(sig) {
		p.cause.signalled = true
		m.tellStop(stoppingIt, stop{why: "received " + sig.String()})
	}
	p.liveTree.pass(m, sig)
	return p
}

// loseGuardian notes that the guardian is lost, so that the wrapper kills the tree itself.
func (p running) loseGuardian(m *machine, err error) phase {
	if p.unguarded {
		return p
	}
	p.unguarded, p.killedAt = true, m.now
	if p.cause.ending != LeaseLost {
		p.cause.ending, p.cause.err = TreeLost, nil
	}
	m.tellLost(err.Error() + ": " + stoppingIt)
	return p
}

// ended settles the outcome of the command. SIGHUP and SIGQUIT to leaderrun count as a stop only if the command died of them: some
// commands use them to reload, or to dump. A command that failed is tried again. A command that was ended together with the run is
// not, and neither is one whose end nobody saw.
func (p running) ended(m *machine, s lifeline.Status) sweeping {
	q := sweeping{liveTree: p.liveTree, status: s}
	ours := m.signal != 0 && s.Signal == m.signal
	if ours && q.cause.ending == 0 {
		q.cause.signalled = true
	}
	failed := s.Known && q.cause.outcome(s).State == backends.Failed
	q.follows = failed && !p.final && m.hasRetries()
	if ours && q.follows { // the signal came after the timeout's SIGTERM
		q.cause, q.follows = cause{signalled: true}, false
	}
	return q
}

// sweeping is the phase between the end of the command and the death of what it left behind. If no other try follows, the outcome
// of the command stands, and only the loss of the lease can still change it.
type sweeping struct {
	liveTree
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
	if p.liveTree.due(m) {
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
	p.liveTree.lose(m, endingRest, how)
	return p
}

// pass passes a signal on. If another try was to follow, the run ends instead, as if that try had died of the signal. If the command
// died of the same signal, leaderrun has only received it a moment later: then the signal ended the run.
func (p sweeping) pass(m *machine, sig syscall.Signal) phase {
	switch {
	case !lifeline.EndsRun(sig):
	case p.follows:
		m.signal = sig
		p.follows, p.cause = false, cause{signalled: true}
		p.status = lifeline.Status{Known: true, Signal: sig}
		m.tellStop(endingRest, stop{why: "received " + sig.String()})
	case p.cause.signalled && sig != p.status.Signal: // another signal ended the run
	default:
		m.signal = sig
		p.cause.signalled = p.cause.signalled || p.cause.ending == 0 && sig == p.status.Signal
	}
	p.liveTree.pass(m, sig)
	return p
}

// loseGuardian notes that the guardian is lost, so that the wrapper kills what the command left behind. The outcome stands.
func (p sweeping) loseGuardian(m *machine, err error) phase {
	if p.unguarded {
		return p
	}
	p.unguarded, p.killedAt, p.follows = true, m.now, false
	m.warn(EventLeftovers, err.Error()+": killing what the command may have left behind")
	return p
}

// dead goes on once the whole tree is confirmed dead. Only then may the command be tried again, or the lease be released.
func (p sweeping) dead(m *machine) phase {
	if !p.follows {
		return m.record(p.cause, p.status)
	}
	m.tellRetry(p.status, p.cause.ending == TimedOut)
	return pausing{status: p.status, until: m.after(m.request.RetryDelay)}
}
