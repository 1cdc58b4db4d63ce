package acceptance

import (
	"encoding/json"
	"flag"
	"math"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/leaderrun/leaderrun/internal/boottime"
	_ "github.com/leaderrun/leaderrun/internal/cli" // go test keeps a result until what it is made of changes: the program is part of that
	"github.com/leaderrun/leaderrun/test/servers"
	"github.com/leaderrun/leaderrun/test/witness/beats"
)

// stubborn as a witness's last word makes it ignore SIGTERM, and start a child and an orphan: see its program.
const stubborn = "stubborn"

const forever = time.Duration(math.MaxInt64)

// roleFetch is what the test binary is started for on another host: to look at a page.
const roleFetch = "fetch"

// The programs under test, and the command that they run.
var binary, witness string

// witnessOf is the witness of a job as a command: its processes write into a folder.
func witnessOf(dir, job string, life time.Duration, more ...string) []string {
	const anyHost, anyNumber = "host", "0"
	return append([]string{witness, dir, job, anyHost, life.String(), anyNumber}, more...)
}

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
	}, "../witness"))
}

// flow is a command in a job file.
func flow(words []string) string {
	text, err := json.Marshal(words) // which is YAML
	if err != nil {
		panic(err)
	}
	return string(text)
}

// runSpan is one run as the witness saw it.
type runSpan struct {
	token       int64
	first, last boottime.Instant
	pids        map[int]bool
	tick        int64 // 0: none
	attempt     int
	over        bool // it came to its end by itself

	still time.Duration // the longest time between two beats of one of its processes
}

// lived returns for how long a run lived on after an instant. While the machine lets it do nothing, it lets nobody end it either: that
// time does not count.
func (s runSpan) lived(after boottime.Instant) time.Duration { return s.last.Sub(after) - s.still }

// runsOf returns the runs of a job whose witnesses write into a folder, in the order of their first beat.
func runsOf(t testing.TB, dir, job string) []runSpan {
	t.Helper()
	all, err := beats.Read(dir)
	if err != nil {
		t.Fatal(err)
	}
	var runs []runSpan
	index := map[string]int{}
	for _, s := range all {
		if s.Job != job {
			continue
		}
		i, known := index[s.Run]
		if !known {
			i = len(runs)
			index[s.Run] = i
			runs = append(runs, runSpan{token: s.Token, first: s.First, pids: map[int]bool{}, tick: s.Tick, attempt: s.Attempt})
		}
		runs[i].last = max(runs[i].last, s.Last)
		runs[i].still = max(runs[i].still, s.Pause)
		runs[i].pids[s.PID] = true
		runs[i].over = runs[i].over || s.Over
	}
	return runs
}

// verdict fails the test if two runs overlapped, or a token did not grow.
func verdict(t testing.TB, dir, job string) []runSpan {
	t.Helper()
	spans := runsOf(t, dir, job)
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

// last returns the last run of a job; its zero value before the first beat.
func last(t testing.TB, dir, job string) runSpan {
	t.Helper()
	if spans := runsOf(t, dir, job); len(spans) > 0 {
		return spans[len(spans)-1]
	}
	return runSpan{}
}
