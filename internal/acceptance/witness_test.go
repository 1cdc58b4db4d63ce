package acceptance

import (
	"bufio"
	"cmp"
	"flag"
	"fmt"
	"maps"
	"math"
	"os"
	"os/exec"
	"os/signal"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/leaderrun/leaderrun/internal/boottime"
	"github.com/leaderrun/leaderrun/internal/testserver"
)

// beat is how often a witness writes down that it is alive.
const beat = 5 * time.Millisecond

// Roles of the test binary when leaderrun starts it as a command.
const (
	roleWitness  = "witness"          // beats
	roleStubborn = "stubborn-witness" // beats, ignores SIGTERM, and has an orphan that does the same
	roleMiddle   = "witness-middle"   // starts the orphan in a session of its own, and ends
	roleOrphan   = "witness-orphan"   // beats
	roleFetch    = "fetch"            // looks at a page
)

func TestMain(m *testing.M) {
	if len(os.Args) > 2 {
		switch role, log := os.Args[1], os.Args[2]; role {
		case roleWitness, roleStubborn:
			witness(role, log)
		case roleMiddle:
			spawn(roleOrphan, log, &syscall.SysProcAttr{Setsid: true})
			return
		case roleOrphan:
			signal.Ignore(syscall.SIGTERM, syscall.SIGHUP)
			beatFor(forever, log)
		case roleFetch:
			fetch(log)
			return
		}
	}
	// A process with the race detector lingers for a second when it ends, unless it is told: here a witness.
	if err := os.Setenv("GORACE", "atexit_sleep_ms=0"); err != nil {
		panic(err)
	}
	// These tests wait more than they work. -parallel on the command line still counts.
	if err := flag.Set("test.parallel", "8"); err != nil {
		panic(err)
	}
	os.Exit(testserver.RunWithProgram(m, func(path string) { binary = path }))
}

// witness beats. The stubborn one has an orphan that left its process group and session beat as well: both
// must be dead before another run starts. With a third argument it ends after that many milliseconds, and says so.
func witness(role, log string) {
	if role == roleStubborn {
		signal.Ignore(syscall.SIGTERM)
		spawn(roleMiddle, log, &syscall.SysProcAttr{Setsid: true})
	}
	life := forever
	if len(os.Args) > 3 {
		ms, _ := strconv.Atoi(os.Args[3])
		life = time.Duration(ms) * time.Millisecond
	}
	beatFor(life, log)
}

func spawn(role, log string, attr *syscall.SysProcAttr) {
	self, err := os.Executable()
	if err != nil {
		panic(err)
	}
	cmd := exec.Command(self, role, log)
	cmd.SysProcAttr = attr
	if err := cmd.Start(); err != nil {
		panic(err)
	}
}

const forever = time.Duration(math.MaxInt64)

// The last word of a line but its mark.
const (
	wordBeat = "beat"
	wordOver = "over" // the work is done
)

// endMark ends a whole line of the log. A line that crosses a page may be read, or be cut off by SIGKILL, in
// the middle; one that begins with its newline spoils no other.
const endMark = " ."

// beatFor appends one short line at a time, and ends the process after its life.
func beatFor(life time.Duration, log string) {
	f, err := os.OpenFile(log, os.O_APPEND|os.O_WRONLY|os.O_CREATE, 0o666)
	if err != nil {
		panic(err)
	}
	say := func(word string) {
		_, err := fmt.Fprintf(f, "\n%d %s %d %s %s %s"+endMark, boottime.Now(), os.Getenv("LEADERRUN_TOKEN"), os.Getpid(),
			cmp.Or(os.Getenv("LEADERRUN_TICK_UNIX"), "0"), cmp.Or(os.Getenv("LEADERRUN_ATTEMPT"), "0"), word)
		if err != nil {
			panic(err)
		}
	}
	for begun := time.Now(); time.Since(begun) < life; time.Sleep(beat) {
		say(wordBeat)
	}
	say(wordOver)
	os.Exit(0)
}

// runSpan is one run as the witness saw it.
type runSpan struct {
	token       int64
	first, last boottime.Instant
	pids        map[int]bool
	tick        int64 // 0: none
	attempt     int
	over        bool // it came to its end by itself
}

// readLog returns the runs of a witness's log, in the order of their first beat.
func readLog(t testing.TB, log string) []runSpan {
	t.Helper()
	f, err := os.Open(log)
	if os.IsNotExist(err) {
		return nil
	}
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = f.Close() }()
	spans := map[int64]*runSpan{}
	for lines := bufio.NewScanner(f); lines.Scan(); {
		if !strings.HasSuffix(lines.Text(), endMark) {
			continue
		}
		var at boottime.Instant
		var token, tick int64
		var pid, attempt int
		var word string
		if _, err := fmt.Sscan(lines.Text(), &at, &token, &pid, &tick, &attempt, &word); err != nil {
			t.Fatalf("%s: %q: %v", log, lines.Text(), err)
		}
		s := spans[token]
		if s == nil {
			s = &runSpan{token: token, first: at, last: at, pids: map[int]bool{}, tick: tick, attempt: attempt}
			spans[token] = s
		}
		s.first, s.last = min(s.first, at), max(s.last, at)
		s.pids[pid] = true
		s.over = s.over || word == wordOver
	}
	return slices.SortedFunc(func(yield func(runSpan) bool) {
		for s := range maps.Values(spans) {
			if !yield(*s) {
				return
			}
		}
	}, func(a, b runSpan) int { return int(a.first - b.first) })
}

// verdict fails the test if two runs overlapped, or a token did not grow.
func verdict(t testing.TB, log string) []runSpan {
	t.Helper()
	spans := readLog(t, log)
	for i := 1; i < len(spans); i++ {
		was, is := spans[i-1], spans[i]
		if is.first <= was.last {
			t.Errorf("two runs at once: token %d beat until %v after token %d had begun", was.token, was.last.Sub(is.first), is.token)
		}
		if is.token <= was.token {
			t.Errorf("token %d came after token %d", is.token, was.token)
		}
	}
	return spans
}

// last returns the last run of a log that is certain to be whole; its zero value before the first beat.
func last(t testing.TB, log string) runSpan {
	t.Helper()
	if spans := readLog(t, log); len(spans) > 0 {
		return spans[len(spans)-1]
	}
	return runSpan{}
}

// binary is the program under test.
var binary string
