package runner

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"syscall"
	"time"

	"github.com/leaderrun/leaderrun/backends"
	"github.com/leaderrun/leaderrun/internal/lifeline"
)

// holding is the state of a running command under its lease. One goroutine owns it.
type holding struct {
	*attempt
	valid    Instant  // the lease is ours until then; only moves forward
	deadline Deadline // what the tree obeys; frozen once the run is being stopped for want of renewal
	started  Instant

	renewAt  Instant // when the next renewal goes out
	hedgeAt  Instant // when a second one goes out beside a silent one
	sentAt   Instant // when the last one went out
	inFlight int
	failures int // in a row
	replies  chan renewal

	watchAt Instant // when a watch on our own lease is opened; 0: not any more
	news    <-chan backends.News
	newsAt  Instant // when it told us to look

	cause   Ending  // why the run is being stopped; 0: it is not
	gone    bool    // the store said that the lease is not ours
	termed  bool    // SIGTERM was sent for want of renewal
	killed  Instant // when the tree was killed; 0: it was not
	killAt  Instant // the end of --kill-after; 0: none
	asks    int     // SIGTERM and SIGINT received
	dead    bool    // the whole tree is confirmed dead
	status  lifeline.Status
	loss    error // why renewals fail
	cancels <-chan struct{}
}

// watchAfter is how old a run gets before it watches its own lease: most are over before anybody takes it away.
const watchAfter = time.Second

// renewal is the reply to one renewal.
type renewal struct {
	t0     Instant // read before the request was sent
	signal backends.Signal
	err    error
}

// hold keeps the lease while the command runs. It returns when the whole tree is confirmed dead, or cannot be
// while the lease has run out.
func (a *attempt) hold(ctx context.Context) *holding {
	now := a.clock.Now()
	h := &holding{
		attempt: a, deadline: a.plan.Deadline(a.asked), started: now,
		replies: make(chan renewal, 16), cancels: ctx.Done(),
	}
	h.valid = h.deadline.End
	h.sentAt = h.asked
	h.renewAt = h.nextRenewal()
	if a.r.Driver.Limits().TellsLoss {
		h.watchAt = now.Add(watchAfter)
	}
	if a.guardianLost {
		h.observe(lifeline.Event{Kind: lifeline.GuardianLost}, true)
	}
	requests, cancel := context.WithCancel(context.WithoutCancel(ctx))
	defer cancel()
	for !h.dead && !h.hopeless() {
		h.obey()
		h.watchOver(requests)
		h.renew(requests)
		h.timer.Set(h.wakeAt())
		select {
		case <-h.timer.C():
		case reply := <-h.replies:
			h.obey() // what is due comes before what would put it off
			h.renewed(reply)
		case n, open := <-h.news:
			h.hear(n, open)
		case event, open := <-h.tree.Events():
			h.observe(event, open)
		case s := <-h.req.Signals:
			h.forward(s)
		case <-h.cancels:
			h.cancels = nil
			h.stop(Ran, "shutting down")
		}
	}
	return h
}

// obey acts on what is due. It comes first in every turn: after a suspend or a stop of this process, the
// deadline is looked at before anything else.
func (h *holding) obey() {
	now := h.clock.Now()
	if t := h.req.Timeout; t > 0 && h.cause == 0 && now >= h.started.Add(t) {
		h.stop(TimedOut, fmt.Sprintf("the command ran longer than %v", t))
	}
	if now >= h.deadline.Term && !h.termed {
		h.expire()
		h.tree.Terminate()
	}
	if h.killed == 0 && (now >= h.deadline.Kill || (h.killAt != 0 && now >= h.killAt)) {
		h.kill()
	}
}

// expire notes that the run is told to end because its lease could not be renewed.
func (h *holding) expire() {
	if !h.termed {
		h.termed = true
		h.lose("the lease could not be renewed in time", h.loss)
	}
}

// lose notes that the run ends because its lease does.
func (h *holding) lose(what string, err error) {
	h.cause = LeaseLost
	text := what + ": stopping the command"
	if err != nil {
		text = fmt.Sprintf("%s: stopping the command: %v", what, err)
	}
	h.emit(slog.LevelError, EventLost, text)
}

func (h *holding) kill() {
	h.killed = h.clock.Now()
	h.tree.Kill()
}

// stop asks the command to end, for a reason that leaves the lease ours.
func (h *holding) stop(cause Ending, why string) {
	if h.cause != 0 {
		return
	}
	h.cause = cause
	h.emit(slog.LevelInfo, EventStopping, "stopping the command: "+why)
	h.tree.Signal(syscall.SIGTERM)
	h.armKill()
}

// armKill starts the time between a SIGTERM and the SIGKILL that --kill-after asked for.
func (h *holding) armKill() {
	if h.req.KillAfter > 0 && h.killAt == 0 {
		h.killAt = h.clock.Now().Add(h.req.KillAfter)
	}
}

// hopeless says that the tree was killed, cannot be confirmed dead, and that the lease has run out: there is
// nothing left to wait for.
func (h *holding) hopeless() bool {
	return h.killed != 0 && h.clock.Now() >= h.hopelessAt()
}

func (h *holding) hopelessAt() Instant { return max(h.valid, h.killed).Add(killBudget) }

