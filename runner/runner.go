package runner

import (
	"context"
	"os"
	"syscall"
	"time"

	"github.com/leaderrun/leaderrun/backends"
	"github.com/leaderrun/leaderrun/internal/lifeline"
)

// Forever is a wait that does not end.
const Forever = time.Duration(1<<63 - 1)

// Runner runs commands under leases. It may be used by several goroutines.
type Runner struct {
	Driver  backends.Driver
	Clock   Clock       // nil: CLOCK_BOOTTIME
	Observe func(Event) // gets all events in order; nil: nobody does. It must not block

	jitter func(limit time.Duration) time.Duration // nil: random
}

// Request is one job to run once.
type Request struct {
	Job      string
	Host     backends.Holder // host, pid and user, for people; each attempt gets a new id
	Inside   backends.Inside // the runs that have started this process
	Floor    int64           // highest token this process has seen for the job
	Timeline Timeline
	Trigger  backends.Trigger

	Wait        time.Duration // how long to stand by for the job to become free; Forever: without end
	BackendWait time.Duration // without Wait: how long to keep trying while the store cannot be reached
	KillAfter   time.Duration // from SIGTERM to SIGKILL when a signal, the timeout or a break ends the run; 0: never
	Timeout     time.Duration // how long one try of the command may run; 0: without limit

	// MinHold is how long, from the grant on, the job is kept for this host, even if the run ends earlier; 0: it is not.
	MinHold time.Duration
	// Yield is how long this candidate delays its claims, so that preferred hosts can claim first; 0: it does not.
	Yield time.Duration
	// SameTickOnly ends the wait if the run of another tick has the job.
	SameTickOnly bool
	// Retries is how often a command that failed (by its code, a signal of its own, or the timeout) runs again under
	// the same lease, token and attempt; RetryDelay is the pause before. An ending signal in the pause ends the run
	// as if the next try had died of it.
	Retries    int
	RetryDelay time.Duration

	// Tree makes the tree of one start of the command. It is asked again for every retry, and for the run of our
	// own tick when an earlier one came first. The runner closes what it was given.
	Tree func() Tree
	// FindUnclaimed searches the recorded schedule for an instant that nobody claimed. It is called if a claim was refused as
	// outdated, once in each attempt: such an instant shows that nobody uses that schedule any more. nil: there is no search.
	FindUnclaimed func(backends.Refusal) (backends.Unclaimed, bool)
	// Checks are questions whether the run still leads; nil: nobody asks. They are answered
	// until Run returns.
	Checks <-chan Check
	// Wanted ends when nothing may start any more. Then no claim is made and no command is started, but a command that runs
	// goes on, with its retries. nil: it does not end.
	Wanted context.Context //nolint:containedctx // it is narrower than that of Run
	// Signals are the signals that leaderrun receives. They end a wait, and are passed on to the command.
	Signals <-chan os.Signal
	// Env returns the variables that describe the grant to the command.
	Env func(backends.Grant) []string
}

// Check asks whether the run still leads. The answer is yes only after a renewal that was sent after the question arrived. Without
// one, it is no after a sixth of the TTL.
type Check struct {
	Answer chan<- Standing // has room for one
}

// Standing is the answer to a Check.
type Standing struct {
	Leading bool
	Left    time.Duration // until the lease's validity ends on this host's clock, where it leads
	Err     error         // why not, or why nobody knows. It does not tell where the backend is, nor what it says
	Cause   error         // what the backend says of it, for a log alone; nil: nothing
}

// Tree is the process tree of one run. Methods do not block unless they say so; internal/supervise has the
// real one.
type Tree interface {
	// Start starts the command, unless the deadline has come. It returns when the command's exec has succeeded or
	// failed, and at the deadline's End at the latest. The whole tree keeps the files of inherit open, and only the guardian
	// those of hold. After an error nothing runs, unless it is lifeline.ErrGuardian: then Events tell when nothing does.
	Start(env []string, hold, inherit []*os.File, d Deadline) error
	// Extend moves the deadline forward. After the tree's death it only tells the guardian that the files are still needed.
	Extend(d Deadline)
	// Signal passes a signal on.
	Signal(sig syscall.Signal)
	// Terminate sends SIGTERM; the deadline's SIGKILL follows.
	Terminate()
	// Kill sends SIGKILL to the whole tree now. If the lease is lost, every moment counts, and who is slow to kill is replaced at once;
	// otherwise the machine may be busy, as long as the deadline allows.
	Kill(lost bool)
	// Events reports what becomes of the tree and is closed after lifeline.Dead.
	Events() <-chan lifeline.Event
	// Close sends the guardian of a tree away that is dead or was never started. Close it before the next tree
	// starts: when its last deadline is over, that guardian would unlock the files for all who share them.
	Close()
}

// Run claims the job, runs the command under the lease, and releases the lease. It returns when the command must not
// run, or when its whole tree is dead and the lease is released; Ending names the exceptions. If the tick is about to
// come, Run waits for it. If the store grants an earlier tick instead, Run runs that one, and then claims
// ours. Cancelling ctx ends a wait, and asks a running command to end as SIGTERM would; the messages name its cause.
//
// If a driver or a function of the request panics, Run panics, with a *panics.Panic if that was in another goroutine. Then the lease
// is not released, and the guardian ends the tree at the deadline.
func (r *Runner) Run(ctx context.Context, req Request) Result {
	clock := r.Clock
	if clock == nil {
		clock = bootClock{}
	}
	timer, err := clock.NewTimer()
	if err != nil {
		return Result{Ending: StartFailed, Err: err}
	}
	defer timer.Stop()
	var before []Result
	for {
		result := newLoop(ctx, r, req, clock, timer).run()
		earlier := result.Grant.Tick != 0 && result.Grant.Tick < req.Trigger.Tick
		wentWell := (result.Ending == Ran || result.Ending == TimedOut) && result.Signal == 0
		if !earlier || !wentWell || isUnwanted(ctx, req) {
			result.Before = before
			return result
		}
		before = append(before, result) // ours is next: the store knows what became of the earlier one
		req.Floor = result.Floor
	}
}

// isUnwanted says whether nothing may start any more.
func isUnwanted(ctx context.Context, req Request) bool {
	return ctx.Err() != nil || req.Wanted != nil && req.Wanted.Err() != nil
}
