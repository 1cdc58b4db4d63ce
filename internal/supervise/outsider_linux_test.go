package supervise

import (
	"errors"
	"os/exec"
	"syscall"
	"testing"
)

// The hazard: between looking up the number of a process and the signal, the process ends and another one gets its
// number. Who is held by a pidfd is hit or nobody.
func TestOutsiderIsNobodyElse(t *testing.T) {
	cmd := exec.Command("sleep", "1000")
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	o, err := OpenOutsider(cmd.Process.Pid)
	if err != nil {
		t.Fatal(err)
	}
	defer o.Close()
	if err := o.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	_ = cmd.Wait()
	status, _ := cmd.ProcessState.Sys().(syscall.WaitStatus)
	if status.Signal() != syscall.SIGTERM {
		t.Errorf("ended with %v", cmd.ProcessState)
	}
	if err := o.Signal(syscall.SIGKILL); !errors.Is(err, syscall.ESRCH) {
		t.Errorf("a process that was waited for: %v", err)
	}
	if _, err := OpenOutsider(cmd.Process.Pid); !errors.Is(err, syscall.ESRCH) {
		t.Errorf("opened a process that is gone: %v", err)
	}
}
