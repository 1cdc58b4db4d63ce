package supervise

import (
	"bufio"
	"errors"
	"os"
	"os/exec"
	"os/signal"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/leaderrun/leaderrun/test/servers"
)

func TestReraiseDiesOfTheSignalAndSaysNothing(t *testing.T) {
	for _, n := range []syscall.Signal{syscall.SIGTERM, syscall.SIGINT, syscall.SIGHUP, syscall.SIGQUIT, syscall.SIGUSR1} {
		t.Run(n.String(), func(t *testing.T) {
			cmd := exec.Command(self(t), strconv.Itoa(int(n)))
			cmd.Env = append(os.Environ(), helperVariable+"=reraise")
			cmd.Dir = t.TempDir() // for a core
			out, err := cmd.CombinedOutput()
			if len(out) > 0 {
				t.Errorf("it said %q", out)
			}
			exit, ok := errors.AsType[*exec.ExitError](err)
			if !ok || !exit.Sys().(syscall.WaitStatus).Signaled() || exit.Sys().(syscall.WaitStatus).Signal() != n {
				t.Errorf("got %v", err)
			}
		})
	}
}

// The first process of a container does not die of a signal that it does not catch.
func TestReraiseReturnsInTheFirstProcessOfAContainer(t *testing.T) {
	cmd := exec.Command(self(t), strconv.Itoa(int(syscall.SIGTERM)))
	cmd.Env = append(os.Environ(), helperVariable+"=reraise")
	cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWPID}
	err := cmd.Run()
	if errors.Is(err, syscall.EPERM) {
		servers.Lack(t, "root", "no pid namespace can be made here")
	}
	if exit, ok := errors.AsType[*exec.ExitError](err); !ok || exit.ExitCode() != 128+int(syscall.SIGTERM) {
		t.Errorf("got %v", err)
	}
}

func TestCaptureSignals(t *testing.T) {
	noNohup(t)
	for _, test := range []struct{ how, want string }{
		{`exec "$0"`, "hangup user defined signal 1 terminated"},
		{`trap '' HUP; exec "$0"`, "user defined signal 1 terminated"},
	} {
		t.Run(test.how, func(t *testing.T) {
			cmd := exec.Command("/bin/sh", "-c", test.how, self(t))
			cmd.Env = append(os.Environ(), helperVariable+"=signals")
			out, err := cmd.StdoutPipe()
			must(t, err)
			must(t, cmd.Start())
			lines := bufio.NewScanner(out)
			lines.Scan()
			var got []string
			for _, n := range []syscall.Signal{syscall.SIGHUP, syscall.SIGUSR1, syscall.SIGTERM} {
				must(t, cmd.Process.Signal(n))
				if n == syscall.SIGHUP && !strings.Contains(test.want, "hangup") {
					continue
				}
				lines.Scan()
				got = append(got, lines.Text())
			}
			must(t, cmd.Wait())
			if s := strings.Join(got, " "); s != test.want {
				t.Errorf("got %q, want %q", s, test.want)
			}
		})
	}
}

// noNohup has what a test starts not ignore SIGHUP, also where nohup(1) has the tests ignore it: no shell can trap it then.
func noNohup(t *testing.T) {
	t.Helper()
	hangups := make(chan os.Signal, 1)
	signal.Notify(hangups, syscall.SIGHUP)
	t.Cleanup(func() { signal.Stop(hangups) })
}

// libcSignals are 32 and 33, glibc's own: its posix_spawn(3), which make(1) uses, leaves them ignored.
const libcSignals = 3 << 31

func TestFindCgroup(t *testing.T) {
	const hybrid = "31 23 0:28 / /sys/fs/cgroup rw - tmpfs tmpfs rw\n41 31 0:38 / /sys/fs/cgroup/unified rw - cgroup2 cgroup2 rw\n"
	const unified = "30 23 0:26 / /sys/fs/cgroup rw,nosuid shared:4 - cgroup2 cgroup2 rw,nsdelegate\n"
	const part = "30 23 0:26 /user.slice /mnt rw - cgroup2 cgroup2 rw\n"
	tests := []struct{ own, mounts, want string }{
		{"4:memory:/x\n0::/\n", hybrid, "/sys/fs/cgroup/unified"},
		{"0::/user.slice/a.scope\n", unified, "/sys/fs/cgroup/user.slice/a.scope"},
		{"0::/user.slice/a.scope\n", part, "/mnt/a.scope"},
		{"0::/user.slices\n", part, ""},
		{"0::/../other\n", unified, ""},
		{"4:memory:/x\n", unified, ""},
		{"0::/\n", "31 23 0:28 / /sys/fs/cgroup rw - tmpfs tmpfs rw\n", ""},
	}
	for _, test := range tests {
		got, err := findCgroup(test.own, test.mounts)
		if got != test.want || (err == nil) != (test.want != "") {
			t.Errorf("%q in %q: got %q, %v", test.own, test.mounts, got, err)
		}
	}
}
