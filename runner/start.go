package runner

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/leaderrun/leaderrun/backends"
	"github.com/leaderrun/leaderrun/internal/lifeline"
)

// start starts the command under the lease that was granted. Where it does not start, the claim is undone:
// a tick that nobody started is open for others.
func (a *attempt) start(ctx context.Context) (Result, bool) {
	a.report(Event{
		Name: EventAcquired, Level: slog.LevelInfo, Took: a.clock.Now().Sub(a.began),
		Text: fmt.Sprintf("lease acquired with token %d", a.grant.Token),
	})
	a.tellFindings()
	if err := a.freshen(ctx); err != nil {
		if errors.Is(err, errInterrupted) {
			return a.undo(ctx, Result{Ending: Interrupted}), false
		}
		return a.undo(ctx, Result{Ending: NotStarted, Err: err}), false
	}
	select { // what came between the claim and now
	case s := <-a.req.Signals:
		if a.ends(s) {
			return a.undo(ctx, Result{Ending: Interrupted}), false
		}
	default:
	}
	if a.unwanted(ctx) {
		return a.undo(ctx, Result{Ending: Interrupted}), false
	}
	err := a.launch(a.plan.Deadline(a.asked))
	if errors.Is(err, lifeline.ErrGuardian) { // the command may run: this is for hold to see to its end
		a.guardianLost = err
		return Result{}, true
	}
	if errors.Is(err, errNotReady) {
		return a.undo(ctx, Result{Ending: NotStarted, Err: err}), false
	}
	if err != nil {
		return a.undo(ctx, Result{Ending: StartFailed, Err: err}), false
	}
	a.emit(slog.LevelInfo, EventStarted, "command started")
	return Result{}, true
}

// errNotReady is why a command is not started that could have been started only after its deadline.
var errNotReady = errors.New("the lease ran out before all was ready to start the command")

// launch starts the command in a new tree. The one before, if any, is dead. What has to be made ready for it hangs where a
// disk does not answer, but never for longer than the command may still be started: nobody renews the lease meanwhile.
func (a *attempt) launch(d Deadline) error {
	before, env := a.tree, []string(nil)
	var next Tree
	ready := make(chan struct{})
	a.beside(func() {
		if a.req.Env != nil {
			env = a.req.Env(a.grant)
		}
		if before != nil { // first: its guardian would unlock under the next run what they share
			before.Close()
		}
		next = a.req.Tree()
		close(ready)
	})
	if !a.await(ready, d.Term) {
		a.tree = nil // it hangs, or has gone
		a.beside(func() {
			<-ready
			next.Close()
		})
		return errNotReady
	}
	a.tree = next
	return a.tree.Start(env, a.grant.Hold, a.grant.Inherit, d)
}

// await waits for what is made ready beside, and says whether it was by an instant.
func (a *attempt) await(ready <-chan struct{}, end Instant) bool {
	a.timer.Set(end)
	for {
		select {
		case <-ready:
			return true
		case p := <-a.panics:
			panic(p)
		case <-a.timer.C():
			if a.clock.Now() >= end {
				return false
			}
		}
	}
}

// fresh says whether enough of the lease is left to start the command.
func (a *attempt) fresh() bool {
	return a.asked.Add(a.plan.TTL).Sub(a.clock.Now()) >= a.plan.TTL/2
}

// tellFindings tells what this very claim found lost, missed or overruled: nobody else will.
func (a *attempt) tellFindings() {
	for _, o := range a.grant.Lost {
		a.emit(slog.LevelWarn, EventNoted, lossText(o), slog.String("state", string(o.State)))
	}
	for _, note := range a.grant.Notes {
		a.emit(slog.LevelWarn, EventNoted, note)
	}
}

func lossText(o backends.Occurrence) string {
	what := fmt.Sprintf("key %q", o.Key)
	if o.Tick != 0 {
		what = "tick " + time.Unix(o.Tick, 0).UTC().Format(time.RFC3339)
	}
	if o.State == backends.Missed {
		return what + " was missed: an earlier run was still going"
	}
	return fmt.Sprintf("%s is lost: its run on %s never reported its end", what, HolderText(o.Claimant))
}

// freshen renews a lease of which less than half is left before the command starts.
func (a *attempt) freshen(ctx context.Context) error {
	for failures := 0; ; {
		now := a.clock.Now()
		deadline := a.plan.Deadline(a.asked)
		if a.fresh() {
			return nil
		}
		if now >= deadline.Term {
			return errors.New("the lease could not be renewed before the command started")
		}
		err := a.ask(ctx, min(a.plan.attempt(), deadline.End.Sub(now)), func(ctx context.Context) error {
			_, err := a.r.Driver.Renew(ctx, a.grant)
			return err
		})
		switch {
		case err == nil:
			if a.clock.Now() < deadline.End {
				a.asked = now
			}
		case errors.Is(err, backends.ErrLost), errors.Is(err, errInterrupted):
			return err
		default:
			failures++
			if _, again := a.sleep(ctx, a.clock.Now().Add(a.pause(failures)), nil); !again {
				return errInterrupted
			}
		}
	}
}

// undo takes the claim of a run back that never started. It names the holder and not the token: an earlier
// request of the same claim may still arrive and be granted another one.
func (a *attempt) undo(ctx context.Context, result Result) Result {
	err := a.insist(ctx, func(ctx context.Context) error { return a.r.Driver.Abandon(ctx, a.claim) })
	if err != nil {
		a.emit(slog.LevelWarn, EventReleased, fmt.Sprintf("the lease could not be released and runs out by itself: %v", err))
	}
	return result
}
