package acceptance

import (
	"cmp"
	"errors"
	"flag"
	"fmt"
	"io"
	"maps"
	"math"
	"os"
	"os/exec"
	"os/signal"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/leaderrun/leaderrun/internal/boottime"
	"github.com/leaderrun/leaderrun/internal/testserver"
)

// beat is how often a witness writes down that it is alive.
const beat = 10 * time.Millisecond

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

// journal is what was read of a witness's log. Tests look at a log again and again while it grows, by a hundred lines a
// second and witness: each line is read once.
type journal struct {
	mu    sync.Mutex
	read  int64 // up to where
	spans map[int64]*runSpan
}

// journals are all, by the paths of their logs.
var journals sync.Map

// readLog returns the runs of a witness's log, in the order of their first beat.
func readLog(t testing.TB, log string) []runSpan {
	t.Helper()
	known, _ := journals.LoadOrStore(log, &journal{spans: map[int64]*runSpan{}})
	j := known.(*journal)
	j.mu.Lock()
	defer j.mu.Unlock()
	if err := j.readOn(log); err != nil {
		t.Fatalf("%s: %v", log, err)
	}
	var spans []runSpan
	for _, s := range j.spans {
		span := *s
		span.pids = maps.Clone(s.pids)
		spans = append(spans, span)
	}
	slices.SortFunc(spans, func(a, b runSpan) int { return cmp.Compare(a.first, b.first) })
	return spans
}

// readOn reads what was written since. A last line without its mark is left for the next time.
func (j *journal) readOn(log string) error {
	f, err := os.Open(log)
	if os.IsNotExist(err) {
		return nil
	}
	if err != nil {
		return err
	}
	defer func() { _ = f.Close() }()
	text, err := io.ReadAll(io.NewSectionReader(f, j.read, math.MaxInt64-j.read))
	if err != nil {
		return err
	}
	for line := range strings.Lines(string(text)) {
		words, whole := strings.CutSuffix(strings.TrimSuffix(line, "\n"), endMark)
		if !whole && !strings.HasSuffix(line, "\n") {
			break
		}
		j.read += int64(len(line))
		if !whole {
			continue
		}
		if err := j.add(words); err != nil {
			return fmt.Errorf("%q: %w", line, err)
		}
	}
	return nil
}

// add takes the words of a line that a witness wrote: five numbers and what happened.
func (j *journal) add(line string) error {
	words := strings.Fields(line)
	if len(words) != 6 {
		return errors.New("not six words")
	}
	var n [5]int64
	for i := range n {
		var err error
		if n[i], err = strconv.ParseInt(words[i], 10, 64); err != nil {
			return err
		}
	}
	at, token, pid := boottime.Instant(n[0]), n[1], int(n[2])
	s := j.spans[token]
	if s == nil {
		s = &runSpan{token: token, first: at, last: at, pids: map[int]bool{}, tick: n[3], attempt: int(n[4])}
		j.spans[token] = s
	}
	s.first, s.last = min(s.first, at), max(s.last, at)
	s.pids[pid] = true
	s.over = s.over || words[5] == wordOver
	return nil
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
