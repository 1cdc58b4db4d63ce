package runner

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"syscall"

	"github.com/leaderrun/leaderrun/backends"
	"github.com/leaderrun/leaderrun/internal/lifeline"
)

// holding is the state of a lease that is held over the tries of a command. One goroutine owns it.
type holding struct {
	*attempt
	try               // the one that runs, or ran last
	valid    Instant  // the lease is ours until then; only moves forward
	deadline Deadline // what the tree obeys; frozen once the run is being stopped for want of renewal

	renewAt  Instant // when the next renewal goes out
	hedgeAt  Instant // when a second one goes out beside a silent one
	sentAt   Instant // when the last one went out
	sent     int     // how many went out
	inFlight int     // of those that are due
	failures int     // in a row
	replies  chan renewal

	watchAt Instant // when a watch on our own lease is opened; 0: not any more
	news    <-chan backends.News
	newsAt  Instant // when it told us to look

	checks    <-chan Check
	questions []question // checks that have no answer yet
	answering int        // renewals in flight that went out for them

	tries   int     // how often the command was started
	retryAt Instant // when it is started again, once it is dead; 0: it is not

	cause     Ending // why the run is being stopped; 0: it is not
	final     bool   // whatever becomes of this try, there is no other
	gone      bool   // the store said that the lease is not ours
	unguarded bool   // the guardian was lost, and that was told
	termed    bool   // the run was told to end for want of renewal
	asks      int    // SIGTERM and SIGINT received
	stopping  bool   // the run ends by a signal to leaderrun
	loss      error  // why renewals fail
	startErr  error  // why the command could not be started again
	ended     error  // why our caller stopped it
	cancels   <-chan struct{}
	why       func() error // the cause of the cancel
}

// try is one start of the command.
type try struct {
	started  Instant
	killed   Instant // when the tree was killed; 0: it was not
	killAt   Instant // the end of --kill-after; 0: none
	overtime bool    // the timeout ended it, and another try was to follow
	dead     bool    // the whole tree is confirmed dead
	status   lifeline.Status
}

// hold keeps the lease while the command runs, and between its tries. It returns when the whole tree is confirmed
// dead and not to be tried again, or cannot be confirmed while the lease has run out.
func (a *attempt) hold(ctx context.Context) *holding {
	now := a.clock.Now()
	h := &holding{
		attempt: a, try: try{started: now}, tries: 1, deadline: a.plan.Deadline(a.asked),
		replies: make(chan renewal, 16), checks: a.req.Checks,
		cancels: ctx.Done(), why: func() error { return context.Cause(ctx) },
	}
	h.valid = h.deadline.End
	h.sentAt = h.asked
	h.renewAt = h.nextRenewal()
	if a.r.Driver.Limits().HolderWatches {
		h.watchAt = now.Add(watchAfter)
	}
	if a.guardianLost != nil {
		h.observe(lifeline.Event{Kind: lifeline.GuardianLost, Err: a.guardianLost}, true)
	}
	requests, cancel := context.WithCancel(context.WithoutCancel(ctx))
	defer cancel()
	for !h.over() {
		h.obey()
		h.retry()
		if h.over() { // the pause between two tries has ended for good
			break
		}
		h.watchOver(requests)
		h.renew(requests)
		h.timer.Set(h.wakeAt())
		h.turn()
	}
	h.answerAll(errOver)
	return h
}

// turn waits for one thing to happen.
func (h *holding) turn() {
	select {
	case <-h.timer.C():
	case reply := <-h.replies:
		h.obey() // what is due comes before what would put it off
		h.renewed(reply)
	case n, open := <-h.news:
		h.hear(n, open)
	case event, open := <-h.events():
		h.observe(event, open)
	case check, open := <-h.checks:
		h.inquire(check, open)
	case s := <-h.req.Signals:
		h.forward(s)
	case <-h.cancels:
		h.shutDown()
	case p := <-h.panics:
		panic(p)
	}
}

