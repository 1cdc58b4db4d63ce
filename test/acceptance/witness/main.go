// Witness is the command of the tests in package acceptance: each of its processes writes down again and again that it is
// alive, in a log that all runs of a job share. It is a program of its own because hundreds of it start, and write a
// hundred times a second: the test binary, with the race detector in it, would keep the machine busy.
//
//	witness beats|stubborn LOG [MILLISECONDS]
//
// With a third word it ends after that time, and says that it came to its end. A stubborn one ignores SIGTERM, and has
// an orphan in a session of its own that does the same: both must be dead before another run starts.
package main

import (
	"cmp"
	"fmt"
	"math"
	"os"
	"os/exec"
	"os/signal"
	"runtime"
	"strconv"
	"syscall"
	"time"

	"github.com/leaderrun/leaderrun/internal/boottime"
)

// beat is how often a witness writes down that it is alive.
const beat = 10 * time.Millisecond

const forever = time.Duration(math.MaxInt64)

// Roles. The last two are for a stubborn witness to start.
const (
	roleBeats    = "beats"
	roleStubborn = "stubborn"
	roleMiddle   = "middle" // starts the orphan in a session of its own, and ends
	roleOrphan   = "orphan"
)

func main() {
	if err := run(); err != nil {
		fmt.Fprintln(os.Stderr, "witness:", err)
		os.Exit(1)
	}
}

func run() error {
	runtime.GOMAXPROCS(1) // it sleeps, and looks for no work on its way there
	if len(os.Args) < 3 {
		return fmt.Errorf("%d words, want a role and a log", len(os.Args))
	}
	role, log, life := os.Args[1], os.Args[2], forever
	if len(os.Args) > 3 {
		ms, err := strconv.Atoi(os.Args[3])
		if err != nil {
			return err
		}
		life = time.Duration(ms) * time.Millisecond
	}
	switch role {
	case roleBeats:
	case roleStubborn:
		signal.Ignore(syscall.SIGTERM)
		if err := spawn(roleMiddle, log); err != nil {
			return err
		}
	case roleMiddle:
		return spawn(roleOrphan, log)
	case roleOrphan:
		signal.Ignore(syscall.SIGTERM, syscall.SIGHUP)
	default:
		return fmt.Errorf("no role %q", role)
	}
	return beatFor(life, log)
}

// spawn starts another process of the run, in a session of its own.
func spawn(role, log string) error {
	self, err := os.Executable()
	if err != nil {
		return err
	}
	cmd := exec.Command(self, role, log)
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	return cmd.Start()
}

// beatFor appends one short line at a time: when, token, process, tick, attempt, and "beat" or, at the end of its life,
// "over". A line that crosses a page may be read, or be cut off by SIGKILL, in the middle: each ends with a mark, and
// begins with its newline, so that none spoils another.
func beatFor(life time.Duration, log string) error {
	f, err := os.OpenFile(log, os.O_APPEND|os.O_WRONLY|os.O_CREATE, 0o666)
	if err != nil {
		return err
	}
	words := fmt.Sprintf("%s %d %s %s", os.Getenv("LEADERRUN_TOKEN"), os.Getpid(),
		cmp.Or(os.Getenv("LEADERRUN_TICK_UNIX"), "0"), cmp.Or(os.Getenv("LEADERRUN_ATTEMPT"), "0"))
	say := func(word string) error {
		_, err := fmt.Fprintf(f, "\n%d %s %s .", boottime.Now(), words, word)
		return err
	}
	for begun := time.Now(); time.Since(begun) < life; time.Sleep(beat) {
		if err := say("beat"); err != nil {
			return err
		}
	}
	return say("over")
}