// wakeAt returns the next instant at which something is due.
func (h *holding) wakeAt() Instant {
	var timeout, term, kill, hopeless, renew Instant
	if h.req.Timeout > 0 && h.cause == 0 {
		timeout = h.started.Add(h.req.Timeout)
	}
	if !h.termed {
		term = h.deadline.Term
	}
	if h.killed != 0 {
		hopeless = h.hopelessAt()
	} else {
		kill = earliest(h.deadline.Kill, h.killAt)
	}
	if h.renews() {
		renew = h.renewAt
		if h.inFlight > 0 {
			renew = h.hedgeAt
		}
	}
	return earliest(timeout, term, kill, hopeless, renew, h.watchAt)
}

// renews says whether renewing still makes sense.
func (h *holding) renews() bool { return !h.gone && h.clock.Now() < h.valid }

// nextRenewal returns when the lease is renewed next: at a third of its TTL, a little earlier by chance, so
// that many holders do not renew in step.
func (h *holding) nextRenewal() Instant {
	return h.asked.Add(h.plan.renewEvery() - h.jitter(h.plan.renewEvery()/20))
}

// renew sends a renewal when one is due, and a second one beside one that stays silent. Each may take a sixth
// of the TTL, on a connection of its own.
func (h *holding) renew(ctx context.Context) {
	now := h.clock.Now()
	due := (h.inFlight == 0 && now >= h.renewAt) || (h.inFlight == 1 && h.hedgeAt != 0 && now >= h.hedgeAt)
	if !due || !h.renews() {
		return
	}
	h.inFlight++
	h.sentAt = now
	h.hedgeAt = 0
	if h.inFlight == 1 {
		h.hedgeAt = now.Add(h.plan.hedge())
	}
	grant := h.grant
	limit := min(h.plan.attempt(), h.valid.Sub(now))
	go func() {
		ctx, cancel := context.WithTimeout(ctx, limit)
		defer cancel()
		signal, err := h.r.Driver.Renew(ctx, grant)
		h.replies <- renewal{t0: now, signal: signal, err: err}
	}()
}

// renewed takes the reply to a renewal. Validity counts from when the request was sent, and only moves
// forward; a reply after the lease ran out proves nothing.
func (h *holding) renewed(reply renewal) {
	now := h.clock.Now()
	h.inFlight--
	switch {
	case errors.Is(reply.err, backends.ErrLost):
		h.takeLoss()
	case reply.t0 < h.asked: // one sent later was answered: this one has nothing to say
	case reply.err != nil:
		h.failures++
		h.loss = reply.err
		h.renewAt = now.Add(h.pause(h.failures))
		h.emit(slog.LevelInfo, EventRenewFail, fmt.Sprintf("a renewal failed: %v", reply.err))
	case now >= h.valid:
		h.loss = fmt.Errorf("the reply came %v after the lease ran out", brief(now.Sub(h.valid)))
	default:
		h.prolong(reply)
	}
}

func (h *holding) prolong(reply renewal) {
	h.failures, h.loss = 0, nil
	if reply.t0 > h.asked {
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
		h.emit(slog.LevelDebug, EventRenewed, "lease renewed")
	}
	if b := reply.signal.Break; b != nil && h.cause == 0 {
		h.stop(Broken, "an operator asks for it: "+b.Reason)
		h.emit(slog.LevelError, EventLost, "the run was ended by an operator on "+HolderText(b.By)+": "+b.Reason)
	}
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

// takeLoss acts on the store's word that the lease is not ours: somebody else may already have it.
func (h *holding) takeLoss() {
	if h.gone {
		return
	}
	h.gone = true
	h.lose("the lease is not ours any more", nil)
	h.kill()
}

// observe takes a report about the tree.
func (h *holding) observe(e lifeline.Event, open bool) {
	if !open {
		h.dead = true
		return
	}
	switch e.Kind {
	case lifeline.Terminated: // by the guardian, on its own clock: that cannot be taken back
		h.expire()
	case lifeline.Exited:
		h.status = e.Status
		h.emit(slog.LevelInfo, EventExited, fmt.Sprintf("command ended with code %d", e.Status.ExitCode()),
			slog.Int("code", e.Status.ExitCode()))
	case lifeline.Leftovers:
		h.emit(slog.LevelWarn, EventLeftovers,
			fmt.Sprintf("the command left %d process(es) behind, which are being ended", e.Count), slog.Int("count", e.Count))
	case lifeline.GuardianLost:
		if h.cause == TreeLost {
			return // told already
		}
		if h.cause != LeaseLost {
			h.cause = TreeLost
		}
		h.killed = h.clock.Now() // the wrapper's own sweep is under way
		h.emit(slog.LevelError, EventLost, "the guardian of the run died: stopping the command")
	case lifeline.Unconfirmed:
		if h.killed == 0 { // the guardian did
			h.killed = h.clock.Now()
		}
		h.emit(slog.LevelWarn, EventUndead,
			fmt.Sprintf("%d process(es) of the command survive SIGKILL; the lease is kept while the backend answers", e.Count))
	case lifeline.Dead:
		h.dead = true
		if e.Status.Known {
			h.status = e.Status
		}
	}
}

// forward passes a signal on to the command. A second SIGTERM or SIGINT kills.
func (h *holding) forward(s os.Signal) {
	sig, ok := s.(syscall.Signal)
	if !ok {
		return
	}
	h.ends(s)
	if sig == syscall.SIGTERM || sig == syscall.SIGINT { // the others may mean a reload, or a dump
		h.armKill()
		h.emit(slog.LevelInfo, EventStopping, "stopping the command: received "+sig.String())
		h.asks++
		if h.asks > 1 && h.killed == 0 {
			h.kill()
			return
		}
	}
	h.tree.Signal(sig)
}
