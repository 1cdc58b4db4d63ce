package metrics

import (
	"bytes"
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
	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"

	"github.com/leaderrun/leaderrun/backends"
	"github.com/leaderrun/leaderrun/internal/filename"
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

// page is what a node exporter would take from files, checked as it does: no series twice, one help text a metric.
func page(t *testing.T, files ...string) prometheus.Gatherers {
	t.Helper()
	var all prometheus.Gatherers
	for _, name := range files {
		text, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		parser := expfmt.NewTextParser(validation)
		families, err := parser.TextToMetricFamilies(bytes.NewReader(text))
		if err != nil {
			t.Fatalf("%s: %v\n%s", name, err, text)
		}
		all = append(all, prometheus.GathererFunc(func() ([]*dto.MetricFamily, error) {
			var list []*dto.MetricFamily
			for _, f := range families {
				list = append(list, f)
			}
			return list, nil
		}))
	}
	if _, err := all.Gather(); err != nil {
		t.Error(err)
	}
	return all
}

// skip writes the metrics of a run that was skipped.
func skip(t *testing.T, dir, job string) error {
	t.Helper()
	f := NewTextfile(dir, job)
	f.Ended(job, refusal(backends.Held, false), time.Time{}, tick)
	return f.Write()
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
	got, err := os.ReadFile(filepath.Join(dir, "leaderrun_nightly%20report.prom"))
	if err != nil {
		t.Fatal(err)
	}
	want, err := os.ReadFile("testdata/three-runs.prom")
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), string(got)); diff != "" {
		t.Errorf("the file differs from testdata/three-runs.prom (-):\n%s", diff)
	}
}

func TestFilesOfJobsGoTogether(t *testing.T) {
	dir := t.TempDir()
	for _, job := range []string{"a", "b"} {
		f := NewTextfile(dir, job)
		observe(f.Set, job, "h")
		f.Ended(job, ran("h", 0), tick, tick)
		if err := f.Write(); err != nil {
			t.Fatal(err)
		}
	}
	both := page(t, filepath.Join(dir, "leaderrun_a.prom"), filepath.Join(dir, "leaderrun_b.prom"))
	for _, job := range []string{`job="a"`, `job="b"`} {
		expect(t, both, 1, "leaderrun_runs_total", job, `outcome="done"`)
		expect(t, both, 1, "leaderrun_renewal_seconds", job)
	}
	files, err := filepath.Glob(filepath.Join(dir, "*.prom"))
	if err != nil || len(files) != 2 {
		t.Errorf("the collector reads %q (%v)", files, err)
	}
}

// What is in the file's place must not be added to, nor stop the counting.
func TestAForeignFileIsReplaced(t *testing.T) {
	var own bytes.Buffer
	dir := t.TempDir()
	if err := skip(t, dir, "other"); err != nil {
		t.Fatal(err)
	}
	other, err := os.ReadFile(filepath.Join(dir, "leaderrun_other.prom"))
	if err != nil {
		t.Fatal(err)
	}
	own.WriteString(strings.ReplaceAll(string(other), `"other"`, `"job"`))
	const head = "# TYPE leaderrun_runs_total counter\nleaderrun_runs_total"
	for name, c := range map[string]struct {
		old   string
		taken bool // the old count goes on
	}{
		"ours":                         {own.String(), true},
		"with what a later one counts": {own.String() + "# TYPE leaderrun_new_total counter\nleaderrun_new_total{job=\"job\"} 1\n", true},
		"another help text":            {strings.ReplaceAll(own.String(), "# HELP leaderrun_runs_total ", "# HELP leaderrun_runs_total Once "), true},
		"of another job":               {string(other), false},
		"empty":                        {"", false},
		"torn":                         {own.String()[:own.Len()-20] + "{", false},
		"no metrics":                   {"dear diary\n", false},
		"somebody else's":              {"# TYPE node_x counter\nnode_x 1\n", false},
		"another type":                 {"# TYPE leaderrun_runs_total gauge\nleaderrun_runs_total{job=\"job\",outcome=\"skipped_held\"} 1\n", false},
		"another label":                {head + "{job=\"job\",outcome=\"skipped_held\",host=\"h\"} 1\n", false},
		"another label, as many":       {head + "{job=\"job\",host=\"h\"} 1\n", false},
		"another part":                 {head + "_sum{job=\"job\",outcome=\"skipped_held\"} 1\n", false},
		"twice":                        {head + "{job=\"job\",outcome=\"skipped_held\"} 1\n" + own.String(), false},
		"without labels":               {head + " 1\n", false},
		"not a number":                 {head + "{job=\"job\",outcome=\"skipped_held\"} NaN\n", false},
		"less than nothing":            {head + "{job=\"job\",outcome=\"skipped_held\"} -1\n", false},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			file := filepath.Join(dir, "leaderrun_job.prom")
			if err := os.WriteFile(file, []byte(c.old), 0o600); err != nil {
				t.Fatal(err)
			}
			err := skip(t, dir, "job")
			if c.taken != (err == nil) {
				t.Errorf("error %v", err)
			}
			want := 1.0
			if c.taken {
				want = 2
			}
			expect(t, page(t, file), want, "leaderrun_runs_total", `job="job"`, `outcome="skipped_held"`)
			if err := skip(t, dir, "job"); err != nil {
				t.Errorf("and again: %v", err)
			}
		})
	}
}

