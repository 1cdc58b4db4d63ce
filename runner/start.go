package runner

import (
	"errors"
	"syscall"

	"github.com/leaderrun/leaderrun/backends"
	"github.com/leaderrun/leaderrun/internal/lifeline"
)

// Why a command was not started.
var (
	errNotRenewed = errors.New("the lease could not be renewed before the command started")
	errNotReady   = errors.New("the lease ran out before all was ready to start the command")
)

// cannotExecute is the exit code of a command that could not be started again, if the error has none. A shell shows the same.
const cannotExecute = 126

// starter is a phase before a start of the command: granted before the first try, pausing before another one.
type starter interface {
	held
	notReady(m *machine) phase              // Term came before the command could be started
	notStarted(m *machine, err error) phase // nothing runs
}

// granted is the phase before the first start. If the command does not start, the claim is taken back, so that others can have the
// tick.
type granted struct{}

func (p granted) on(m *machine, in input) phase {
	switch in := in.(type) {
	case unwanted:
		return m.undo(Result{Ending: Interrupted, Err: in.err})
	case idle:
		if p.ready(m) { // time has passed since the machine asked for idle
			return m.prepare(p)
		}
	}
	return m.onHeld(p, in)
}

func (p granted) ready(m *machine) bool { return m.fresh() }

func (p granted) due(m *machine) phase {
	m.keep()
	return p
}

func (p granted) pass(m *machine, sig syscall.Signal) phase {
	if m.note(sig) {
		return m.undo(Result{Ending: Interrupted})
	}
	return p
}

func (p granted) end(m *machine, s stop) phase {
	if s.ending == Broken { // the next renewal says so again, and by then the command runs and can be ended
		return p
	}
	return m.undo(Result{Ending: Interrupted, Err: s.err})
}

func (p granted) lose(m *machine, how loss) phase {
	if how.owner == taken {
		return m.undo(Result{Ending: NotStarted, Err: backends.ErrLost})
	}
	return m.undo(Result{Ending: NotStarted, Err: errNotRenewed})
}

func (p granted) notReady(m *machine) phase {
	return m.undo(Result{Ending: NotStarted, Err: errNotReady})
}

func (p granted) notStarted(m *machine, err error) phase {
	if m.now >= m.lease.deadline.Term { // it was too late for it: that says nothing of the command
		return m.undo(Result{Ending: NotStarted, Err: err})
	}
	return m.undo(Result{Ending: StartFailed, Err: err})
}

// undo takes back the claim of a run that never started. It names the holder and not the token, because an earlier
// request of the same claim may still arrive and be granted another token.
func (m *machine) undo(r Result) phase {
	return m.release(releasing{what: undoing, result: r, end: m.lease.validUntil()})
}

// pausing is the phase between two tries. The whole tree of the last try is dead. If something ends the run now, it ends as if the next
// try had died of it: the result must not depend on whether that came just before or just after the next start.
type pausing struct {
	status lifeline.Status // of the last try
	until  Instant
}

func (p pausing) on(m *machine, in input) phase {
	if _, ok := in.(idle); ok && p.ready(m) {
		return m.prepare(p)
	}
	return m.onHeld(p, in)
}

// ready applies the rules of the first start to the next one, too.
func (p pausing) ready(m *machine) bool { return m.now >= p.until && m.fresh() }

func (p pausing) due(m *machine) phase {
	m.keep()
	if m.fresh() { // otherwise a renewal comes first
		m.reached(p.until)
	}
	return p
}

func (p pausing) pass(m *machine, sig syscall.Signal) phase {
	if !m.note(sig) {
		return p
	}
	m.tellStop(notAgain, stop{why: "received " + sig.String()})
	return m.record(cause{signalled: true}, lifeline.Status{Known: true, Signal: sig})
}

func (p pausing) end(m *machine, s stop) phase {
	m.tellStop(notAgain, s)
	return m.record(s.cause, p.status)
}

func (p pausing) lose(m *machine, how loss) phase {
	m.noteLoss(notAgain, how)
	return m.record(cause{ending: LeaseLost}, p.status)
}

func (p pausing) notReady(m *machine) phase { return p.lose(m, expired) }

// notStarted ends the run because another try could not be started. An earlier try has run, so this is an outcome and is
// recorded. Others cannot have the tick.
func (p pausing) notStarted(m *machine, err error) phase {
	if m.now >= m.lease.deadline.Term { // it was too late for it
		return p.lose(m, expired)
	}
	code := cannotExecute
	if e, ok := errors.AsType[interface {
		error
		ExitCode() int
	}](err); ok {
		code = e.ExitCode()
	}
	return m.record(cause{ending: StartFailed, err: err}, lifeline.Status{Known: true, Code: code})
}

// preparing waits until the command can be started. That can hang on a disk, but the phase ends at Term in any case, because the lease
// is not renewed meanwhile. Every other input means the same as in the phase before.
type preparing struct {
	starter
	// until is the Term that the guardian of the last try knows. If a renewal that was under way is answered now, the machine's own
	// deadline moves, but that guardian does not hear of it. At its End it would unlock the locks that the next try shares with it.
	until Instant
	done  bool
}

func (m *machine) prepare(p starter) phase {
	m.do(doPrepare{m.lease.grant})
	return preparing{starter: p, until: m.lease.deadline.Term}
}

func (p preparing) on(m *machine, in input) phase {
	switch in.(type) {
	case prepared:
		p.done = true
		return p
	case idle:
		m.tries++
		m.do(doStart{m.lease.grant.Hold, m.lease.grant.Inherit, m.lease.deadline})
		return starting{p.starter}
	}
	if next := p.starter.on(m, in); next != phase(p.starter) { // it ended the wait; otherwise it returns itself, unchanged
		return next
	}
	return p
}

func (p preparing) ready(*machine) bool { return p.done }

func (p preparing) due(m *machine) phase {
	m.answerLate()
	if m.reached(p.until) {
		return p.notReady(m)
	}
	return p
}

func (p preparing) lose(m *machine, how loss) phase {
	if how.owner == taken {
		return p.starter.lose(m, how)
	}
	return p.notReady(m)
}

// starting waits until the command has started or failed to. Tree.Start itself obeys the deadline.
type starting struct{ before starter }

func (p starting) on(m *machine, in input) phase {
	a, ok := in.(startAnswer)
	if !ok {
		return p
	}
	run := running{liveTree: liveTree{started: m.now, killAt: never, killedAt: never}}
	switch {
	case errors.Is(a.err, lifeline.ErrGuardian): // the command may run, so the machine waits until it is dead
		return run.loseGuardian(m, a.err)
	case a.err != nil:
		return p.before.notStarted(m, a.err)
	}
	m.tellStarted()
	if m.tries == 1 && m.watches {
		m.lease.watchAt = m.after(watchAfter)
	}
	return run
}
