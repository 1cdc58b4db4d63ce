package metrics

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/leaderrun/leaderrun/backends"
	"github.com/leaderrun/leaderrun/internal/filename"
	"github.com/leaderrun/leaderrun/internal/flock"
	"github.com/leaderrun/leaderrun/runner"
)

// writes is the variable that makes the test binary a program that writes so many runs of a job into the directory
// of its argument.
const writes = "METRICS_TEST_WRITES"

func TestMain(m *testing.M) {
	n, err := strconv.Atoi(os.Getenv(writes))
	if err != nil {
		os.Exit(m.Run())
	}
	for range n {
		f := NewTextfile(os.Args[1], "job")
		f.patience = time.Minute
		f.Ended("job", ran("h", 0), time.Time{}, tick)
		if err := f.Write(); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
	}
}

// skip writes the metrics of a run that was skipped.
func skip(dir, job string) error {
	f := NewTextfile(dir, job)
	f.Ended(job, refusal(backends.Held, false), time.Time{}, tick)
	return f.Write()
}

func contentOf(t *testing.T, dir, job string) []byte {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(dir, "leaderrun_"+filename.Escape(job)+".prom"))
	if err != nil {
		t.Fatal(err)
	}
	return text
}

func TestRunsAddToTheFile(t *testing.T) {
	dir := t.TempDir()
	for n, r := range []runner.Result{ran("h", 0), ran("h", 3), refusal(backends.IsDone, false)} {
		f := NewTextfile(dir, "nightly report")
		if r.Ending == runner.Ran {
			observe(f.Set, "nightly report", "h")
		}
		at := tick.Add(time.Duration(n) * time.Hour)
		f.Ended("nightly report", r, at, at.Add(12*time.Second))
		if err := f.Write(); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile("testdata/three-runs.prom")
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), string(contentOf(t, dir, "nightly report"))); diff != "" {
		t.Errorf("the file differs from testdata/three-runs.prom (-):\n%s", diff)
	}
}

// What is in the file's place and not leaderrun's must not be added to, nor stop the counting.
func TestAForeignFileIsReplaced(t *testing.T) {
	dir := t.TempDir()
	if err := skip(dir, "job"); err != nil {
		t.Fatal(err)
	}
	own := string(contentOf(t, dir, "job"))
	const (
		sample  = `{job="job",outcome="skipped_held"}`
		refused = -1
	)
	changed := func(from, to string) string {
		if !strings.Contains(own, from) {
			t.Fatalf("the file has no %s", from)
		}
		return strings.ReplaceAll(own, from, to)
	}
	histogram := func(buckets, count string) string {
		d := definitions[duration]
		return "# HELP " + d.name + " " + d.help + "\n# TYPE " + d.name + " histogram\n" + buckets +
			d.name + "_sum{job=\"job\"} 9\n" + d.name + "_count{job=\"job\"} " + count + "\n"
	}
	bucket := func(le, n string) string {
		return definitions[duration].name + "_bucket{job=\"job\",le=\"" + le + "\"} " + n + "\n"
	}
	for name, c := range map[string]struct {
		old   string
		taken int // how many of its runs are counted on; refused: it is not leaderrun's
	}{
		"ours": {own, 1},
		"with what a later one counts": {own +
			"# HELP leaderrun_ticks_new_total New.\n# TYPE leaderrun_ticks_new_total counter\nleaderrun_ticks_new_total{x=\"y\"} 1\n", 1},
		"another help text":     {changed("# HELP leaderrun_runs_total ", "# HELP leaderrun_runs_total Once "), 1},
		"of another job":        {changed(`"job"`, `"other"`), refused},
		"empty":                 {"", refused},
		"torn":                  {own[:len(own)-20] + "{", refused},
		"somebody else's":       {own + "# HELP node_x X.\n# TYPE node_x counter\nnode_x 1\n", refused},
		"without a type":        {changed("# TYPE leaderrun_runs_total counter\n", ""), refused},
		"one label more":        {changed(sample, `{job="job",outcome="skipped_held",host="h"}`), refused},
		"another label":         {changed(sample, `{job="job",host="h"}`), refused},
		"without labels":        {changed(sample, ""), refused},
		"a sample twice":        {changed("leaderrun_runs_total"+sample+" 1\n", strings.Repeat("leaderrun_runs_total"+sample+" 1\n", 2)), refused},
		"in another order":      {own + "# HELP leaderrun_new New.\n# TYPE leaderrun_new gauge\nleaderrun_new 1\n", refused},
		"with a time":           {changed(sample+" 1", sample+" 1 1700000000000"), refused},
		"not a number":          {changed(sample+" 1", sample+" NaN"), refused},
		"less than nothing":     {changed(sample+" 1", sample+" -1"), refused},
		"buckets of another":    {histogram(bucket("7", "5")+bucket("+Inf", "5"), "5"), 0}, // they cannot be told by ours
		"buckets that fall":     {histogram(bucket("7", "5")+bucket("8", "4")+bucket("+Inf", "5"), "5"), refused},
		"buckets without a sum": {histogram(bucket("7", "6")+bucket("+Inf", "5"), "5"), refused},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			if err := os.WriteFile(filepath.Join(dir, "leaderrun_job.prom"), []byte(c.old), 0o600); err != nil {
				t.Fatal(err)
			}
			err := skip(dir, "job")
			if (c.taken == refused) != (err != nil) {
				t.Errorf("error %v", err)
			}
			// The help is that of this version: a node exporter wants one for all files.
			want := changed(sample+" 1", fmt.Sprintf("%s %d", sample, 1+max(c.taken, 0)))
			if diff := cmp.Diff(want, string(contentOf(t, dir, "job"))); diff != "" {
				t.Errorf("want (-), got (+):\n%s", diff)
			}
			if err := skip(dir, "job"); err != nil {
				t.Errorf("and again: %v", err)
			}
		})
	}
}

