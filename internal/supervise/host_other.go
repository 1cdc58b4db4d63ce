//go:build !linux

package supervise

import (
	"os"
	"os/signal"
	"syscall"
	"time"
)

func ownExecutable() (string, error) { return os.Executable() }

func threadID() int { return 0 } // nothing is told by it

func newCgroupPath() string { return "" }

// FindsProcesses says whether the processes of a run can be found, as far as they ever can here.
func FindsProcesses() bool { return true }

// Tier names by what means a run's tree is ended on this host.
func Tier() string { return "process group" }

// Reraise ends this process by the signal. Should it return, exit with 128+N.
func Reraise(sig syscall.Signal) {
	signal.Reset(sig)
	_ = syscall.Kill(syscall.Getpid(), sig)
	time.Sleep(reraiseWait)
}

const reraiseWait = 200 * time.Millisecond

// awaitExit has nothing to wait by here; its caller polls.
func awaitExit(int) {}
