package runner

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/leaderrun/leaderrun/backends"
)

// renewal is the reply to one renewal.
type renewal struct {
	t0       Instant // read before the request was sent
	number   int     // counts the requests of the holding
	forCheck bool    // it went out because somebody asked, not because it was due
	signal   backends.Signal
	err      error
}

// renews says whether renewing still makes sense.
func (h *holding) renews() bool { return !h.gone && h.clock.Now() < h.valid }

// nextRenewal returns when the lease is renewed next: at a third of its TTL, a little earlier by chance, so
// that many holders do not renew in step.
func (h *holding) nextRenewal() Instant {
	return h.asked.Add(h.plan.renewEvery() - h.jitter(h.plan.renewEvery()/20))
}

// renew sends a renewal when one is due, and a second one beside one that stays silent. Those that checks want go
// out besides: they never stand in for one that is due.
func (h *holding) renew(ctx context.Context) {
	if !h.renews() {
		return
	}
	now := h.clock.Now()
	switch {
	case h.inFlight == 0 && now >= h.renewAt:
		h.hedgeAt = now.Add(h.plan.hedge())
		h.inFlight++
		h.send(ctx, now, false)
	case h.inFlight == 1 && h.hedgeAt != 0 && now >= h.hedgeAt:
		h.hedgeAt = 0
		h.inFlight++
		h.send(ctx, now, false)
	case now >= h.checkDueAt():
		h.answering++
		h.send(ctx, now, true)
	}
}

// send makes one request, which may take a sixth of the TTL, on a connection of its own.
func (h *holding) send(ctx context.Context, t0 Instant, forCheck bool) {
	h.sent++
	h.sentAt = t0
	reply := renewal{t0: t0, number: h.sent, forCheck: forCheck}
	grant := h.grant
	limit := min(h.plan.attempt(), h.valid.Sub(t0))
	h.beside(func() {
		ctx, cancel := context.WithTimeout(ctx, limit)
		defer cancel()
		reply.signal, reply.err = h.r.Driver.Renew(ctx, grant)
		h.replies <- reply
	})
}

// renewed takes the reply to a renewal. Validity counts from when the request was sent, and only moves
// forward; a reply after the lease ran out proves nothing.
func (h *holding) renewed(reply renewal) {
	now := h.clock.Now()
	if reply.forCheck {
		h.answering--
	} else {
		h.inFlight--
	}
	switch {
	case errors.Is(reply.err, backends.ErrLost):
		h.takeLoss()
	case reply.t0 < h.asked: // one sent later was answered: this one has nothing to say
	case reply.err != nil:
		h.renewalFailed(reply, now)
	case now >= h.valid:
		h.loss = fmt.Errorf("the reply came %v after the lease ran out", brief(now.Sub(h.valid)))
	default:
		h.prolong(reply, now)
		h.answer(reply.number)
	}
}

// renewalFailed plans the next renewal after one without an answer. The failure of one that was not due only makes
// the next one earlier.
func (h *holding) renewalFailed(reply renewal, now Instant) {
	h.loss = reply.err
	if reply.forCheck {
		h.renewAt = min(h.renewAt, now.Add(h.pause(h.failures+1)))
	} else {
		h.failures++
		h.renewAt = now.Add(h.pause(h.failures))
	}
	h.emit(slog.LevelInfo, EventRenewFail, fmt.Sprintf("a renewal failed: %v", reply.err))
}

func (h *holding) prolong(reply renewal, now Instant) {
	h.failures, h.loss = 0, nil
	if reply.t0 > h.asked {
		left := h.valid.Sub(now)
		h.asked = reply.t0
		deadline := h.plan.Deadline(h.asked)
		h.valid = deadline.End
		if !h.termed {
			h.deadline = deadline
			h.tree.Extend(deadline)
		}
		h.renewAt = h.nextRenewal()
		if h.asked < h.newsAt { // it was sent before there was something to see
			h.lookSoon()
		}
		h.report(Event{
			Name: EventRenewed, Level: slog.LevelDebug, Text: "lease renewed", Took: now.Sub(reply.t0), Left: left,
		})
	}
	if b := reply.signal.Break; b != nil {
		h.breakOff(b)
	}
}

// breakOff ends the run because an operator wants that.
func (h *holding) breakOff(b *backends.BreakRequest) {
	if h.cause != 0 || h.settled() {
		h.final = true
		return
	}
	h.stop(Broken, "it was broken"+withReason(b.Reason))
	h.emit(slog.LevelError, EventLost, "the run was broken from "+HolderText(b.By)+withReason(b.Reason))
}

// takeLoss acts on the store's word that the lease is not ours: somebody else may already have it.
func (h *holding) takeLoss() {
	if h.gone {
		return
	}
	h.gone = true
	h.lose("the lease is not ours any more", nil, backends.ErrLost)
	h.kill()
}

// watchAfter is how old a run gets before it watches its own lease: most are over before anybody takes it away.
const watchAfter = time.Second

func withReason(reason string) string {
	if reason == "" {
		return ""
	}
	return ": " + reason
}

// watchOver opens a watch on our own lease, so that a loss is known before the next renewal.
func (h *holding) watchOver(ctx context.Context) {
	if h.watchAt != 0 && h.clock.Now() >= h.watchAt {
		h.watchAt = 0
		h.news = h.watch(ctx)
	}
}

// hear acts on news of our own lease. Only a renewal tells what it means.
func (h *holding) hear(n backends.News, open bool) {
	switch {
	case !open: // broken: the renewals see what it would have told
		h.news, h.watchAt = nil, h.clock.Now().Add(h.plan.renewEvery())
	case n.Look:
		h.newsAt = h.clock.Now()
		h.lookSoon()
	}
}

// lookSoon makes the next renewal go out at once, or a moment after the last one.
func (h *holding) lookSoon() { h.renewAt = min(h.renewAt, h.sentAt.Add(minLook)) }
