// Package runner holds a lease over the run of a command, from the claim to the finish. It knows no backend
// and no flags.
//
// What it guarantees, given a store that honours leases and a process tree that obeys its deadlines: the
// command runs only while the lease is valid on this machine's own clock, counted from before the request
// that the store answered was sent; the whole tree is dead before the lease can run out; and the lease is
// released only after the tree is confirmed dead. In doubt the command does not run.
//
// What it cannot guarantee: that effects stop with the processes. A write already sent lands after SIGKILL,
// and a machine that is paused as a whole notices nothing. The fencing token in the grant is for those.
package runner

import (
	"context"
	"crypto/rand"
	"encoding/hex"
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
	Observe func(Event) // told what happens, in order; nil: nobody. It must not block

	jitter func(limit time.Duration) time.Duration // nil: random
}

// Request is one job to run once.
type Request struct {
	Job      string
	Host     backends.Holder // host, pid and user to show; the id is made for each attempt
	Floor    int64           // highest token this process has seen for the job
	Timeline Timeline
	Occasion backends.Occasion

	Wait        time.Duration // how long to stand by for the job to become free; Forever: without end
	BackendWait time.Duration // without Wait: how long to go on while the store cannot be reached
	KillAfter   time.Duration // from SIGTERM to SIGKILL when a signal, the timeout or a break ends the run; 0: never
	Timeout     time.Duration // ends the command; 0: none

	// SameTickOnly ends the wait where the job is held by the run of another tick than this one.
	SameTickOnly bool
	// Retries is how often a command that failed runs again under the same lease, RetryDelay the pause before.
	Retries    int
	RetryDelay time.Duration

	// Tree makes the tree of one start of the command. It is asked again for every retry, and for the run of an
	// earlier tick that comes before ours.
	Tree func() Tree
	// Prove looks for an instant of the recorded schedule that passed unclaimed, when ours was refused as outdated.
	// nil: nobody can.
	Prove func(backends.Refusal) (backends.Unclaimed, bool)
	// Checks are questions of whoever wants to know whether the run still leads; nil: nobody asks.
	Checks <-chan Check
	// Signals are those that leaderrun receives: they end a wait, and go on to the command.
	Signals <-chan os.Signal
	// Env returns the variables that tell the command of its grant.
	Env func(backends.Grant) []string
}

// Check asks whether the run still leads. It is answered by a renewal that is sent after it was asked.
type Check struct {
	Answer chan<- Standing // has room for one
}

// Standing is the answer to a Check.
type Standing struct {
	Leading bool
	Left    time.Duration // until the lease's validity ends on this host's clock, where it leads
	Err     error         // why not, or why nobody knows
}

// Tree is the process tree of one run. Methods do not block unless they say so; internal/process has the
// real one.
type Tree interface {
	// Start starts the command, unless the deadline has come. It returns when the command's exec succeeded or
	// failed, and by the deadline's end at the latest. The files stay open in the whole tree. After an error
	// nothing runs, unless it is lifeline.ErrGuardian: then Events tell when nothing does.
	Start(env []string, files []*os.File, d Deadline) error
	// Extend moves the deadline forward.
	Extend(d Deadline)
	// Signal passes a signal on.
	Signal(sig syscall.Signal)
	// Terminate sends SIGTERM; the deadline's SIGKILL follows. Kill sends SIGKILL to the whole tree now.
	Terminate()
	Kill()
	// Events reports what becomes of the tree and is closed after lifeline.Dead.
	Events() <-chan lifeline.Event
}

// attempt is one attempt to run a job: one holder, from the claim to the finish.
type attempt struct {
	r     *Runner
	req   Request
	tree  Tree
	clock Clock
	timer Timer

	claim backends.Claim
	grant backends.Grant
	plan  Timeline // for the TTL that was granted
	asked Instant  // t0 of the request that the store answered last

	refusal *backends.Refusal // the last one
	failure error             // of the last request, where its outcome is unknown
	unclear bool              // some claim of ours may still be applied
	seenAt  Instant           // when claim.Seen was first seen
	behind  int64             // the token we told to be waiting behind; -1: none

	guardianLost bool           // when the command was to start: whether it runs is not known
	signal       syscall.Signal // the last ending signal that we received
}

// Run claims the job, runs the tree's command under the lease, and finishes. It returns when the command was
// not to be run, or when its whole tree is dead and the lease released; the exceptions are named in
// Ending. Cancelling ctx ends a wait, and asks a running command to end as SIGTERM would.
func (r *Runner) Run(ctx context.Context, req Request) Result {
	a := &attempt{r: r, req: req, clock: r.Clock, plan: req.Timeline, behind: -1}
	if a.clock == nil {
		a.clock = bootClock{}
	}
	timer, err := a.clock.NewTimer()
	if err != nil {
		return Result{Ending: Unreachable, Err: err}
	}
	defer timer.Stop()
	a.timer = timer

	a.claim = backends.Claim{
		Job: req.Job, Holder: req.Host, TTL: req.Timeline.TTL, Floor: req.Floor, Occasion: req.Occasion,
	}
	a.claim.Holder.ID = newHolderID()

	if result, ok := a.acquire(ctx); !ok {
		return a.with(result)
	}
	if result, ok := a.start(ctx); !ok {
		return a.with(result)
	}
	end := a.hold(ctx)
	return a.with(a.finish(ctx, end))
}

// with fills in what every result carries.
func (a *attempt) with(result Result) Result {
	result.Refusal, result.Grant, result.Signal = a.refusal, a.grant, a.signal
	return result
}

// newHolderID returns 128 random bits: unique for every attempt, whatever the host is called.
func newHolderID() string {
	var b [16]byte
	_, _ = rand.Read(b[:]) // never fails since Go 1.24
	return hex.EncodeToString(b[:])
}
