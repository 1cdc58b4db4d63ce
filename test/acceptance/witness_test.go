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
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/leaderrun/leaderrun/internal/boottime"
	_ "github.com/leaderrun/leaderrun/internal/cli" // go test keeps a result until what it is made of changes: the program is part of that
	"github.com/leaderrun/leaderrun/test/servers"
)

// Roles of the witness: see its program.
const (
	roleWitness  = "beats"
	roleStubborn = "stubborn"
)

// roleFetch is what the test binary is started for on another host: to look at a page.
const roleFetch = "fetch"

// The programs under test, and the command that they run.
var binary, witness string

func TestMain(m *testing.M) {
	if len(os.Args) > 2 && os.Args[1] == roleFetch {
		fetch(os.Args[2])
		return
	}
	// A process with the race detector lingers for a second when it ends, unless it is told: here what fetches.
	if err := os.Setenv("GORACE", "atexit_sleep_ms=0"); err != nil {
		panic(err)
	}
	// These tests wait more than they work. -parallel on the command line still counts.
	if err := flag.Set("test.parallel", "12"); err != nil {
		panic(err)
	}
	os.Exit(servers.RunWithProgram(m, func(path string) {
		binary, witness = path, filepath.Join(filepath.Dir(path), "witness")
	}, "./witness"))
}

// How a witness ends a line: the last word of one that came to its end, and the mark of a whole line.
const (
	wordOver = "over"
	endMark  = " ."
)

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