// obey acts on what is due. It comes first in every turn: after a suspend or a stop of this process, the
// deadline is looked at before anything else.
func (h *holding) obey() {
	now := h.clock.Now()
	if t := h.req.Timeout; t > 0 && h.cause == 0 && !h.status.Known && now >= h.started.Add(t) {
		h.stop(TimedOut, fmt.Sprintf("the command ran longer than %v", t))
	}
	if now >= h.deadline.Term && !h.termed {
		h.expire()
		if !h.dead {
			h.tree.Terminate()
		}
	}
	if h.killed == 0 && (now >= h.deadline.Kill || (h.killAt != 0 && now >= h.killAt)) {
		h.kill()
	}
	h.answerLate(now)
}

// expire notes that the run is told to end because its lease could not be renewed.
func (h *holding) expire() {
	if !h.termed {
		h.termed = true
		h.lose("the lease could not be renewed in time", h.loss, errGivenUp)
	}
}

// lose notes that the run ends because its lease does, and tells who asks.
func (h *holding) lose(what string, err, answer error) {
	h.cause = LeaseLost
	text := what + ": " + h.consequence()
	if err != nil {
		text = fmt.Sprintf("%s: %v", text, err)
	}
	h.emit(slog.LevelError, EventLost, text)
	h.answerAll(answer)
}

// consequence is what follows for the command when the run is to end.
func (h *holding) consequence() string {
	switch {
	case h.dead:
		return "not trying the command again"
	case h.status.Known:
		return "ending what the command left behind"
	}
	return "stopping the command"
}

// kill ends the tree now. In the pause between two tries there is nothing left to kill.
func (h *holding) kill() {
	if h.dead {
		return
	}
	h.killed = h.clock.Now()
	h.tree.Kill()
}

// stop asks the command to end, for a reason that leaves the lease ours.
func (h *holding) stop(cause Ending, why string) {
	settled := h.settled()
	h.final = h.final || cause != TimedOut
	if h.cause != 0 || settled {
		return
	}
	h.cause = cause
	name := EventStopping
	if cause == TimedOut && h.isNotLast() {
		name = EventTimedOut
	}
	h.emit(slog.LevelInfo, name, h.consequence()+": "+why)
	if !h.dead {
		h.tree.Signal(syscall.SIGTERM)
		h.armKill()
	}
}

// shutDown stops the command because our caller wants that.
func (h *holding) shutDown() {
	h.cancels = nil
	why := h.why()
	if !h.settled() {
		h.ended = why
	}
	h.stop(Ran, why.Error())
}

// armKill starts the time between a SIGTERM and the SIGKILL that --kill-after asked for.
func (h *holding) armKill() {
	if h.req.KillAfter > 0 && h.killAt == 0 {
		h.killAt = h.clock.Now().Add(h.req.KillAfter)
	}
}

// over says that there is nothing left to do under the lease: the tree is dead and is not to be tried again, or
// was killed and cannot be confirmed dead while the lease has run out.
func (h *holding) over() bool {
	if h.dead {
		return !h.triesAgain()
	}
	return h.killed != 0 && h.clock.Now() >= h.hopelessAt()
}

func (h *holding) hopelessAt() Instant { return max(h.valid, h.killed).Add(killBudget) }

// wakeAt returns the next instant at which something is due.
func (h *holding) wakeAt() Instant {
	var term, renew Instant
	if !h.termed {
		term = h.deadline.Term
	}
	if h.renews() {
		renew = h.renewAt
		if h.inFlight > 0 {
			renew = h.hedgeAt
		}
	}
	return earliest(term, renew, h.tryWakeAt(), h.watchAt, h.checkWakeAt())
}

// tryWakeAt returns the next instant at which something is due of the command that runs, or of the next try.
func (h *holding) tryWakeAt() Instant {
	var timeout, kill Instant
	if h.dead {
		if !h.fresh() { // a renewal comes first
			return never
		}
		return earliest(h.retryAt)
	}
	if h.req.Timeout > 0 && h.cause == 0 && !h.status.Known {
		timeout = h.started.Add(h.req.Timeout)
	}
	if h.killed != 0 {
		kill = h.hopelessAt()
	} else {
		kill = earliest(h.deadline.Kill, h.killAt)
	}
	return earliest(timeout, kill)
}

