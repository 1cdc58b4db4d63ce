package runner

import (
	"errors"
	"fmt"

	"github.com/leaderrun/leaderrun/backends"
)

// Why a run does not lead.
var (
	errNotHeld = errors.New("the lease is not acquired yet")
	errOver    = errors.New("the run is over")
	errGivenUp = errors.New("the lease could not be renewed in time and the run is being stopped")
)

// maxAnswering is how many renewals may be in flight because somebody asked: one, and one beside it when it is silent.
const maxAnswering = 2

// question is a check that waits for its answer.
type question struct {
	Check
	sent  int     // how many renewals had been sent when it arrived: only a later one answers it
	until Instant // then it is answered with a no
}

// inquire takes a check.
func (h *holding) inquire(c Check, open bool) {
	if !open {
		h.checks = nil
		return
	}
	now := h.clock.Now()
	switch {
	case h.gone:
		c.tell(Standing{Err: backends.ErrLost})
	case h.cause == LeaseLost, now >= h.valid:
		c.tell(Standing{Err: errGivenUp})
	default:
		h.questions = append(h.questions, question{Check: c, sent: h.sent, until: now.Add(h.plan.attempt())})
	}
}

// checkDueAt returns when a renewal goes out because of the checks: as soon as one waits for which none was sent, but
// a moment after the last one, so that any number of checks share a few; and again when that one stays silent.
func (h *holding) checkDueAt() Instant {
	if len(h.questions) == 0 || h.answering >= maxAnswering {
		return never
	}
	if h.questions[len(h.questions)-1].sent == h.sent {
		return h.sentAt.Add(minLook)
	}
	return h.sentAt.Add(h.plan.hedge())
}

// checkWakeAt returns the next instant at which something is due for the checks.
func (h *holding) checkWakeAt() Instant {
	if len(h.questions) == 0 {
		return never
	}
	at := h.questions[0].until
	if h.renews() {
		at = min(at, h.checkDueAt())
	}
	return at
}

// answer says yes to the checks that had arrived before the renewal of that number was sent.
func (h *holding) answer(number int) {
	left := h.valid.Sub(h.clock.Now())
	if left <= 0 { // this process was stopped since the reply arrived
		return
	}
	n := 0
	for n < len(h.questions) && h.questions[n].sent < number {
		h.questions[n].tell(Standing{Leading: true, Left: left})
		n++
	}
	h.questions = h.questions[n:]
}

// answerLate says no to the checks that have waited long enough.
func (h *holding) answerLate(now Instant) {
	for len(h.questions) > 0 && now >= h.questions[0].until {
		err := fmt.Errorf("the backend did not answer within %v", brief(h.plan.attempt()))
		if h.loss != nil {
			err = fmt.Errorf("%w: %w", err, h.loss)
		}
		h.questions[0].tell(Standing{Err: err})
		h.questions = h.questions[1:]
	}
}

// answerAll says no to all checks.
func (h *holding) answerAll(err error) {
	for _, q := range h.questions {
		q.tell(Standing{Err: err})
	}
	h.questions = nil
}

// tell answers a check. Who asks has made room.
func (c Check) tell(s Standing) {
	select {
	case c.Answer <- s:
	default:
	}
}

// declineChecks says no to every check while there is nothing to ask about, so that nobody who asks is left waiting.
// The function it returns ends that.
func (a *attempt) declineChecks(err error) (stop func()) {
	if a.req.Checks == nil {
		return func() {}
	}
	done, ended := make(chan struct{}), make(chan struct{})
	a.beside(func() {
		defer close(ended)
		for checks := a.req.Checks; ; {
			select {
			case c, open := <-checks:
				if !open {
					checks = nil
					continue
				}
				c.tell(Standing{Err: err})
			case <-done:
				return
			}
		}
	})
	return func() {
		close(done)
		<-ended
	}
}
