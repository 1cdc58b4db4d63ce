package supervise

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/leaderrun/leaderrun/internal/boottime"
	"github.com/leaderrun/leaderrun/internal/lifeline"
	"github.com/leaderrun/leaderrun/test/servers"
	"github.com/leaderrun/leaderrun/test/waits"
)

// helperVariable makes the test binary one of the programs in helpers.
const helperVariable = "LEADERRUN_TEST_HELPER"

// The test binary is the guardian too: package guardian runs from init in whatever links it.
func TestMain(m *testing.M) {
	name := os.Getenv(helperVariable)
	if name == "" {
		os.Exit(m.Run())
	}
	helper, ok := helpers[name]
	if !ok {
		fmt.Fprintln(os.Stderr, "no helper", name)
		os.Exit(99)
	}
	helper(os.Args[1:])
}

var patience = waits.Patience

// in returns a deadline that is so far away, with a second between its parts.
func in(d time.Duration) lifeline.Deadline { return within(d, time.Second) }

func within(d, part time.Duration) lifeline.Deadline {
	now := boottime.Now()
	return lifeline.Deadline{Term: now.Add(d), Kill: now.Add(d + part), End: now.Add(d + 2*part)}
}

func far() lifeline.Deadline { return in(time.Hour) }

// prepared returns a guard whose guardian waits for Start.
func prepared(options Options) (*Guard, error) {
	g := newGuard(options)
	err := g.prepare()
	return g, err
}

// tiers runs the test by all means of killing that the host has.
func tiers(t *testing.T, test func(t *testing.T, options Options)) {
	t.Run("subreaper", func(t *testing.T) { test(t, Options{withoutCgroup: true}) })
	t.Run("cgroup", func(t *testing.T) {
		if Tier() != "cgroup+subreaper" {
			servers.Lack(t, "cgroup", "no cgroup can be made here")
		}
		test(t, Options{})
	})
}

// run is one guarded run of a test. Whoever carries its mark in the environment belongs to the tree,
// whatever its parent is: a witness that shares nothing with the code under test.
type run struct {
	*Guard
	t    *testing.T
	dir  string
	mark string
	seen []lifeline.Event
}

func prepare(t *testing.T, options Options) *run {
	t.Helper()
	g, err := prepared(options)
	if err != nil {
		t.Fatal(err)
	}
	r := &run{Guard: g, t: t, dir: t.TempDir(), mark: fmt.Sprintf("LR_MARK=%d-%d", os.Getpid(), boottime.Now())}
	t.Cleanup(func() {
		if g.Close() != nil {
			g.Kill(true)
			r.wait(lifeline.Dead)
			if err := g.Close(); err != nil {
				t.Error("Close:", err)
			}
		}
		r.noneLeft()
		if _, err := os.Stat(g.cgroup); g.cgroup != "" && err == nil {
			t.Errorf("the cgroup %s is still there", g.cgroup)
		}
		if syscall.Kill(g.pid, 0) == nil {
			t.Errorf("the guardian %d is still there", g.pid)
		}
	})
	return r
}

// shell makes a command of a script that works in the test's directory.
func (r *run) shell(script string) Command {
	return Command{
		Path: "/bin/sh", Argv: []string{"sh", "-c", script}, Dir: r.dir, Grace: 200 * time.Millisecond,
		Env: []string{
			"PATH=" + os.Getenv("PATH"), r.mark, helperVariable + "=", "SELF=" + self(r.t),
			"GORACE=atexit_sleep_ms=0",
		}, // the race detector would sleep a second at every exit
	}
}

// helper makes a command of one of the helpers.
func (r *run) helper(name string, args ...string) Command {
	c := r.shell("")
	c.Path, c.Argv = self(r.t), append([]string{name}, args...)
	c.Env[2] = helperVariable + "=" + name
	return c
}

func self(t *testing.T) string {
	t.Helper()
	path, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	return path
}

func (r *run) start(c Command, d lifeline.Deadline) {
	r.t.Helper()
	if err := r.Start(c, d); err != nil {
		r.t.Fatal("Start:", err)
	}
}

