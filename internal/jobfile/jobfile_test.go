package jobfile

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"syscall"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"

	lines "github.com/leaderrun/leaderrun/internal/crontab"
	"github.com/leaderrun/leaderrun/runner"
	"github.com/leaderrun/leaderrun/schedule"
)

// testDefaults do not depend on the host.
func testDefaults() Defaults {
	d := NewDefaults()
	d.Timezone, d.Home = "UTC", "/home/me"
	return d
}

// testHost has some users, one of which is called like a program.
func testHost() lines.Host {
	return lines.Host{
		Path:      "/bin",
		IsUser:    func(name string) bool { return name == "root" || name == "mail" || name == "sync" },
		IsProgram: func(name, path string) bool { return name == "sync" && path == "/bin" },
	}
}

func accepted(t *testing.T, path, text string) *File {
	t.Helper()
	file, err := parse(path, []byte(text), testDefaults(), testHost())
	if err != nil {
		t.Fatalf("%s\n%v", text, problems(err))
	}
	return file
}

func refused(t *testing.T, path, text string, want []string) {
	t.Helper()
	_, err := parse(path, []byte(text), testDefaults(), testHost())
	if diff := cmp.Diff(want, problems(err)); diff != "" {
		t.Errorf("%s\nproblems (-want +got):\n%s", text, diff)
	}
}

func checkWarnings(t *testing.T, file *File, want ...string) {
	t.Helper()
	var got []string
	for _, w := range file.Warnings {
		got = append(got, w.String())
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("warnings (-want +got):\n%s", diff)
	}
}

func problems(err error) []string {
	e, ok := errors.AsType[*Error](err)
	if !ok {
		return []string{fmt.Sprint(err)}
	}
	var all []string
	for _, p := range e.Problems {
		all = append(all, p.String())
	}
	return all
}

func TestErrorIsOneLine(t *testing.T) {
	_, err := parse("jobs", []byte("x\ny\nz\n"), testDefaults(), testHost())
	const hint = "write minute, hour, day of month, month, day of week and the command"
	if want := "jobs:1: neither a variable nor a schedule with a command: " + hint + " (and 2 more)"; err == nil || err.Error() != want {
		t.Errorf("got %v, want %s", err, want)
	}
}

func TestLoad(t *testing.T) {
	dir := t.TempDir()
	write := func(name string, text []byte) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, text, 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	const yaml, crontab = "jobs: {a: {every: 1h, shell: x}}", "# job: a\n0 * * * * x\n"
	for name, text := range map[string]string{"a.yaml": yaml, "b.yml": yaml, "c.YAML": yaml, "crontab": crontab, "d.cron": crontab, "e.yaml.d": crontab} {
		file, err := Load([]string{write(name, []byte(text))}, testDefaults(), How{})
		if err != nil || len(file.Jobs) != 1 {
			t.Errorf("%s: %+v, %v", name, file, err)
		}
	}
	fifo := filepath.Join(dir, "fifo")
	if err := syscall.Mkfifo(fifo, 0o600); err != nil {
		t.Fatal(err)
	}
	for path, want := range map[string]string{
		filepath.Join(dir, "none"): "no such file or directory",
		fifo:                       "not a regular file",
		"/dev/null":                "not a regular file",
		write("large", bytes.Repeat([]byte("#\n"), maxSize/2+1)): "larger than 16 MB",
	} {
		_, err := Load([]string{path}, testDefaults(), How{})
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: got %v, want %s", path, err, want)
		}
		if _, ok := errors.AsType[*Error](err); ok {
			t.Errorf("%s: a problem of its text, though it was not read", path)
		}
	}
}

// A reload must not take a changed job for an unchanged one: whatever is added to Job counts.
func TestFingerprintHasEverything(t *testing.T) {
	job := accepted(t, "jobs", "# job: a\n0 2 * * * x\n").Jobs[0]
	moved := *job
	moved.Place = "elsewhere:7"
	if moved.Fingerprint() != job.Fingerprint() {
		t.Error("the place counts")
	}
	other, err := schedule.Parse([]string{"0 3 * * *"}, "UTC")
	if err != nil {
		t.Fatal(err)
	}
	changed := 0
	var change func(name string, v reflect.Value, made *Job)
	change = func(name string, v reflect.Value, made *Job) {
		for i := range v.NumField() {
			at, field := name+v.Type().Field(i).Name, v.Field(i)
			before := reflect.ValueOf(field.Interface())
			switch old := field.Interface().(type) {
			case *schedule.Schedule:
				field.Set(reflect.ValueOf(other))
			case runner.Timeline, Options:
				change(at+".", field, made)
				continue
			case []string:
				field.Set(reflect.ValueOf(append([]string{"more"}, old...)))
			default:
				switch field.Kind() {
				case reflect.String:
					field.SetString(field.String() + "\xff")
				case reflect.Int, reflect.Int64:
					field.SetInt(field.Int() + 1)
				default:
					t.Fatalf("%s: the test does not know this type", at)
				}
			}
			if at != "Place" && made.Fingerprint() == job.Fingerprint() {
				t.Errorf("%s does not count", at)
			}
			field.Set(before)
			changed++
		}
	}
	made := *job
	change("", reflect.ValueOf(&made).Elem(), &made)
	if changed < 20 {
		t.Errorf("only %d fields were looked at", changed)
	}
	if made.Fingerprint() != job.Fingerprint() {
		t.Error("equal jobs differ")
	}

	a, b := *job, *job
	a.Argv, b.Argv = []string{"x\xfe"}, []string{"x\xff"}
	if a.Fingerprint() == b.Fingerprint() {
		t.Error("bytes that are not UTF-8 do not count")
	}
}

