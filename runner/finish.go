package runner

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"syscall"
	"time"

	"github.com/leaderrun/leaderrun/backends"
)

// finish records how the run ended and releases the lease, in one step at the store. It comes after the tree
// is confirmed dead, on every path; where it cannot be confirmed, nothing is released.
func (a *attempt) finish(ctx context.Context, h *holding) Result {
	result := Result{Ending: Ran, Status: h.status}
	if h.cause != 0 {
		result.Ending = h.cause
	}
	if !h.dead {
		result.Ending = Unconfirmed
		result.Err = errors.New("processes of the command survive SIGKILL, and the lease has run out")
		return result
	}
	switch result.Ending {
	case LeaseLost:
		result.Err = h.loss
	case Ran: // because our caller wanted that, if there is an error
		result.Err = h.ended
	case StartFailed:
		result.Err = h.startErr
	}
	outcome := h.outcome()
	err := a.record(ctx, outcome)
	switch {
	case err == nil:
		a.emit(slog.LevelInfo, EventReleased, "lease released: "+string(outcome.State))
	case result.Ending == LeaseLost, result.Ending == Broken: // told already
	case a.req.Occasion.Given():
		result.Ending, result.Err = Unrecorded, err
	default:
		a.report(Event{
			Name: EventReleased, Level: slog.LevelWarn,
			Text: fmt.Sprintf("the end of the run could not be recorded: %v", err),
			Hint: "the lease runs out by itself; until then the job does not start again",
		})
	}
	return result
}

// outcome says how the run is recorded.
func (h *holding) outcome() backends.Outcome {
	o := backends.Outcome{State: backends.Failed, Exit: h.status.ExitCode()}
	switch {
	case h.cause == LeaseLost, h.cause == TreeLost:
		o.State = backends.Lost
	case h.cause == Broken, h.cause == Ran, h.stopped():
		o.State = backends.Stopped
	case h.cause == TimedOut, h.overtime, h.cause == StartFailed:
	case h.status.Known && h.status.ExitCode() == 0:
		o.State = backends.Done
	}
	return o
}

// stopped says whether a signal to leaderrun ended the run. SIGHUP and SIGQUIT count only where the command
// died of them: others use them to reload, or to show where they are. They may come after the news of its death.
func (h *holding) stopped() bool {
	return h.stopping || h.cause == 0 && !h.overtime && h.signal != 0 && h.status.Signal == h.signal
}

// record tells the store how the run ended. nil: recorded; ErrLost: somebody else was granted since; else:
// unknown.
func (a *attempt) record(ctx context.Context, o backends.Outcome) error {
	return a.insist(ctx, func(ctx context.Context) error { return a.r.Driver.Finish(ctx, a.grant, o) })
}

// insist makes a request again and again until the lease's validity is over, and at least once.
func (a *attempt) insist(ctx context.Context, request func(context.Context) error) error {
	ctx = context.WithoutCancel(ctx)
	end := a.plan.Deadline(a.asked).End
	for failures := 1; ; failures++ {
		limit := a.plan.attempt()
		if left := end.Sub(a.clock.Now()); left > 0 {
			limit = min(limit, left)
		}
		err := a.once(ctx, limit, request)
		if err == nil || errors.Is(err, backends.ErrLost) {
			return err
		}
		until := a.clock.Now().Add(a.pause(failures))
		if until >= end {
			return fmt.Errorf("the backend does not answer: %w", err)
		}
		received := a.signal
		_, again := a.sleep(ctx, until, nil)
		impatient := !again && (a.signal == syscall.SIGTERM || a.signal == syscall.SIGINT)
		a.signal = received // what comes now ends nothing any more
		if impatient {
			return fmt.Errorf("the backend does not answer: %w", err)
		}
	}
}

// once makes one request. It is not interrupted: a signal that comes now has nothing left to stop.
func (a *attempt) once(ctx context.Context, limit time.Duration, request func(context.Context) error) error {
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	return a.wait(a.answerOf(ctx, request))
}
