package tree

import (
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"syscall"
	"testing"
	"time"
	"unsafe"

	"github.com/leaderrun/leaderrun/test/servers"
)

// stranger starts a process that is a grandchild of nobody's run.
func stranger(t *testing.T) (*exec.Cmd, Process) {
	t.Helper()
	cmd := children(t, 1)[0]
	p, ok := Stat(cmd.Process.Pid)
	if !ok {
		t.Fatal("it is not there")
	}
	p.Parent = 1 // else it is a child of ours, whose number is its own
	return cmd, p
}

func isStopped(t *testing.T, pid int) bool {
	t.Helper()
	p, ok := Stat(pid)
	return ok && p.State == 'T'
}

// Hazard: between a list of processes and a signal, one of them ends and is waited for, and another process gets its number.
func TestASignalHitsNobodyElse(t *testing.T) {
	_, p := stranger(t)
	before := p
	before.Started--
	Signal(before, syscall.SIGSTOP)
	if isStopped(t, p.PID) {
		t.Error("a process was hit that only has the number")
	}
	if forbidden(t, p.PID) {
		t.Error("a stranger may not fork any more")
	}
	Signal(p, syscall.SIGSTOP)
	for end := time.Now().Add(patience); !isStopped(t, p.PID); time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			t.Fatal("the process itself was not hit")
		}
	}
	if !forbidden(t, p.PID) {
		t.Error("the process may fork")
	}
}

// forbidden tells whether a process may fork only as root.
func forbidden(t *testing.T, pid int) bool {
	t.Helper()
	var is [2]uint64
	if _, _, errno := syscall.RawSyscall6(syscall.SYS_PRLIMIT64, uintptr(pid), limitOfForks(), 0, uintptr(unsafe.Pointer(&is)), 0, 0); errno != 0 {
		t.Fatal(errno)
	}
	return is[0] == 0
}

// The same of what a cgroup lists: who is not in it any more is not hit.
func TestACgroupsSignalHitsNobodyElse(t *testing.T) {
	home := "/sys/fs/cgroup"
	if !exists(home + "/cgroup.procs") {
		home += "/unified"
	}
	path := home + "/" + Prefix + "test-" + strconv.Itoa(os.Getpid())
	c, err := MakeCgroup(path)
	if err != nil {
		servers.Lack(t, "cgroup", fmt.Sprintf("no cgroup can be made: %v", err))
	}
	t.Cleanup(func() { _ = c.Remove() })
	list := children(t, 2)
	inside, outside := list[0], list[1]
	if err := writeFile(path+"/cgroup.procs", strconv.Itoa(inside.Process.Pid)); err != nil {
		t.Fatal(err)
	}
	c.Signal(outside.Process.Pid, syscall.SIGKILL)
	c.Signal(inside.Process.Pid, syscall.SIGKILL)
	if _ = inside.Wait(); inside.ProcessState.Sys().(syscall.WaitStatus).Signal() != syscall.SIGKILL {
		t.Errorf("what is in the cgroup ended with %v", inside.ProcessState)
	}
	if err := outside.Process.Signal(syscall.Signal(0)); err != nil {
		t.Fatal(err)
	}
	_ = outside.Process.Signal(syscall.SIGTERM)
	if _ = outside.Wait(); outside.ProcessState.Sys().(syscall.WaitStatus).Signal() != syscall.SIGTERM {
		t.Errorf("what is not in the cgroup ended with %v", outside.ProcessState)
	}
	c.Kill()
}
