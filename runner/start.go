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

// cannotExecute is the code of a command that could not be started again, where the error has none: the one that a
// shell shows.
const cannotExecute = 126

// starter is a phase before a start: the first one, or that of another try.
type starter interface {
	held
	notReady(m *machine) phase              // the deadline came before all was ready
	notStarted(m *machine, err error) phase // nothing runs
}

// granted is the time before the first start. Where the command does not start, the claim is undone: a tick that nobody
// started is open for others.
type granted struct{}

func (p granted) on(m *machine, in input) phase {
	switch in := in.(type) {
	case unwanted:
		return m.undo(Result{Ending: Interrupted, Err: in.err})
	case idle:
		if p.ready(m) { // time has passed since the machine wanted it
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
	if s.ending == Broken { // as soon as it runs
		return p
	}
	return m.undo(Result{Ending: Interrupted, Err: s.err})
}

func (p granted) lose(m *machine, how loss) phase {
	if how.standing == taken {
		return m.undo(Result{Ending: NotStarted, Err: backends.ErrLost})
	}
	return m.undo(Result{Ending: NotStarted, Err: errNotRenewed})
}

func (p granted) notReady(m *machine) phase {
	return m.undo(Result{Ending: NotStarted, Err: errNotReady})
}

func (p granted) notStarted(m *machine, err error) phase {
	return m.undo(Result{Ending: StartFailed, Err: err})
}

// undo takes the claim of a run back that never started. It names the holder and not the token: an earlier
// request of the same claim may still arrive and be granted another one.
func (m *machine) undo(r Result) phase {
	return m.release(releasing{what: undoing, result: r, end: m.lease.validUntil()})
}

// pausing is the time between two tries. The whole tree of the one before is dead. Whatever ends the run now ends it as if the next
// try had died of it: what is seen and recorded does not hang on which side of the start it came.
type pausing struct {
	status lifeline.Status // of the try before
	until  Instant
}

func (p pausing) on(m *machine, in input) phase {
	if _, ok := in.(idle); ok && p.ready(m) {
		return m.prepare(p)
	}
	return m.onHeld(p, in)
}

// ready holds a try to the same rules as the first one.
func (p pausing) ready(m *machine) bool { return m.now >= p.until && m.fresh() }

func (p pausing) due(m *machine) phase {
	m.keep()
	if m.fresh() { // else a renewal comes first
		m.reached(p.until)
	}
	return p
}

func (p pausing) pass(m *machine, sig syscall.Signal) phase {
	if !m.note(sig) {
		return p
	}
	m.tellStop(notAgain, stop{why: "received " + sig.String()})
	return m.record(cause{signalled: true, final: true}, lifeline.Status{Known: true, Signal: sig})
}

func (p pausing) end(m *machine, s stop) phase {
	m.tellStop(notAgain, s)
	return m.record(s.cause, p.status)
}

func (p pausing) lose(m *machine, how loss) phase {
	m.noteLoss(notAgain, how)
	return m.record(cause{ending: LeaseLost, final: true}, p.status)
}

func (p pausing) notReady(m *machine) phase { return p.lose(m, expired) }

// notStarted ends the run with a try that could not be started. A try before has run, so this is an outcome, to be
// recorded: the tick is not open for others.
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
	return m.record(cause{ending: StartFailed, final: true, err: err}, lifeline.Status{Known: true, Code: code})
}

// preparing makes ready what the command needs, which hangs where a disk does not answer: but never for longer than the command
// may still be started, for the lease is not renewed meanwhile. Whatever else comes means what it meant before.
type preparing struct {
	starter
	// until is the Term that the guardian of the try before knows. The answer to a renewal that was still under way moves the
	// run's own deadline, but is not told to that one, which unlocks at its End what the next run shares with it.
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
	if next := p.starter.on(m, in); next != phase(p.starter) { // it ended the wait: else it returns itself, unchanged
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
	if how.standing == taken {
		return p.starter.lose(m, how)
	}
	return p.notReady(m)
}

// starting waits for the start, which obeys the deadline by itself.
type starting struct{ before starter }

func (p starting) on(m *machine, in input) phase {
	a, ok := in.(startAnswer)
	if !ok {
		return p
	}
	run := running{live: live{started: m.now, killAt: never, killedAt: never}}
	switch {
	case errors.Is(a.err, lifeline.ErrGuardian): // the command may run: it is seen to its end
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