// Hazard: a host with files of two versions, of which the node exporter takes none because the help texts differ.
func TestWhatIsCarriedOverHasTheHelpOfThisVersion(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "leaderrun_job.prom")
	const old = "# HELP leaderrun_last_run_exit_code As it was called once.\n# TYPE leaderrun_last_run_exit_code gauge\n" +
		"leaderrun_last_run_exit_code{job=\"job\"} 3\n"
	if err := os.WriteFile(file, []byte(old), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := skip(t, dir, "job"); err != nil {
		t.Fatal(err)
	}
	expect(t, page(t, file), 3, "leaderrun_last_run_exit_code", `job="job"`)
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if bytes.Contains(text, []byte("once")) || !bytes.Contains(text, []byte(lastExit.help)) {
		t.Errorf("the help text is the old one:\n%s", text)
	}
}

func TestAPipeInTheFilesPlaceIsNotOpened(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "leaderrun_job.prom")
	if err := syscall.Mkfifo(file, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := skip(t, dir, "job"); err == nil {
		t.Error("nobody was told")
	}
	expect(t, page(t, file), 1, "leaderrun_runs_total", `job="job"`, `outcome="skipped_held"`)
}

// Two links that somebody who may write into the directory could leave there for root's runs.
func TestLinksAreNotWrittenThrough(t *testing.T) {
	dir := t.TempDir()
	victim := filepath.Join(t.TempDir(), "victim")
	if err := os.WriteFile(victim, []byte("precious"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"leaderrun_job.prom", ".leaderrun_job.tmp"} {
		if err := os.Symlink(victim, filepath.Join(dir, name)); err != nil {
			t.Fatal(err)
		}
	}
	if err := skip(t, dir, "job"); err == nil {
		t.Error("nobody was told")
	}
	if text, err := os.ReadFile(victim); err != nil || string(text) != "precious" {
		t.Errorf("it holds %q (%v)", text, err)
	}
}

func TestBucketsOfAnotherVersionAreDropped(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "leaderrun_job.prom")
	const old = "# TYPE leaderrun_run_duration_seconds histogram\n" +
		"leaderrun_run_duration_seconds_bucket{job=\"job\",le=\"7\"} 5\n" +
		"leaderrun_run_duration_seconds_bucket{job=\"job\",le=\"+Inf\"} 5\n" +
		"leaderrun_run_duration_seconds_sum{job=\"job\"} 9\nleaderrun_run_duration_seconds_count{job=\"job\"} 5\n"
	if err := os.WriteFile(file, []byte(old), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := skip(t, dir, "job"); err != nil {
		t.Fatal(err)
	}
	expect(t, page(t, file), absent, "leaderrun_run_duration_seconds", `job="job"`)
}

// The node exporter is another user, and whoever runs the next job may be, too.
func TestFilesCanBeReadByAll(t *testing.T) {
	defer syscall.Umask(syscall.Umask(0o077))
	dir := t.TempDir()
	if err := skip(t, dir, "job"); err != nil {
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
	unlock, err := lockDirectory(dir, 0)
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
	unlock()
	if err := f.Write(); err != nil {
		t.Errorf("after the lock was given back: %v", err)
	}
}

// Hazard: two runs of one host read the same old counts, and those of one are lost. Whoever reads meanwhile sees a
// whole file.
func TestProcessesLoseNoCounts(t *testing.T) {
	const processes, each = 4, 40
	dir := t.TempDir()
	file := filepath.Join(dir, "leaderrun_job.prom")
	if err := skip(t, dir, "job"); err != nil {
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
		expect(t, page(t, file), 1, "leaderrun_runs_total", `job="job"`, `outcome="skipped_held"`)
	}
	expect(t, page(t, file), processes*each, "leaderrun_runs_total", `job="job"`, `outcome="done"`)
	left, err := filepath.Glob(filepath.Join(dir, ".*.tmp"))
	if err != nil || len(left) != 0 {
		t.Errorf("left behind: %q (%v)", left, err)
	}
}

func TestADirectoryThatIsNotThere(t *testing.T) {
	if err := skip(t, filepath.Join(t.TempDir(), "none"), "job"); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("error %v", err)
	}
}

func TestJobsNeverShareAFile(t *testing.T) {
	long := strings.Repeat("x", 255)
	weird := strings.Repeat("\n", 255)
	seen := map[string]string{}
	for _, job := range []string{
		"a", "A", "a/b", "a%2Fb", "a_b", "a b", "..", ".", "é", "e\u0301", "a~b", long, long[:254], long[:253] + "yx", long[:200], long[:201],
		weird, weird[:254], filename.Escape(long), filename.Escape(weird),
	} {
		name := filename.Escape(job)
		if other, ok := seen[name]; ok {
			t.Errorf("%q and %q share %q", job, other, name)
		}
		seen[name] = job
		dir := t.TempDir()
		if err := skip(t, dir, job); err != nil {
			t.Errorf("%q: %v", job, err)
			continue
		}
		page(t, filepath.Join(dir, "leaderrun_"+name+".prom"))
	}
}