// startInTime starts a command whose deadline comes soon and that says "pid" when it is ready. It returns false if that was not before
// the time of SIGTERM.
func (r *run) startInTime(c Command, d lifeline.Deadline) bool {
	r.t.Helper()
	if err := r.Start(c, d); errors.Is(err, ErrTooLate) || errors.Is(err, ErrGuardian) {
		return false
	} else if err != nil {
		r.t.Fatal("Start:", err)
	}
	eventually(r.t, "it is ready, or to end", func() bool { return r.has("pid") || boottime.Now() >= d.Term })
	return boottime.Now() < d.Term
}

// has tells whether there is a file of the run.
func (r *run) has(name string) bool {
	_, err := os.Stat(filepath.Join(r.dir, name))
	return err == nil
}

// wait reads events until one of that kind.
func (r *run) wait(kind lifeline.EventKind) lifeline.Event {
	r.t.Helper()
	limit := time.After(patience)
	for {
		select {
		case e, ok := <-r.Events():
			if !ok {
				r.t.Fatalf("the events ended without kind %d: %v", kind, r.seen)
			}
			r.seen = append(r.seen, e)
			if e.Kind == kind {
				return e
			}
		case <-limit:
			r.t.Fatalf("no event of kind %d: %v", kind, r.seen)
		}
	}
}

func (r *run) saw(kind lifeline.EventKind) bool {
	for _, e := range r.seen {
		if e.Kind == kind {
			return true
		}
	}
	return false
}

// file waits until a file of the run has a whole line, and returns it.
func (r *run) file(name string) string {
	r.t.Helper()
	var text []byte
	eventually(r.t, name, func() bool {
		text, _ = os.ReadFile(filepath.Join(r.dir, name))
		return bytes.HasSuffix(text, []byte("\n"))
	})
	return strings.TrimSpace(string(text))
}

func (r *run) pid(name string) int {
	r.t.Helper()
	pid, err := strconv.Atoi(r.file(name))
	if err != nil {
		r.t.Fatal(err)
	}
	return pid
}

func (r *run) noneLeft() {
	r.t.Helper()
	if left := marked(r.mark); len(left) > 0 {
		r.t.Errorf("of the tree there is still %v", left)
	}
}

// marked lists every living process of this machine that has the mark in its environment.
func marked(mark string) []int {
	var pids []int
	list, _ := filepath.Glob("/proc/[0-9]*/environ")
	for _, path := range list {
		text, _ := os.ReadFile(path)
		if bytes.Contains(text, []byte(mark)) {
			pid, _ := strconv.Atoi(strings.Split(path, "/")[2])
			pids = append(pids, pid)
		}
	}
	return pids
}

// stop stops a process. kill(2) returns before all of its threads stand still: one of them hears of the signal, and tells the others when
// it gets a processor.
func stop(t *testing.T, pid int) {
	t.Helper()
	must(t, syscall.Kill(pid, syscall.SIGSTOP))
	eventually(t, "it stands still", func() bool { return standsStill(pid) })
}

// standsStill says whether every thread of a process is stopped.
func standsStill(pid int) bool {
	tasks, _ := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/stat", pid))
	for _, task := range tasks {
		text, _ := os.ReadFile(task)
		if _, rest, _ := strings.Cut(string(text), ") "); !strings.HasPrefix(rest, "T") {
			return false
		}
	}
	return len(tasks) > 0
}

// inTime tries again what a machine that sleeps spoils, with a longer time. What never succeeds is a fault.
func inTime(t *testing.T, try func(longer func(time.Duration) time.Duration) (slept bool)) {
	t.Helper()
	for i := range 6 {
		if !try(func(d time.Duration) time.Duration { return d << (i / 2) }) {
			return
		}
	}
	t.Fatal("not in time, six times")
}

// eventually polls until the condition holds.
func eventually(t *testing.T, what string, condition func() bool) {
	t.Helper()
	for limit := time.Now().Add(patience); !condition(); time.Sleep(2 * time.Millisecond) {
		if time.Now().After(limit) {
			t.Fatal("it never came true: ", what)
		}
	}
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// running tells whether the process exists and is no zombie.
func running(pid int) bool {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return false
	}
	fields := strings.Fields(string(text[bytes.LastIndexByte(text, ')')+1:]))
	threads := fields[17] // more than one: only the main thread has ended
	return fields[0] != "X" && (fields[0] != "Z" || threads != "0" && threads != "1")
}
