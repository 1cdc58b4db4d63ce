package hosts

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/leaderrun/leaderrun/test/servers"
)

// Children returns the processes that a process has started and not yet waited for.
func Children(t testing.TB, pid int) []int {
	t.Helper()
	return servers.Children(pid)
}

// Comm returns the name of a process, as proc_pid_comm(5) shows it; "": there is none.
func Comm(pid int) string {
	text, _ := os.ReadFile(fmt.Sprintf("/proc/%d/comm", pid))
	return strings.TrimSpace(string(text))
}

// Alive says whether a process exists and is not a zombie.
func Alive(pid int) bool { return servers.Runs(pid) }

// Process returns a process of a host, by a handle that no later process of the same number can take. Its name must be
// the given one; "": any. An error says that it has ended.
func (n *Network) Process(host string, pid int, comm string) (*os.Process, error) {
	if pid <= 0 {
		return nil, errors.New("no such process")
	}
	p, err := os.FindProcess(pid)
	if err != nil {
		return nil, err
	}
	// Looked at by number. That it is still the same one, the first signal to the handle shows.
	if !Alive(pid) || !n.has(host, pid) || comm != "" && Comm(pid) != comm {
		_ = p.Release()
		return nil, fmt.Errorf("process %d (%s) of %s has ended", pid, comm, host)
	}
	if err := p.Signal(syscall.Signal(0)); err != nil {
		_ = p.Release()
		return nil, fmt.Errorf("process %d (%s) of %s: %w", pid, comm, host, err)
	}
	return p, nil
}

// has says whether a process is in the network namespace of a host.
func (n *Network) has(host string, pid int) bool {
	its, err := os.Stat(fmt.Sprintf("/proc/%d/ns/net", pid))
	if err != nil {
		return false
	}
	ours, err := os.Stat(filepath.Join("/run/netns", n.Name(host)))
	return err == nil && os.SameFile(its, ours)
}
