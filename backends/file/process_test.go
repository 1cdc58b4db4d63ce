package file

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/leaderrun/leaderrun/backends"
	"github.com/leaderrun/leaderrun/test/suite"
)

const helperEnv = "LEADERRUN_TEST_HELPER" // what this test binary does as a process of its own

func TestMain(m *testing.M) {
	if what := os.Getenv(helperEnv); what != "" {
		if err := help(what, os.Args[1]); err != nil {
			fmt.Println("error:", err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	goleak.VerifyTestMain(m)
}

// help is one run of leaderrun as far as the store can see it.
func help(what, dir string) error {
	ctx, cancel := context.WithTimeout(context.Background(), suite.Patience)
	defer cancel()
	d, err := newDriver(dir)
	if err != nil {
		return err
	}
	switch what {
	case "hold": // until killed
		if _, err := d.Acquire(ctx, claimFor("job")); err != nil {
			return err
		}
		fmt.Println("held")
		_, _ = io.Copy(io.Discard, os.Stdin)
	case "hold with child": // a child that has inherited the lock
		g, err := d.Acquire(ctx, claimFor("job"))
		if err != nil {
			return err
		}
		cmd := exec.CommandContext(ctx, "sleep", "1000")
		cmd.ExtraFiles = g.Inherit
		if err := cmd.Start(); err != nil {
			return err
		}
		fmt.Println("held", cmd.Process.Pid)
		_, _ = io.Copy(io.Discard, os.Stdin)
	case "stand by":
		return standBy(ctx, d)
	}
	return nil
}

func claimFor(job string) backends.Claim {
	c := suite.NewClaim(job, time.Minute)
	c.Holder.PID = os.Getpid()
	return c
}

// standBy looks only when it is woken, and finishes as soon as it is granted.
func standBy(ctx context.Context, d *driver) error {
	woken, err := d.Watch(ctx, "job")
	if err != nil {
		return err
	}
	<-woken // it stands
	fmt.Println("watching")
	c := claimFor("job")
	for range woken {
		g, err := d.Acquire(ctx, c)
		if r, ok := errors.AsType[*backends.Refusal](err); ok && r.Verdict == backends.Held {
			continue
		}
		if err != nil {
			return err
		}
		fmt.Println("granted", g.Token)
		return d.Finish(ctx, g, backends.Outcome{State: backends.Done})
	}
	return ctx.Err()
}

// helper is another process at work.
type helper struct {
	*exec.Cmd
	out *bufio.Scanner
}

func start(t *testing.T, what, dir string) *helper {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), os.Args[0], dir)
	cmd.Env = append(os.Environ(), helperEnv+"="+what)
	if _, err := cmd.StdinPipe(); err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	h := &helper{cmd, bufio.NewScanner(out)}
	t.Cleanup(h.kill)
	return h
}

func (h *helper) kill() {
	_ = h.Process.Kill()
	_ = h.Wait()
}

// says returns what follows a word in the helper's next line.
func (h *helper) says(t *testing.T, word string) string {
	t.Helper()
	if !h.out.Scan() {
		t.Fatalf("the helper is gone, want %q: %v", word, h.out.Err())
	}
	rest, ok := strings.CutPrefix(h.out.Text(), word)
	if !ok {
		t.Fatalf("the helper says %q, want %q", h.out.Text(), word)
	}
	return strings.TrimSpace(rest)
}

// acquireSoon is acquire once the lock is free: the kernel may take a moment to end a process.
func acquireSoon(t *testing.T, d *driver, c backends.Claim) backends.Grant {
	t.Helper()
	for end := time.Now().Add(suite.Patience); ; time.Sleep(time.Millisecond) {
		g, err := d.Acquire(t.Context(), c)
		if err == nil {
			return g
		}
		if r, ok := errors.AsType[*backends.Refusal](err); !ok || r.Verdict != backends.Held || time.Now().After(end) {
			t.Fatalf("Acquire: %v", err)
		}
	}
}

func TestInheritedLockOutlivesTheWrapper(t *testing.T) {
	steps := suite.On(t)
	dir := t.TempDir()
	d := openDir(t, dir)
	h := start(t, "hold with child", dir)
	pid, err := strconv.Atoi(h.says(t, "held"))
	if err != nil {
		t.Fatal(err)
	}
	child, err := os.FindProcess(pid)
	if err != nil {
		t.Fatal(err)
	}
	h.kill()
	for range 20 {
		steps.Refused(d, claimFor("job"), backends.Held)
		time.Sleep(5 * time.Millisecond)
	}
	if err := child.Kill(); err != nil {
		t.Fatal(err)
	}
	steps.Finish(d, acquireSoon(t, d, claimFor("job")))
}
