package runner

import (
	"cmp"
	"errors"
	"fmt"
	"log/slog"

	"github.com/leaderrun/leaderrun/backends"
	"github.com/leaderrun/leaderrun/internal/lifeline"
)

// errUnconfirmed is why nothing was released.
var errUnconfirmed = errors.New("processes of the command survive SIGKILL, and the lease has run out")

// releaseKind is what the machine has to tell the store.
type releaseKind int

const (
	recording  releaseKind = iota // how the run ended
	undoing                       // that the command never started
	withdrawal                    // that a claim is not wanted any more. It is sent once: a lease that nobody renews runs out by itself
)

// releasing tells the store that the attempt has ended. It sends the request at least once, and repeats it until the lease's validity
// is over. If the command was started, this phase begins only once the tree is confirmed dead.
type releasing struct {
	what      releaseKind
	outcome   backends.Outcome // of a recording
	result    Result           // of the attempt, if all goes well
	end       Instant          // no request is repeated after it; a withdrawal is never repeated
	failures  int
	failure   error   // why the last request failed
	again     Instant // when the next one goes out; never: one is under way
	impatient bool    // SIGTERM or SIGINT came: there is no third request
}

// record has the store record how the run ended, and release the lease.
func (m *machine) record(c cause, s lifeline.Status) phase {
	r := Result{Ending: c.ending, Status: s, Err: c.err}
	switch c.ending {
	case 0:
		r.Ending = Ran
	case LeaseLost:
		r.Err = m.lease.failure
	}
	return m.release(releasing{what: recording, outcome: c.outcome(s), result: r, end: m.lease.validUntil()})
}

func (m *machine) release(p releasing) phase {
	m.answerNo(errOver)
	m.do(doHangUp{})
	return p.send(m)
}

// send sends one request. No signal interrupts it, because no command is left to stop.
func (p releasing) send(m *machine) phase {
	p.again = never
	limit := m.lease.timeline.requestLimit()
	if p.what == withdrawal {
		limit = min(m.request.Timeline.requestLimit(), withdrawalTime)
	} else if left := p.end.Sub(m.now); left > 0 {
		limit = min(limit, left)
	}
	if p.what == recording {
		m.do(doFinish{m.lease.grant, p.outcome, m.after(limit)})
	} else {
		m.do(doAbandon{m.claim, m.after(limit)})
	}
	return p
}

func (p releasing) on(m *machine, in input) phase {
	switch in := in.(type) {
	case releaseAnswer:
		return p.answered(m, in.err)
	case signal:
		if lifeline.AsksToEnd(in.sig) {
			p.impatient = true
			if p.again != never {
				return p.conclude(m, p.failure)
			}
		}
	case question:
		m.do(doAnswer{number: in.number, err: errOver})
	}
	return p
}

func (p releasing) due(m *machine) phase {
	if m.reached(p.again) {
		return p.send(m)
	}
	return p
}

func (p releasing) answered(m *machine, err error) phase {
	if err == nil || errors.Is(err, backends.ErrLost) || p.what == withdrawal {
		return p.conclude(m, err)
	}
	p.failures++
	p.failure = err
	if remedyOf(err) == "" {
		p.failure = fmt.Errorf("the backend does not answer: %w", err)
	}
	p.again = m.after(m.pause(p.failures))
	if p.again >= p.end || p.impatient && p.failures > 1 {
		return p.conclude(m, p.failure)
	}
	return p
}

// conclude ends the attempt. ErrLost means that somebody else was granted the job since. With any other error nobody knows whether
// the store has recorded the end.
func (p releasing) conclude(m *machine, err error) phase {
	r := p.result
	switch {
	case p.what == withdrawal, p.what == undoing && err == nil:
	case p.what == undoing:
		m.warn(EventReleased, fmt.Sprintf("the lease could not be released and runs out by itself: %v", err))
	case err == nil:
		m.info(EventReleased, "lease released: "+string(p.outcome.State))
	case r.Ending == LeaseLost, r.Ending == Broken: // the user was told already
	case m.claim.Given():
		r.Ending, r.Err = Unrecorded, err
	default:
		m.tell(Event{
			Name: EventReleased, Level: slog.LevelWarn,
			Text: fmt.Sprintf("the end of the run could not be recorded: %v", err),
			Hint: cmp.Or(remedyOf(err), "the lease runs out by itself; until then the job does not start again"),
		})
	}
	return m.finish(r)
}

// remedyOf is what can be done about a failure that may pass, where the store knows; "": it does not.
func remedyOf(err error) string {
	if e, ok := errors.AsType[interface {
		error
		Remedy() string
	}](err); ok {
		return e.Remedy()
	}
	return ""
}
