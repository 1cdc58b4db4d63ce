package guardian

import (
	"errors"
	"os"
	"os/exec"
	"syscall"
	"testing"
	"time"

	"github.com/leaderrun/leaderrun/internal/boottime"
)

// An exec that hangs past the deadline must not start its command later: the kernel kills the guardian by then,
// and lets it live once the fork is over.
func TestKillMyselfAt(t *testing.T) {
	const role = "LEADERRUN_TEST_HANGS"
	switch os.Getenv(role) {
	case "hangs":
		killMyselfAt(boottime.Now().Add(50 * time.Millisecond))
		time.Sleep(time.Minute)
		return
	case "goes on":
		at := boottime.Now().Add(50 * time.Millisecond)
		killMyselfAt(at)()
		for boottime.Now() < at.Add(50*time.Millisecond) {
			time.Sleep(time.Millisecond)
		}
		return
	}
	for how, want := range map[string]syscall.Signal{"hangs": syscall.SIGKILL, "goes on": 0} {
		t.Run(how, func(t *testing.T) {
			cmd := exec.Command(os.Args[0], "-test.run=^TestKillMyselfAt$")
			cmd.Env = append(os.Environ(), role+"="+how)
			err := cmd.Run()
			var got syscall.Signal
			if exit, ok := errors.AsType[*exec.ExitError](err); ok {
				got = exit.Sys().(syscall.WaitStatus).Signal()
			}
			if got != want {
				t.Errorf("ended by %v (%v), want %v", got, err, want)
			}
		})
	}
}
