package runner

import (
	"syscall"
	"time"

	"github.com/leaderrun/leaderrun/backends"
	"github.com/leaderrun/leaderrun/internal/lifeline"
)

// Ending is how an attempt to run a job ended.
type Ending int

// The endings. Up to StartFailed the command was not started, but for a StartFailed whose Result.Status is known: then
// a try before had failed, and this one counts as its outcome.
const (
	Refused     Ending = iota + 1 // the store said no and no wait was asked for: Result.Refusal says why
	WaitOver                      // the job did not become free within the wait
	Unreachable                   // the store could not be asked: Result.Err says why
	Permanent                     // no retry mends it: Result.Err is a *backends.PermanentError
	Interrupted                   // a signal came before the command was started
	NotStarted                    // the lease was lost, or as good as over, before the command could start: Result.Err says why
	StartFailed                   // the command could not be started (again): Result.Err says why
	Ran                           // the command ran and its end was recorded, or need not be
	TimedOut                      // the command was ended by the timeout
	LeaseLost                     // the lease was lost and the run was stopped
	Broken                        // an operator broke the lease and the run was stopped
	TreeLost                      // the guardian was lost and the run was stopped
	Unconfirmed                   // the run could not be confirmed dead
	Unrecorded                    // the run of a tick ended, and its end could not be recorded
)

// OthersFirst is how long a host leaves a tick or shard to others whose command it could not start in time (NotStarted): if it claimed
// that again at once, who stands by would never get it, however long this host's disk hangs.
const OthersFirst = time.Second

// BrokenError is the Err of a Broken run: the request to end it.
type BrokenError struct{ backends.BreakRequest }

func (e *BrokenError) Error() string { return "it was broken" + withReason(e.Reason) }

// Result is what became of an attempt to run a job.
type Result struct {
	Ending  Ending
	Refusal *backends.Refusal // the last refusal; nil: none
	Grant   backends.Grant    // zero: never granted
	Status  lifeline.Status   // of the command's last try, where it was started
	Signal  syscall.Signal    // the last ending signal that leaderrun itself received; 0: none
	Err     error             // why, where the ending alone does not say
	Floor   int64             // the highest token that was seen for the job
	Before  []Result          // the runs of earlier ticks that came first, where the store wanted that
}
