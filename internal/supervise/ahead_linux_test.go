package supervise

import (
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/leaderrun/leaderrun/internal/lifeline"
	"github.com/leaderrun/leaderrun/internal/supervise/ahead"
)

// leaderrunRun are arguments by which package ahead takes a program for `leaderrun run`.
var leaderrunRun = []string{"run", "job", "command"}

func TestOnlyARunHasAGuardianAhead(t *testing.T) {
	for line, want := range map[string]bool{
		"leaderrun run job true":             true,
		"leaderrun run --wait 1m job true":   true,
		"leaderrun run -k 1s job true":       true,
		"leaderrun run - job":                true, // mistaken: it is sent away
		"leaderrun":                          false,
		"leaderrun run":                      false,
		"leaderrun run job":                  false,
		"leaderrun run --help job true":      false,
		"leaderrun run -h job true":          false,
		"leaderrun status run job true":      false,
		"leaderrun --quiet run job true":     false, // its guardian starts later
		"leaderrun.test -test.v run job tru": false,
	} {
		if got := ahead.IsRun(strings.Fields(line)); got != want {
			t.Errorf("%q: %v", line, got)
		}
	}
	if _, ok := ahead.Take(); ok {
		t.Error("this test has one")
	}
}

// eitherWay runs a test with a guardian that was started ahead, and with one that the wrapper starts: both do the same.
func eitherWay(t *testing.T, test func(t *testing.T, ahead bool)) {
	t.Run("ahead", func(t *testing.T) { test(t, true) })
	t.Run("by the wrapper", func(t *testing.T) { test(t, false) })
}

func TestAGuardianStartedAheadGuards(t *testing.T) {
	eitherWay(t, func(t *testing.T, ahead bool) {
		tiers(t, func(t *testing.T, o Options) {
			for name, dies := range map[string]func(w *wrapped){
				"the wrapper is killed":  func(w *wrapped) { must(w.t, w.cmd.Process.Kill()) },
				"the guardian is killed": func(w *wrapped) { must(w.t, syscall.Kill(w.run().pid("guardian"), syscall.SIGKILL)) },
			} {
				w := wrap(t, o, difficult, func(o *wrapperOrder) {
					withDaemon(o)
					o.Ahead = ahead
				})
				w.run().pid("daemon")
				w.run().pid("pid")
				guardian := w.run().pid("guardian")
				if w.free() {
					t.Fatal("the lock is free during the run")
				}
				dies(w)
				if name == "the guardian is killed" { // the wrapper lives, and has the lock
					w.run().file(eventFile(lifeline.Dead))
					w.run().noneLeft()
					continue
				}
				w.freeOnlyWhenDead()
				eventually(t, "the guardian is gone", func() bool { return !running(guardian) })
				w.noCgroup()
			}
		})
	})
}

func TestAWaitingGuardianEndsWithItsWrapper(t *testing.T) {
	eitherWay(t, func(t *testing.T, ahead bool) {
		w := wrap(t, Options{}, "exit 0", func(o *wrapperOrder) { o.Ahead, o.PrepareOnly = ahead, true })
		guardian := w.run().pid("guardian")
		if !running(guardian) {
			t.Error("the guardian does not wait")
		}
		must(t, w.cmd.Process.Kill())
		eventually(t, "the guardian is gone", func() bool { return !running(guardian) })
		w.noCgroup()
	})
}

// Hazard: the wrapper ends (a wrong option) without ever asking for the guardian that its init has started.
func TestAGuardianThatNobodyTakesEnds(t *testing.T) {
	cmd := exec.Command(self(t), append(leaderrunRun, "x")...)
	cmd.Env = append(os.Environ(), helperVariable+"=untaken")
	guardian, err := strconv.Atoi(untaken(t, cmd))
	must(t, err)
	eventually(t, "the guardian is gone", func() bool { return !running(guardian) })
}

// untaken runs helperUntaken. Its output goes to a file: a pipe would have no end before the guardian has.
func untaken(t *testing.T, cmd *exec.Cmd) string {
	t.Helper()
	out, err := os.Create(filepath.Join(t.TempDir(), "out"))
	must(t, err)
	defer out.Close()
	cmd.Stdout, cmd.Stderr = out, os.Stderr
	must(t, cmd.Run())
	text, err := os.ReadFile(out.Name())
	must(t, err)
	return strings.TrimSpace(string(text))
}

// Hazard: `sleep 1000 & exec leaderrun run j cmd` has a child that is nobody's run. With a guardian from init it could
// not be told from one, and the sweep would kill it.
func TestAProcessWithAChildHasNoGuardianAhead(t *testing.T) {
	dir := t.TempDir()
	script := `sleep 1000 & echo $! >stranger.part; mv stranger.part stranger; exec "$0" "$@"`
	cmd := exec.Command("/bin/sh", append([]string{"-c", script, self(t)}, append(leaderrunRun, dir)...)...)
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), helperVariable+"=untaken")
	out := untaken(t, cmd)
	stranger := (&run{t: t, dir: dir}).pid("stranger")
	t.Cleanup(func() { _ = syscall.Kill(stranger, syscall.SIGKILL) })
	if out != "none" {
		t.Errorf("guardian %s was started ahead", out)
	}
	if !running(stranger) {
		t.Error("the stranger is dead")
	}
}
