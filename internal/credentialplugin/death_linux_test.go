package credentialplugin_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/leaderrun/leaderrun/internal/credentialplugin"
	"github.com/leaderrun/leaderrun/test/servers"
)

const (
	roleEnv = "LEADERRUN_CREDENTIALPLUGIN_ROLE" // makes the test binary an asker
	nobody  = 65534
)

func TestMain(m *testing.M) {
	if os.Getenv(roleEnv) == "" {
		os.Exit(m.Run())
	}
	if err := ask(os.Args[1]); err != nil {
		fmt.Println("error:", err)
		os.Exit(1)
	}
}

// ask is a process that asks a plugin for a credential. When it is told to, it becomes a user who may not kill the plugin, and
// has had enough.
func ask(script string) error {
	s := credentialplugin.New(credentialplugin.Plugin{APIVersion: credentialplugin.V1, Command: "/bin/sh", Args: []string{script}})
	go func() { _, _ = s.Get(context.Background()) }()
	told := bufio.NewReader(os.Stdin)
	if _, err := told.ReadString('\n'); err != nil {
		return err
	}
	if err := errors.Join(syscall.Setuid(nobody), s.Close()); err != nil {
		return err
	}
	fmt.Println("closed")
	_, err := io.Copy(io.Discard, told)
	return err
}

// asker is such a process, and its plugin, which prints nothing.
type asker struct {
	process *exec.Cmd
	in      io.Writer
	said    <-chan string // its first line
	plugin  int
}

func newAsker(t *testing.T) *asker {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	pid := filepath.Join(t.TempDir(), "pid")
	p := script(t, "echo $$ > "+pid+".new; mv "+pid+".new "+pid+"; exec sleep 1000")
	said := make(chan string, 1)
	a := &asker{process: exec.CommandContext(t.Context(), self, p.Args...), said: said}
	a.process.Env = append(os.Environ(), roleEnv+"=1")
	in, errIn := a.process.StdinPipe()
	out, errOut := a.process.StdoutPipe()
	if err := errors.Join(errIn, errOut, a.process.Start()); err != nil {
		t.Fatal(err)
	}
	a.in = in
	t.Cleanup(func() {
		_ = a.process.Process.Kill()
		_ = a.process.Wait()
		if t.Failed() && a.plugin != 0 {
			_ = syscall.Kill(a.plugin, syscall.SIGKILL)
		}
	})
	go func() { line, _ := bufio.NewReader(out).ReadString('\n'); said <- line }()
	eventually(t, "the plugin has started", func() bool {
		text, err := os.ReadFile(pid)
		if err == nil {
			_, err = fmt.Sscan(string(text), &a.plugin)
		}
		return err == nil
	})
	return a
}

// TestDiesWithItsProcess: hazard: a process is killed, and the plugin that it has started goes on for ever.
func TestDiesWithItsProcess(t *testing.T) {
	t.Parallel()
	a := newAsker(t)
	if err := a.process.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the plugin dies with the process that has started it", func() bool { return !isRunning(a.plugin) })
}

// TestNotOursToKill: hazard: a plugin has become another user, and whoever has started it waits for its end, without an end.
// When it does end, it is waited for, and leaves no zombie.
func TestNotOursToKill(t *testing.T) {
	t.Parallel()
	if os.Geteuid() != 0 {
		servers.Lack(t, "root", "only root can start what it then may not kill")
	}
	a := newAsker(t)
	if _, err := io.WriteString(a.in, "enough\n"); err != nil {
		t.Fatal(err)
	}
	select {
	case line := <-a.said:
		if line != "closed\n" {
			t.Fatalf("%q", line)
		}
	case <-time.After(enough):
		t.Fatal("the source does not close")
	}
	if !isRunning(a.plugin) {
		t.Fatal("the plugin was killed: the test has tested nothing")
	}
	if err := syscall.Kill(a.plugin, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the plugin is waited for", func() bool { return errors.Is(syscall.Kill(a.plugin, 0), syscall.ESRCH) })
}