// A host without a named zone has one problem, not one for each job.
func TestZoneOfTheHostIsToldOnce(t *testing.T) {
	t.Setenv("TZ", "CET-1CEST")
	d := testDefaults()
	d.Timezone = ""
	for path, text := range map[string]string{
		"jobs":      "# job: a\n0 2 * * * x\n# job: b\n0 3 * * * x\n",
		"jobs.yaml": "jobs: {a: {every: 1h, shell: x}, b: {every: 2h, shell: x}}",
	} {
		_, err := parse(path, []byte(text), d, testHost())
		if got := problems(err); len(got) != 1 || !strings.Contains(got[0], "time zone") {
			t.Errorf("%s: got %q", path, got)
		}
	}
}

// manyJobs is a file of jobs with a schedule for each minute of the day.
func manyJobs(n int) string {
	var b strings.Builder
	b.WriteString("timezone: Europe/Berlin\ndefaults: {jitter: 20s}\njobs:\n")
	for i := range n {
		fmt.Fprintf(&b, "  job-%d:\n    schedule: \"%d %d * * *\"\n    command: [/usr/local/bin/report, --number, \"%d\"]\n    timeout: 30m\n    env: {REPORT_LANG: de}\n",
			i, i%60, i/60%24, i)
	}
	return b.String()
}

func FuzzParse(f *testing.F) {
	for _, text := range []string{
		manyJobs(2),
		"jobs: {a: {schedule: [\"0 2 * * *\", \"@every 5m\"], shell: x, on_lost: rerun, overlap: wait, grace: 0, catch_up: 3}}",
		"a: &x [*x]\n", "jobs: !!binary x\n", "--- 1\n--- 2\n", "jobs:\n\ta: 1", "jobs: {a: {env: {\"\\0\": 1}}}", "#\n- x\n  #\n",
		"# job: a\n0 2 * * * x%y\\%z\n", "A = 'b'\nCRON_TZ=UTC\nRANDOM_DELAY=1\n# job: b\n@every 7h x\r\n", "@daily root x\n", "\xff", "\x00",
	} {
		f.Add(text, true)
		f.Add(text, false)
	}
	f.Fuzz(func(t *testing.T, text string, yaml bool) {
		path := "jobs"
		if yaml {
			path = "jobs.yaml"
		}
		file, err := parse(path, []byte(text), testDefaults(), testHost())
		if err != nil {
			checkProblems(t, path, err)
			return
		}
		if len(file.Jobs) == 0 {
			t.Error("no job and no problem")
		}
		names := map[string]bool{}
		for _, j := range file.Jobs {
			if why := whyNotName(j.Name); why != "" || names[j.Name] || len(j.Argv) == 0 || j.Argv[0] == "" {
				t.Errorf("%+v is accepted", j)
			}
			names[j.Name] = true
			if _, err := runner.NewTimeline(j.Timeline.TTL, j.Timeline.Grace); err != nil || j.Timeline.TTL != j.TTL {
				t.Errorf("%+v: %v", j.Timeline, err)
			}
			if _, ok := j.Schedule.Next(time.Now()); !ok && j.Schedule.String() == "" {
				t.Error("a job without a schedule")
			}
			if strings.Contains(strings.Join(j.Argv, "")+strings.Join(j.Env, "")+j.Dir, "\x00") {
				t.Errorf("a zero byte in %q %q", j.Argv, j.Env)
			}
			j.Fingerprint()
		}
	})
}

// checkProblems holds that each problem is one line that people can read.
func checkProblems(t *testing.T, path string, err error) {
	t.Helper()
	e, ok := errors.AsType[*Error](err)
	if !ok || len(e.Problems) == 0 {
		t.Fatalf("no problems: %v", err)
	}
	line := 0
	for _, p := range e.Problems {
		if p.line < line {
			t.Errorf("line %d after line %d", p.line, line)
		}
		line = p.line
		text := p.String()
		if p.Why == "" || !strings.HasPrefix(text, path) || !utf8.ValidString(text) || strings.ContainsFunc(text, func(c rune) bool { return c < ' ' }) {
			t.Errorf("%q", text)
		}
	}
}