// A file that is not ours is refused or understood, whatever it holds; what was understood is written so that a node
// exporter takes it.
func FuzzParseOld(f *testing.F) {
	f.Add("# HELP leaderrun_leading x\n# TYPE leaderrun_leading gauge\nleaderrun_leading{job=\"job\"} 1 1700000000000\n")
	f.Add("# HELP leaderrun_renewal_seconds x\n# TYPE leaderrun_renewal_seconds histogram\n" +
		"leaderrun_renewal_seconds_bucket{job=\"job\",le=\"1\"} 5\nleaderrun_renewal_seconds_bucket{job=\"job\",le=\"+Inf\"} 5\n" +
		"leaderrun_renewal_seconds_sum{job=\"job\"} 9\nleaderrun_renewal_seconds_count{job=\"job\"} 5\n")
	f.Add("# TYPE leaderrun_runs_total counter\nleaderrun_runs_total{outcome=\"\\\\\\\"\\n\",job=\"job\"} 1e3\n{} 1\n{\"x\"} 1\n")
	f.Fuzz(func(t *testing.T, text string) {
		file := NewTextfile("", "job")
		old, err := file.parseOld([]byte(text))
		if err != nil {
			return
		}
		written, err := file.textAfter(old)
		if err != nil {
			t.Fatalf("%v\nfrom:\n%s", err, text)
		}
		parsed(t, written)
	})
}

// The node exporter is another user, and whoever runs the next job may be, too.
func TestFilesCanBeReadByAll(t *testing.T) {
	defer syscall.Umask(syscall.Umask(0o077))
	dir := t.TempDir()
	if err := skip(dir, "job"); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"leaderrun_job.prom", lockName} {
		info, err := os.Stat(filepath.Join(dir, name))
		if err != nil {
			t.Fatal(err)
		}
		if info.Mode().Perm() != mode {
			t.Errorf("%s has mode %o", name, info.Mode().Perm())
		}
	}
}

func TestALockThatIsHeldIsNotWaitedForLong(t *testing.T) {
	dir := t.TempDir()
	lock, err := lockDirectory(dir, 0)
	if err != nil {
		t.Fatal(err)
	}
	f := NewTextfile(dir, "job")
	f.patience = 20 * time.Millisecond
	f.Ended("job", ran("h", 0), tick, tick)
	if err := f.Write(); !errors.Is(err, syscall.EWOULDBLOCK) {
		t.Errorf("error %v", err)
	}
	if _, err := os.Stat(filepath.Join(dir, "leaderrun_job.prom")); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("it was written without the lock (%v)", err)
	}
	flock.Unlock(lock)
	if err := f.Write(); err != nil {
		t.Errorf("after the lock was given back: %v", err)
	}
}

// Hazard: two runs of one host read the same old counts, and those of one are lost. Whoever reads meanwhile sees a
// whole file.
func TestProcessesLoseNoCounts(t *testing.T) {
	const processes, each = 4, 40
	dir := t.TempDir()
	if err := skip(dir, "job"); err != nil {
		t.Fatal(err)
	}
	var group sync.WaitGroup
	for range processes {
		group.Go(func() {
			cmd := exec.Command(os.Args[0], dir)
			cmd.Env = append(os.Environ(), fmt.Sprintf("%s=%d", writes, each), "GORACE=atexit_sleep_ms=0")
			if out, err := cmd.CombinedOutput(); err != nil {
				t.Errorf("%v: %s", err, out)
			}
		})
	}
	over := make(chan struct{})
	go func() {
		group.Wait()
		close(over)
	}()
	for reading := true; reading; {
		select {
		case <-over:
			reading = false
		default:
		}
		shows(t, contentOf(t, dir, "job"), `runs_total{job="job",outcome="skipped_held"} 1`)
	}
	shows(t, contentOf(t, dir, "job"), `runs_total{job="job",outcome="done"} 160`)
	left, err := filepath.Glob(filepath.Join(dir, ".*.tmp"))
	if err != nil || len(left) != 0 {
		t.Errorf("left behind: %q (%v)", left, err)
	}
}