// events tells what becomes of the tree; one that is dead has nothing to tell any more.
func (h *holding) events() <-chan lifeline.Event {
	if h.dead {
		return nil
	}
	return h.tree.Events()
}

// observe takes a report about the tree.
func (h *holding) observe(e lifeline.Event, open bool) {
	if !open {
		h.buried()
		return
	}
	switch e.Kind {
	case lifeline.Terminated: // by the guardian, on its own clock: that cannot be taken back
		h.expire()
	case lifeline.Exited:
		h.exited(e.Status)
	case lifeline.Leftovers:
		h.emit(slog.LevelWarn, EventLeftovers,
			fmt.Sprintf("the command left %d process(es) behind, which are being ended", e.Count), slog.Int("count", e.Count))
	case lifeline.GuardianLost:
		h.loseGuardian(e.Err)
	case lifeline.Unconfirmed:
		if h.killed == 0 { // the guardian did
			h.killed = h.clock.Now()
		}
		h.emit(slog.LevelWarn, EventUndead,
			fmt.Sprintf("%d process(es) of the command survive SIGKILL; the lease is kept while the backend answers", e.Count))
	case lifeline.Dead:
		if e.Status.Known && !h.status.Known {
			h.status = e.Status
		}
		h.buried()
	}
}

// exited notes how the command has ended. A signal that has arrived by then came before: the command may have ended
// because of it, and who has sent it sees the run stopped, whichever of the two is looked at first.
func (h *holding) exited(s lifeline.Status) {
	for range len(h.req.Signals) { // nobody else receives them
		h.forward(<-h.req.Signals)
	}
	h.status = s
	h.report(Event{
		Name: EventExited, Level: slog.LevelInfo, Took: h.clock.Now().Sub(h.started),
		Text:   fmt.Sprintf("command ended with code %d", s.ExitCode()),
		Fields: []slog.Attr{slog.Int("code", s.ExitCode())},
	})
	if h.another() {
		h.stopping = h.signal != 0 && s.Signal == h.signal // which came in the timeout's grace
		h.overtime = h.cause == TimedOut && !h.stopping
		h.cause = 0 // a timeout, at most, and it was this try's
	}
}

// loseGuardian notes that the wrapper ends the tree itself. A command that had ended before keeps its outcome: only what it
// left behind is killed.
func (h *holding) loseGuardian(err error) {
	if h.unguarded {
		return
	}
	h.unguarded, h.final = true, true
	h.killed = h.clock.Now() // the wrapper's own sweep is under way
	if h.status.Known {
		if h.overtime && h.cause == 0 && !h.stopping { // no other try follows
			h.cause = TimedOut
		}
		h.emit(slog.LevelWarn, EventLeftovers, err.Error()+": killing what the command may have left behind")
		return
	}
	if h.cause != LeaseLost {
		h.cause = TreeLost
	}
	h.emit(slog.LevelError, EventLost, err.Error()+": "+h.consequence())
}

// forward passes a signal on to the command. A second SIGTERM or SIGINT kills.
func (h *holding) forward(s os.Signal) {
	sig, ok := s.(syscall.Signal)
	if !ok {
		return
	}
	settled, stopped, before := h.settled(), h.stopped(), h.signal
	ends := h.ends(s)
	if settled && stopped && sig != h.status.Signal { // the run has ended by another one
		h.signal = before
	}
	if h.status.Known && !settled { // between two tries, or about to be
		h.signalInPause(sig, ends)
	}
	if h.dead { // there is nothing to pass it on to
		return
	}
	if sig == syscall.SIGTERM || sig == syscall.SIGINT { // the others may mean a reload, or a dump
		h.armKill()
		if !h.settled() {
			h.stopping = true
			h.emit(slog.LevelInfo, EventStopping, h.consequence()+": received "+sig.String())
		}
		h.asks++
		if h.asks > 1 && h.killed == 0 {
			h.kill()
			return
		}
	}
	h.tree.Signal(sig)
}
