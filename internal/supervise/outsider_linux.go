package supervise

import (
	"fmt"
	"os"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/leaderrun/leaderrun/internal/supervise/guardian"
)

func pidfdOpen(pid int) (int, error) { return unix.PidfdOpen(pid, 0) } // close-on-exec, always

// Signal sends a signal: ESRCH where the process is gone, EPERM where it is not ours.
func (o *Outsider) Signal(n syscall.Signal) error { return unix.PidfdSendSignal(o.fd, n, nil, 0) }

// Close lets go of the process.
func (o *Outsider) Close() { _ = unix.Close(o.fd) }

// ArgumentsOf returns the arguments that a process was started with; nil where they cannot be read.
func ArgumentsOf(pid int) []string {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", pid))
	if err != nil {
		return nil
	}
	return strings.Split(strings.TrimSuffix(string(text), "\x00"), "\x00")
}

// IsGuardian tells the guardian of a run by its name.
func IsGuardian(pid int) bool {
	name, err := os.ReadFile(fmt.Sprintf("/proc/%d/comm", pid))
	return err == nil && strings.TrimSpace(string(name)) == guardian.Name
}
