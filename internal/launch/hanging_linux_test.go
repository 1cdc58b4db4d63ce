package launch

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/leaderrun/leaderrun/internal/boottime"
	"github.com/leaderrun/leaderrun/internal/jobfile"
	"github.com/leaderrun/leaderrun/internal/supervise"
	"github.com/leaderrun/leaderrun/runner"
	"github.com/leaderrun/leaderrun/test/servers"
	"github.com/leaderrun/leaderrun/test/waits"
)

// hang mounts a file system that does not answer, as one of NFS whose server is gone, until revive is called.
func hang(t *testing.T) (dir string, revive func()) {
	t.Helper()
	servers.RequireRoot(t, "netns", "file systems that hang")
	dev, err := os.OpenFile("/dev/fuse", os.O_RDWR, 0)
	if err != nil {
		servers.Lack(t, "root", fmt.Sprintf("no file system can be made that hangs: %v", err))
	}
	dir = t.TempDir()
	options := fmt.Sprintf("fd=%d,rootmode=40000,user_id=0,group_id=0,allow_other", dev.Fd())
	if err := syscall.Mount("test", dir, "fuse", 0, options); err != nil {
		_ = dev.Close()
		servers.Lack(t, "root", fmt.Sprintf("no file system can be mounted that hangs: %v", err))
	}
	revive = func() { _ = dev.Close() } // then every call fails
	t.Cleanup(func() {
		revive()
		_ = syscall.Unmount(dir, syscall.MNT_DETACH)
	})
	return dir, revive
}

// Hazard: a job whose directory hangs holds up a drain and other jobs, and takes one more thread of the daemon at each tick.
func TestADirectoryThatHangsIsLookedAtOnce(t *testing.T) {
	dir, revive := hang(t)
	l := &Launcher{}
	stuck := &jobfile.Job{Name: "stuck", Argv: []string{"true"}, Dir: dir}
	for range 3 {
		if _, err := l.FindSite(t.Context(), stuck, 10*time.Millisecond); !errors.Is(err, errSilent) {
			t.Fatalf("%v, want %v", err, errSilent)
		}
	}
	if n := len(l.Files.under); n != 1 {
		t.Errorf("%d looks are under way", n)
	}
	drain, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := l.FindSite(drain, stuck, waits.Patience); !errors.Is(err, context.Canceled) {
		t.Errorf("%v, want the drain's end", err)
	}
	well := &jobfile.Job{Name: "well", Argv: []string{"true"}, Dir: "/"}
	if at, err := l.FindSite(t.Context(), well, waits.Patience); err != nil || at.dir != "/" {
		t.Errorf("the other job: %+v, %v", at, err)
	}
	moved := *stuck
	moved.Dir = "/"
	if at, err := l.FindSite(t.Context(), &moved, waits.Patience); err != nil || at.dir != "/" {
		t.Errorf("the same job after its directory was changed: %+v, %v", at, err)
	}
	revive()
	if _, err := l.FindSite(t.Context(), stuck, waits.Patience); err == nil || errors.Is(err, errSilent) {
		t.Errorf("when the file system answers: %v", err)
	}
	if n := len(l.Files.under); n != 0 {
		t.Errorf("%d looks are under way", n)
	}
}

// Hazard: HOME hangs when the lease is ours already, and nobody renews it while the start hangs.
func TestAStartBesideAHomeThatHangsEndsInTime(t *testing.T) {
	dir, _ := hang(t)
	user, err := user.Current()
	if err != nil {
		t.Fatal(err)
	}
	job := &jobfile.Job{Name: "j", User: user.Username, Argv: []string{"true"}, Dir: dir}
	job.Prefix = "p"
	begin := func(supervise.Options) *supervise.Pending {
		t.Error("a guardian is started")
		return supervise.Begin(supervise.Options{})
	}
	stuck := &launched{Attempt: &Attempt{Launcher: &Launcher{begin: begin}, job: job}}
	failed := make(chan error, 1)
	term := boottime.Now().Add(50 * time.Millisecond)
	go func() { failed <- stuck.Start(nil, nil, nil, runner.Deadline{Term: term, Kill: term, End: term}) }()
	select {
	case err := <-failed:
		if !errors.Is(err, errSilent) {
			t.Errorf("%v, want %v", err, errSilent)
		}
	case <-time.After(waits.Patience):
		t.Error("the start hangs")
	}
	stuck.copies.Wait()
}

// The whole daemon: the tick of a job whose directory hangs is left, another job runs, and a drain ends.
func TestADaemonDrainsBesideADirectoryThatHangs(t *testing.T) {
	dir, _ := hang(t)
	home := t.TempDir()
	file := filepath.Join(home, "jobs.yaml")
	jobs := fmt.Sprintf("jobs:\n  stuck: {every: 1s, command: [\"true\"], dir: %s}\n  well: {every: 1s, command: [echo, well]}\n", dir)
	if err := os.WriteFile(file, []byte(jobs), 0o600); err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command("leaderrun", "--backend", "file://"+filepath.Join(home, "store"), "cron", file)
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	said := make([]byte, len("well\n"))
	if _, err := io.ReadFull(out, said); err != nil || !strings.HasPrefix(string(said), "well") {
		t.Errorf("%q, %v", said, err)
	}
	_ = cmd.Process.Signal(syscall.SIGTERM)
	go func() {
		_, _ = io.Copy(io.Discard, out)
		ended <- cmd.Wait()
	}()
	select {
	case err := <-ended:
		if err != nil {
			t.Error(err)
		}
	case <-time.After(waits.Patience):
		_ = cmd.Process.Kill()
		t.Error("the drain hangs")
	}
}

// What has not begun ends by a signal, whatever the file system does.
func TestWhatHangsBeforehandCanBeInterrupted(t *testing.T) {
	dir, _ := hang(t)
	for name, args := range map[string][]string{
		"the search for the command": {"run", "job", "command"},
		"a job file":                 {"cron", filepath.Join(dir, "jobs.yaml")},
		"a job file that is checked": {"cron", "--check", filepath.Join(dir, "jobs.yaml")},
	} {
		t.Run(name, func(t *testing.T) {
			cmd := exec.Command("leaderrun", append([]string{"--backend", "file://" + t.TempDir()}, args...)...)
			cmd.Env = append(os.Environ(), "PATH="+dir)
			if err := cmd.Start(); err != nil {
				t.Fatal(err)
			}
			servers.Eventually(t, "it hangs", func() bool {
				threads, _ := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/wchan", cmd.Process.Pid))
				for _, path := range threads {
					if where, _ := os.ReadFile(path); strings.Contains(string(where), "fuse") || strings.Contains(string(where), "request_wait_answer") {
						return true
					}
				}
				return false
			})
			_ = cmd.Process.Signal(syscall.SIGTERM)
			ended := make(chan error, 1)
			go func() { ended <- cmd.Wait() }()
			select {
			case <-ended:
				if status, _ := cmd.ProcessState.Sys().(syscall.WaitStatus); status.Signal() != syscall.SIGTERM {
					t.Errorf("ended with %v", cmd.ProcessState)
				}
			case <-time.After(waits.Patience):
				_ = cmd.Process.Kill()
				t.Error("SIGTERM has no effect")
			}
		})
	}
}
