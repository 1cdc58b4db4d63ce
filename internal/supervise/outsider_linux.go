package supervise

import (
	"fmt"
	"os"
	"strconv"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/leaderrun/leaderrun/internal/supervise/guardian"
	"github.com/leaderrun/leaderrun/internal/supervise/tree"
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

// Wrappers returns the processes above this one that have a guardian between them and it, nearest first: the wrappers and daemons whose
// runs have started it. Those that /proc does not show, as under hidepid or in another PID namespace, are left out.
func Wrappers() (pids []int) {
	name := ""
	for pid := os.Getpid(); pid > 0; {
		// pid (name) state parent …, see proc_pid_stat(5). The name may hold anything.
		text := string(tree.ReadFile(fmt.Sprintf("/proc/%d/stat", pid)))
		from, to := strings.IndexByte(text, '('), strings.LastIndexByte(text, ')')
		if from < 0 || to < 0 {
			break
		}
		if name == guardian.Name {
			pids = append(pids, pid)
		}
		name = text[from+1 : to]
		fields := strings.Fields(text[to+1:])
		if len(fields) < 2 {
			break
		}
		pid, _ = strconv.Atoi(fields[1])
	}
	return pids
}

// IsGuardian tells the guardian of a run by its name.
func IsGuardian(pid int) bool {
	name, err := os.ReadFile(fmt.Sprintf("/proc/%d/comm", pid))
	return err == nil && strings.TrimSpace(string(name)) == guardian.Name
}
