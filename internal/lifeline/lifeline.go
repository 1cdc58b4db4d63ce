// Package lifeline is the vocabulary between the runner, which keeps a lease, and the process tree that
// may live only as long as the lease does. It imports nothing that the guardian may not.
package lifeline

import (
	"errors"
	"syscall"
	"time"

	"github.com/leaderrun/leaderrun/internal/boottime"
)

// ErrGuardian says that the guardian was lost while it was to start the command. Whether that runs is not
// known: it is being killed, and only Dead or the end of the events says that it is gone.
var ErrGuardian = errors.New("the guardian of the run is lost")

// KillBudget is how long a tree may take to die of SIGKILL: the time from Deadline.Kill to Deadline.End. The event Unconfirmed tells what
// is left of the tree then.
const KillBudget = 700 * time.Millisecond

// Deadline says until when a run may live if nobody extends it. Term <= Kill < End.
type Deadline struct {
	Term boottime.Instant // SIGTERM to the run
	Kill boottime.Instant // SIGKILL to the whole tree
	End  boottime.Instant // the end of the lease's validity: by now the tree is dead, and nothing starts
}

// Status is how the command ended.
type Status struct {
	Known  bool           // false: nobody saw it end (its guardian was lost first)
	Code   int            // exit code, where no signal ended it
	Signal syscall.Signal // the signal that ended it, or 0
}

// ExitCode is the code a shell would show: the command's own, or 128+N for signal N.
func (s Status) ExitCode() int {
	if s.Signal != 0 {
		return 128 + int(s.Signal)
	}
	return s.Code
}

// EndsRun says whether a signal to leaderrun ends a run.
func EndsRun(sig syscall.Signal) bool {
	return AsksToEnd(sig) || sig == syscall.SIGHUP || sig == syscall.SIGQUIT
}

// AsksToEnd says whether a signal always asks a command to end. Some commands take the others as a request to reload, or to dump.
func AsksToEnd(sig syscall.Signal) bool { return sig == syscall.SIGTERM || sig == syscall.SIGINT }

// EventKind tells what happened to a run's process tree.
type EventKind int

// The events of one run, in this order where they occur; only Dead is certain to come.
const (
	Terminated   EventKind = iota + 1 // SIGTERM was sent because nobody extended the deadline in time
	Exited                            // the command itself ended, with Status; what it left behind is being ended
	Leftovers                         // Count processes outlived the command
	GuardianLost                      // the guardian died or does not answer; the wrapper kills the tree itself
	Unconfirmed                       // SIGKILL was sent and Count processes are still there; the sweep goes on. 0: all have ended, and Tracer keeps them
	Dead                              // every process of the tree is confirmed dead, with the command's Status; the last event
)

// Event is one report about a run's process tree.
type Event struct {
	Kind   EventKind
	Status Status // Exited and Dead
	Count  int    // Leftovers and Unconfirmed
	Tracer int    // Unconfirmed: a process outside that traces what has ended (ptrace(2))
	Err    error  // GuardianLost: an ErrGuardian that says what became of it
}
