package supervise

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/leaderrun/leaderrun/internal/lifeline"
)

func shell(line string) Command { return Command{Path: "/bin/sh", Argv: []string{"sh", "-c", line}} }

func TestRunPiped(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		line, want string
		status     lifeline.Status
	}{
		{"echo one; echo two", "one\ntwo\n", lifeline.Status{Known: true}},
		{"true", "", lifeline.Status{Known: true}},
		{"echo one; exit 3", "one\n", lifeline.Status{Known: true, Code: 3}},
		{"echo one; kill -KILL $$", "one\n", lifeline.Status{Known: true, Signal: syscall.SIGKILL}},
		{"(sleep 0.1; echo late) & echo soon", "soon\nlate\n", lifeline.Status{Known: true}}, // and is waited for
		{"head -c 1000000 /dev/zero", strings.Repeat("\x00", 1_000_000), lifeline.Status{Known: true}},
	} {
		var out bytes.Buffer
		status, err := RunPiped(shell(c.line), &out, nil)
		if err != nil || status != c.status {
			t.Errorf("%s: %+v and %v, want %+v", c.line, status, err, c.status)
		}
		// Of one that failed nobody needs all.
		if got := out.String(); got != c.want && (c.status.ExitCode() == 0 || !strings.HasPrefix(c.want, got)) {
			t.Errorf("%s: %d bytes: %.40q, want %.40q", c.line, len(got), got, c.want)
		}
	}
}

// lineWriter tells the first line that comes.
type lineWriter chan string

func (w lineWriter) Write(p []byte) (int, error) {
	select {
	case w <- string(p):
	default:
	}
	return len(p), nil
}

// Hazard: a signal is not passed on, or what the command left behind keeps the program for hours after it.
func TestRunPipedPassesSignalsOn(t *testing.T) {
	t.Parallel()
	for line, want := range map[string]lifeline.Status{
		"echo $$; exec sleep 1000": {Known: true, Signal: syscall.SIGTERM},
		// The one that is left goes with a SIGPIPE.
		`trap "exit 0" TERM; (while echo $$; do sleep 0.01; done) & echo $$; while :; do sleep 0.01; done`: {Known: true},
	} {
		signals := make(chan syscall.Signal, 1)
		pid, ended := startPiped(t, line, signals)
		signals <- syscall.SIGTERM
		ends(t, line, pid, ended, want)
	}
}

// startPiped runs a command that says its pid first.
func startPiped(t *testing.T, line string, signals <-chan syscall.Signal) (pid int, ended <-chan lifeline.Status) {
	t.Helper()
	first, over := make(lineWriter, 1), make(chan lifeline.Status, 1)
	go func() {
		status, err := RunPiped(shell(line), first, signals)
		if err != nil {
			t.Error(err)
		}
		over <- status
	}()
	pid, err := strconv.Atoi(strings.Fields(<-first)[0])
	if err != nil {
		t.Fatal(err)
	}
	return pid, over
}

// ends waits for the end of a command, and makes one if there is none.
func ends(t *testing.T, what string, pid int, ended <-chan lifeline.Status, want lifeline.Status) {
	t.Helper()
	select {
	case got := <-ended:
		if got != want {
			t.Fatalf("%s: %+v, want %+v", what, got, want)
		}
	case <-time.After(patience):
		_ = syscall.Kill(pid, syscall.SIGKILL)
		t.Fatalf("%s: it goes on", what)
	}
}

// busy is a line of the shell that goes on for ten seconds at least, and for longer where the machine is busy: what nobody ends
// ends by itself then, with a status that no test wants.
const busy = "i=0; while [ $((i += 1)) -lt 1000 ]; do sleep 0.01; done; exit 9"

// stopped waits until a process is stopped.
func stopped(t *testing.T, pid int) {
	t.Helper()
	for end := time.Now().Add(patience); ; time.Sleep(time.Millisecond) {
		text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
		switch {
		case err != nil:
			t.Fatal(err)
		case strings.Contains(string(text), ") T "):
			return
		case time.Now().After(end):
			t.Fatalf("it is not stopped: %s", text)
		}
	}
}

// Hazard: a command that is stopped never hears that it is to end.
func TestRunPipedWakesWhatIsStopped(t *testing.T) {
	t.Parallel()
	noNohup(t)
	for _, sig := range []syscall.Signal{syscall.SIGTERM, syscall.SIGHUP} {
		signals := make(chan syscall.Signal, 1)
		pid, ended := startPiped(t, "echo $$; kill -STOP $$; "+busy, signals)
		stopped(t, pid)
		signals <- sig
		ends(t, sig.String(), pid, ended, lifeline.Status{Known: true, Signal: sig})
	}
}

// Hazard: a command that ignores signals cannot be ended but by who knows its pid.
func TestRunPipedKillsAtTheSecondAsking(t *testing.T) {
	t.Parallel()
	const deaf, reloads = "trap '' TERM INT HUP QUIT", "trap '' HUP QUIT; trap 'exit 5' TERM"
	killed := lifeline.Status{Known: true, Signal: syscall.SIGKILL}
	for _, c := range []struct {
		line string
		sent []syscall.Signal
		want lifeline.Status
	}{
		{deaf, []syscall.Signal{syscall.SIGTERM, syscall.SIGTERM}, killed},
		{deaf, []syscall.Signal{syscall.SIGINT, syscall.SIGTERM}, killed},
		{deaf, []syscall.Signal{syscall.SIGHUP, syscall.SIGTERM, syscall.SIGQUIT, syscall.SIGINT}, killed},
		{reloads, []syscall.Signal{syscall.SIGHUP, syscall.SIGQUIT, syscall.SIGHUP, syscall.SIGTERM}, lifeline.Status{Known: true, Code: 5}},
	} {
		signals := make(chan syscall.Signal)
		pid, ended := startPiped(t, c.line+"; echo $$; "+busy, signals)
		for _, sig := range c.sent {
			signals <- sig
		}
		ends(t, fmt.Sprint(c.line, c.sent), pid, ended, c.want)
	}
}

// full is a writer that takes no more after some bytes.
type full struct{ left int }

var errFull = errors.New("full")

func (w *full) Write(p []byte) (int, error) {
	if w.left -= len(p); w.left < 0 {
		return 0, errFull
	}
	return len(p), nil
}

// Hazard: a command that does not mind a closed stdout is waited for as long as it likes, after the disk is full.
func TestRunPipedEndsTheCommandAfterTheWritersError(t *testing.T) {
	t.Parallel()
	for _, line := range []string{
		"trap '' PIPE; echo x; " + busy,
		"trap '' PIPE; echo x; kill -STOP $$; " + busy,
	} {
		type end struct {
			status lifeline.Status
			err    error
		}
		ended, signals := make(chan end, 1), make(chan syscall.Signal)
		go func() {
			status, err := RunPiped(shell(line), &full{}, signals)
			ended <- end{status, err}
		}()
		select {
		case got := <-ended:
			if want := (lifeline.Status{Known: true, Signal: syscall.SIGTERM}); got.status != want || !errors.Is(got.err, errFull) {
				t.Fatalf("%s: %+v and %v, want %+v and %v", line, got.status, got.err, want, errFull)
			}
		case <-time.After(patience):
			signals <- syscall.SIGTERM
			t.Fatalf("%s: it goes on", line)
		}
	}
}
