// Package supervise runs a command as a tree of processes that lives no longer than the lease does. It is the only place of the
// program that starts, signals and kills processes, except for the plugins of a kubeconfig (package credentialplugin).
//
// Between leaderrun and the command stands a guardian (package guardian): the same executable as a
// small process of its own, which ends the tree at a deadline unless it is extended in time. So the tree
// dies when the wrapper is killed, stopped or starved, and the wrapper ends it when the guardian is.
//
// Promise: Dead is told only when the kernel says that no process of the tree is left, and Exited and
// Dead carry the command's own status. Not promised: see package guardian. On systems without
// subreapers (macOS, BSD) the tree is the command's process group; Tier says so.
package supervise

import (
	"errors"
	"os"
	"syscall"
	"time"

	"github.com/leaderrun/leaderrun/internal/lifeline"
	"github.com/leaderrun/leaderrun/internal/supervise/guardian"
)

// Exit codes of a shell for a command that could not be run.
const (
	codeNotExecutable = 126
	codeNotFound      = 127
)

// Options are the caller's.
type Options struct {
	// Warn takes one line for the user: nil drops it.
	Warn func(message string)
	// Detached is for a process that has many runs, one after the other and beside each other: they have nothing to
	// do with its terminal.
	Detached bool
	// Files are stdin, stdout and stderr of the run; nil is the wrapper's own. The guardian holds them open too,
	// until it is closed.
	Files [3]*os.File
	// Begun waits for the guardian that was started ahead, when this process had no child (package ahead), and returns
	// false where there is none; nil: there is none. Then one is started. Files and Detached do not go with it.
	Begun func() (guardian.Begun, bool)

	// Forked is called once by Begin when Files are needed no more, whatever became of the start; nil: nobody asks.
	Forked func()

	withoutCgroup bool // tests of the subreaper alone
}

// Command is what to run, untouched: no shell, no search in PATH (see LookPath).
type Command struct {
	Path string
	Argv []string
	Env  []string
	Dir  string // "" is the wrapper's own

	// As is who the command runs as, and enters Dir as; nil: this user. It takes root to be another one.
	As *Credential

	// Inherit lists descriptors that the whole tree holds open, Hold those that only the wrapper and its guardian
	// do: lock files under flock(2). Who has a descriptor can unlock it for all who share it, so what must not be
	// unlocked by the command is in Hold. When the wrapper is dead, or stopped for longer than its deadline, the
	// guardian unlocks both as soon as the tree is confirmed dead, Inherit first. A live wrapper unlocks them
	// itself. At most guardian.MaxInherit together.
	Hold, Inherit []*os.File

	// Socket is the path of a socket of the wrapper's, alone or with others of its kind in a directory: the guardian
	// removes it, and the directory with the last one, if the wrapper did not live to do so. "": there is none.
	Socket string

	// Holder is the id of the run's holder, which the guardian shows to Holders; "": none.
	Holder string

	// Grace is the time between SIGTERM and SIGKILL when the wrapper dies; leftovers of a command that
	// has ended get that, but at most a second.
	Grace time.Duration
}

// Credential is who a command runs as.
type Credential = guardian.Credential

// ErrTooLate is returned by Start when the deadline had passed when the guardian was about to fork. No
// process was started, and Start may be called again. Pending.By returns it when the guardian itself came too late.
var ErrTooLate = errors.New("the lease ran out before the command could start")

// ErrGone is returned by Start when the guardian had died before. Nothing was started: another Guard can do it.
var ErrGone = errors.New("the guardian is gone")

// ErrGuardian is what Start returns, wrapped in what is known, when the guardian died or did not answer in time. Something may have been
// started: Events tells when it is dead.
var ErrGuardian = lifeline.ErrGuardian

// errState is a fault of the caller.
var errState = errors.New("process: called in the wrong order")

// ExecError is returned by Start when the command could not be executed. No process is left of it.
type ExecError struct {
	Path  string
	Errno syscall.Errno
}

func (e *ExecError) Error() string { return e.Path + ": " + e.Errno.Error() }

func (e *ExecError) Unwrap() error { return e.Errno }

// ExitCode is what a shell would answer: 127 for what is not there, 126 for what cannot be executed.
func (e *ExecError) ExitCode() int {
	if e.Errno == syscall.ENOENT {
		return codeNotFound
	}
	return codeNotExecutable
}
