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

// Holders returns the ids of the holders whose runs have started this process, directly or through others, nearest first: those that the
// guardians above it show. What /proc does not show, as under hidepid or in another PID namespace, is left out.
func Holders() (ids []string) {
	for pid := "self"; ; {
		// pid (name) state parent …, see proc_pid_stat(5). The name may hold anything.
		text := string(tree.ReadFile("/proc/" + pid + "/stat"))
		from, to := strings.IndexByte(text, '('), strings.LastIndexByte(text, ')')
		fields := strings.Fields(text[to+1:])
		if from < 0 || len(fields) < 2 {
			return ids
		}
		if text[from+1:to] == guardian.Name {
			number, _ := strconv.Atoi(pid)
			if args := ArgumentsOf(number); len(args) > 0 {
				ids = append(ids, args[len(args)-1])
			}
		}
		pid = fields[1]
	}
}

// IsGuardian tells the guardian of a run by its name.
func IsGuardian(pid int) bool {
	name, err := os.ReadFile(fmt.Sprintf("/proc/%d/comm", pid))
	return err == nil && strings.TrimSpace(string(name)) == guardian.Name
}
