package runner

import (
	"errors"
	"fmt"
	"log/slog"
	"syscall"

	"github.com/leaderrun/leaderrun/backends"
	"github.com/leaderrun/leaderrun/internal/lifeline"
)

// cannotExecute is the code of a command that could not be started again, where the error has none: the one that a
// shell shows.
const cannotExecute = 126

// buried notes that the whole tree is confirmed dead: only then may the command be tried again, or the lease be
// released. A command that failed is tried again; one that was ended with the run is not, and neither is one whose
// end nobody saw.
func (h *holding) buried() {
	h.dead = true
	if !h.another() {
		return
	}
	h.overtime = h.overtime || h.cause == TimedOut
	h.cause = 0 // as in exited
	h.retryAt = h.clock.Now().Add(h.req.RetryDelay)
	what := fmt.Sprintf("the command failed with code %d", h.status.ExitCode())
	if h.overtime {
		what = "the command took too long"
	}
	h.emit(slog.LevelInfo, EventRetrying,
		fmt.Sprintf("%s: try %d of %d in %v", what, h.tries+1, h.req.Retries+1, h.req.RetryDelay),
		slog.Int("try", h.tries+1))
}

// another says that the command has failed, and that another try follows once the whole tree is dead.
func (h *holding) another() bool {
	failed := h.status.Known && h.outcome().State == backends.Failed
	return failed && !h.final && h.hasRetries()
}

// settled says that the command has ended for good and what it left behind is being ended: whatever comes now but the
// loss of the lease leaves its outcome alone.
func (h *holding) settled() bool { return h.status.Known && !h.dead && !h.another() }

func (h *holding) hasRetries() bool { return h.tries <= h.req.Retries }

// isNotLast says that the command starts again when this try has failed: another try, or the run of our own tick.
func (h *holding) isNotLast() bool {
	return !h.final && h.asks == 0 && (h.hasRetries() || h.grant.Tick != h.req.Occasion.Tick)
}

// triesAgain says that the pause goes on: nobody has ended the run meanwhile.
func (h *holding) triesAgain() bool { return h.retryAt != 0 && h.cause == 0 && !h.stopping }

// retry starts the command again when the pause is over, under the same rules as the first time: enough of the lease
// is left, and whatever has arrived that would end the run comes first.
func (h *holding) retry() {
	if !h.dead || !h.triesAgain() || h.clock.Now() < h.retryAt || !h.fresh() {
		return
	}
	select {
	case s := <-h.req.Signals:
		h.forward(s)
		return
	case <-h.cancels:
		h.shutDown()
		return
	case reply := <-h.replies:
		h.renewed(reply)
		return
	default:
	}
	h.retryAt = 0
	h.tries++
	err := h.launch(h.deadline)
	if err != nil && !errors.Is(err, lifeline.ErrGuardian) { // nothing runs
		h.notStarted(err)
		return
	}
	h.try = try{started: h.clock.Now()}
	if err != nil { // the command may run: wait until it certainly does not
		h.observe(lifeline.Event{Kind: lifeline.GuardianLost, Err: err}, true)
		return
	}
	h.emit(slog.LevelInfo, EventStarted, "command started", slog.Int("try", h.tries))
}

// notStarted ends the run with a try that could not be started. A try before has run, so this is an outcome, to be
// recorded: the tick is not open for others.
func (h *holding) notStarted(err error) {
	if h.clock.Now() >= h.deadline.Term { // it was too late for it
		h.expire()
		return
	}
	code := cannotExecute
	if e, ok := errors.AsType[interface {
		error
		ExitCode() int
	}](err); ok {
		code = e.ExitCode()
	}
	h.cause, h.startErr = StartFailed, err
	h.status = lifeline.Status{Known: true, Code: code}
}

// signalInPause ends the run between two tries, as if the next one had died of the signal: what is seen and
// recorded does not hang on which side of the start it came.
func (h *holding) signalInPause(sig syscall.Signal, ends bool) {
	if !ends {
		return
	}
	h.stopping = true
	h.status = lifeline.Status{Known: true, Signal: sig}
	h.emit(slog.LevelInfo, EventStopping, h.consequence()+": received "+sig.String())
}
