package cli

import (
	"bytes"
	"flag"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/leaderrun/leaderrun/backends"
	"github.com/leaderrun/leaderrun/backends/all"
	"github.com/leaderrun/leaderrun/internal/lifeline"
	"github.com/leaderrun/leaderrun/internal/supervise"
	"github.com/leaderrun/leaderrun/runner"
)

var update = flag.Bool("update", false, "write the golden files anew")

// The help is what people learn from: a change of it is seen in review.
func TestHelpPages(t *testing.T) {
	pages := map[string]string{"leaderrun": rootPage(RootCommand())}
	for topic, page := range topics() {
		pages[topic] = page()
	}
	for _, cmd := range commands() {
		pages[cmd.Name] = commandPage(cmd)
	}
	for name, page := range pages {
		file := filepath.Join("testdata", "help", name+".txt")
		if *update {
			if err := os.WriteFile(file, []byte(page), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		want, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(string(want), page); diff != "" {
			t.Errorf("%s (go test ./internal/cli -update writes it anew):\n%s", name, diff)
		}
		for line := range strings.Lines(page) {
			if len([]rune(line)) > 121 {
				t.Errorf("%s: too wide for a terminal: %s", name, line)
			}
		}
	}
}

func TestEveryOptionHasItsVariableAndKey(t *testing.T) {
	handed := []string{
		JobVariable, TokenVariable, NativeVariable, HolderVariable, TickVariable, TickUnixVariable, OnceVariable,
		AttemptVariable, SocketVariable, SlotVariable, SlotsVariable, ShardVariable, ShardsVariable, BackendFile,
	}
	forOneCall := []string{
		"help", "version",
		// An order for one run: a variable that was left over, or a file, must not give it to each.
		"tick", "once", "force", "holder-is-dead", "forget-tick", "forget-once", "forget-schedule", "reason",
		"raise", "read",
		"to", "from", "diff", "in-place", "systemd", "user", "format", "user-crontab", "only", "except",
		// Its variable is one that a command finds.
		"slots", "shards",
		// It goes with one that has none.
		"parallel",
	}
	for _, name := range handed {
		if !regexp.MustCompile(`\b` + name + `\b`).MatchString(environmentPage()) {
			t.Errorf("`leaderrun help environment` does not name %s", name)
		}
	}
	options := map[string]Option{}
	for _, cmd := range commands() {
		for _, o := range cmd.Options {
			told := o.Name == "help" || o.Name == "version" || cmd.Name == "import" || cmd.Name == "lint"
			if o.Bare && !told && !strings.Contains(optionsText(), o.Flag()) {
				t.Errorf("`leaderrun help environment` does not say that --%s has no variable", o.Name)
			}
		}
		names := map[string]bool{}
		for _, o := range cmd.Options {
			for _, form := range []string{o.Name, o.Short} {
				if form != "" && names[form] {
					t.Errorf("%s has %s twice", cmd.Name, form)
				}
				names[form] = true
			}
			if first, ok := options[o.Name]; ok && (first.Value != o.Value || first.Short != o.Short || first.Bare != o.Bare) {
				t.Errorf("--%s is not the same everywhere", o.Name)
			}
			options[o.Name] = o
		}
	}
	for name, o := range options {
		if o.Bare {
			if !slices.Contains(forOneCall, name) {
				t.Errorf("--%s has no variable", name)
			}
			if _, ok := NewSettings(func(string) (string, bool) { return "environment", true }).Find(name); ok {
				t.Errorf("--%s is read from the environment", name)
			}
			continue
		}
		if slices.Contains(forOneCall, name) {
			t.Errorf("--%s has a variable and a key", name)
		}
		want := "LEADERRUN_" + strings.ToUpper(strings.ReplaceAll(name, "-", "_"))
		if o.Variable() != want || "LEADERRUN_"+strings.ToUpper(o.Key()) != want {
			t.Errorf("--%s has the variable %s and the key %s", name, o.Variable(), o.Key())
		}
		if slices.Contains(handed, o.Variable()) {
			t.Errorf("--%s would be set by an outer run: %s", name, o.Variable())
		}

		// The variable is read, and after it the flag.
		s := NewSettings(func(v string) (string, bool) { return "environment", v == want })
		w := s.Word(o)
		if g, ok := s.Find(name); !ok || g.Text != "environment" || g.Place != want {
			t.Errorf("%s is not read: %+v", want, g)
		}
		s.File = map[string]Given{o.Key(): {Text: "file"}}
		s.Lookup = func(string) (string, bool) { return "", false }
		if g, ok := s.Find(name); !ok || g.Text != "file" {
			t.Errorf("the key %s is not read: %+v", o.Key(), g)
		}
		_ = w.Set("flag")
		if g, ok := s.Find(name); !ok || g.Text != "flag" || g.Place != "--"+name {
			t.Errorf("--%s is not read: %+v", name, g)
		}
	}
}

// What the help promises as a default must be a value that the option takes.
func TestDefaultsAndExamplesOfOptionsAreValid(t *testing.T) {
	for _, o := range AllOptions() {
		values := slices.Clone(o.Words)
		if o.Def != "" && !strings.Contains(o.Def, " ") {
			values = append(values, o.Def)
		}
		if o.Example != "" {
			values = append(values, strings.Trim(o.Example, `"`))
		}
		for _, v := range values {
			if err := o.validate(v); err != nil {
				t.Errorf("--%s %s: %v", o.Name, v, err)
			}
		}
	}
}

func TestURLsOfTheHelpOpen(t *testing.T) {
	for line := range strings.Lines(backendsPage()) {
		url, _, _ := strings.Cut(strings.TrimSpace(line), " ")
		if !strings.HasPrefix(line, "  ") || strings.HasPrefix(url, "file:") {
			continue
		}
		if strings.HasPrefix(url, "k8s:") { // it is opened where a kubeconfig is
			url += "?kubeconfig=testdata/kubeconfig.yaml"
		}
		store, err := all.Open(url)
		if err != nil {
			t.Errorf("%s: %v", url, err)
			continue
		}
		if strings.Contains(store.Redacted(), "password") {
			t.Errorf("%s shows a password", store.Redacted())
		}
		_ = store.Close()
	}
}

func TestEndOf(t *testing.T) {
	refusal := func(v backends.Verdict) runner.Result {
		return runner.Result{Ending: runner.Refused, Refusal: &backends.Refusal{Verdict: v}}
	}
	ran := func(s lifeline.Status, received syscall.Signal) runner.Result {
		s.Known = true
		return runner.Result{Ending: runner.Ran, Status: s, Signal: received}
	}
	failed := func(ending runner.Ending, err error) runner.Result { return runner.Result{Ending: ending, Err: err} }
	for _, c := range []struct {
		name     string
		result   runner.Result
		want     ExitStatus
		conflict int // the code with -E 100; 0: as want
	}{
		{"held", refusal(backends.Held), ExitStatus{Code: 0}, 100},
		{"done", refusal(backends.IsDone), ExitStatus{Code: 0}, 100},
		{"failed", refusal(backends.IsFailed), ExitStatus{Code: 76}, 100},
		{"stopped", refusal(backends.IsStopped), ExitStatus{Code: 76}, 100},
		{"lost", refusal(backends.IsLost), ExitStatus{Code: 76}, 100},
		{"missed", refusal(backends.IsMissed), ExitStatus{Code: 76}, 100},
		{"earlier", refusal(backends.IsEarlier), ExitStatus{Code: 76}, 100},
		{"late", refusal(backends.Late), ExitStatus{Code: 76}, 100},
		{"future", refusal(backends.Future), ExitStatus{Code: 78}, 0},
		{"future recorded", refusal(backends.FutureRecorded), ExitStatus{Code: 78}, 0},
		{"outdated", refusal(backends.Outdated), ExitStatus{Code: 78}, 0},
		{"abandoned", refusal(backends.Abandoned), ExitStatus{Code: 70}, 0},
		{"wait over", runner.Result{Ending: runner.WaitOver}, ExitStatus{Code: 76}, 100},
		{"unreachable", failed(runner.Unreachable, io.EOF), ExitStatus{Code: 69}, 0},
		{"credentials", failed(runner.Permanent, &backends.PermanentError{Kind: backends.Credentials, Err: io.EOF}), ExitStatus{Code: 77}, 0},
		{"configuration", failed(runner.Permanent, fmt.Errorf("claim: %w", &backends.PermanentError{Kind: backends.Configuration, Err: io.EOF})), ExitStatus{Code: 78}, 0},
		{"interrupted", runner.Result{Ending: runner.Interrupted, Signal: syscall.SIGTERM}, ExitStatus{Code: 143, Signal: syscall.SIGTERM}, 0},
		{"not found", failed(runner.StartFailed, &supervise.ExecError{Errno: syscall.ENOENT}), ExitStatus{Code: 127}, 0},
		{"not executable", failed(runner.StartFailed, &supervise.ExecError{Errno: syscall.EACCES}), ExitStatus{Code: 126}, 0},
		{"too late", failed(runner.StartFailed, supervise.ErrTooLate), ExitStatus{Code: 69}, 0},
		{"guardian", failed(runner.StartFailed, supervise.ErrGuardian), ExitStatus{Code: 70}, 0},
		{"ran", ran(lifeline.Status{}, 0), ExitStatus{Code: 0}, 0},
		{"ran, 3", ran(lifeline.Status{Code: 3}, 0), ExitStatus{Code: 3}, 0},
		{"killed", ran(lifeline.Status{Signal: syscall.SIGKILL}, 0), ExitStatus{Code: 137}, 0},
		{"terminated with us", ran(lifeline.Status{Signal: syscall.SIGTERM}, syscall.SIGTERM), ExitStatus{Code: 143, Signal: syscall.SIGTERM}, 0},
		{"killed after our TERM", ran(lifeline.Status{Signal: syscall.SIGKILL}, syscall.SIGTERM), ExitStatus{Code: 137}, 0},
		{"ended well on TERM", ran(lifeline.Status{}, syscall.SIGTERM), ExitStatus{Code: 0}, 0},
		{"nobody saw it", runner.Result{Ending: runner.Ran}, ExitStatus{Code: 70}, 0},
		{"timeout", runner.Result{Ending: runner.TimedOut, Status: lifeline.Status{Known: true}}, ExitStatus{Code: 124}, 0},
		{"lease lost", runner.Result{Ending: runner.LeaseLost, Status: lifeline.Status{Known: true}}, ExitStatus{Code: 75}, 0},
		{"broken", runner.Result{Ending: runner.Broken}, ExitStatus{Code: 75}, 0},
		{"unconfirmed", runner.Result{Ending: runner.Unconfirmed}, ExitStatus{Code: 75}, 0},
		{"unrecorded", runner.Result{Ending: runner.Unrecorded, Status: lifeline.Status{Known: true}}, ExitStatus{Code: 75}, 0},
		{"guardian died", runner.Result{Ending: runner.TreeLost}, ExitStatus{Code: 70}, 0},
		{"nothing", runner.Result{}, ExitStatus{Code: 70}, 0},
	} {
		if got := EndOf(c.result, -1); got != c.want {
			t.Errorf("%s: %+v, want %+v", c.name, got, c.want)
		}
		want := c.want
		if c.conflict != 0 {
			want = ExitStatus{Code: c.conflict}
		}
		if got := EndOf(c.result, 100); got != want {
			t.Errorf("%s with -E 100: %+v, want %+v", c.name, got, want)
		}
	}
}

// A stderr that nobody reads must not hold up a renewal, nor the end of the program for long.
func TestConsoleDoesNotWaitForAReader(t *testing.T) {
	read, write := io.Pipe()
	v := &Console{Out: write}
	for range 3 * consoleBuffer {
		v.Warn("a line", "")
	}
	lines := make(chan string)
	go func() {
		text, _ := io.ReadAll(read)
		lines <- string(text)
	}()
	v.Close()
	_ = write.Close()
	if said := <-lines; strings.Count(said, "a line") < consoleBuffer || strings.Count(said, "a line") > consoleBuffer+2 {
		t.Errorf("said %d lines", strings.Count(said, "a line"))
	}
}

// What goroutines that live on have to say while the program ends is dropped, and nothing waits for it.
func TestConsoleEndsWhileOthersTalk(t *testing.T) {
	for range 200 {
		synctest.Test(t, func(t *testing.T) {
			var said bytes.Buffer
			v := &Console{Out: &said}
			v.Warn("the last word", "")
			var others sync.WaitGroup
			for range 4 {
				others.Go(func() {
					for range 20 {
						v.Warn("late", "")
					}
				})
			}
			begun := time.Now()
			v.Close()
			text := said.String()
			others.Wait()
			if waited := time.Since(begun); waited != 0 || !strings.HasPrefix(text, "leaderrun: the last word\n") || said.String() != text {
				t.Fatalf("after %v: %q, and then %q", waited, text, said.String())
			}
		})
	}
}

func TestSecretsAreNotTold(t *testing.T) {
	for _, url := range []string{
		"redis://user:sesame-street@host/0", "redis://:sesame%2Dstreet@host", "redis://h?password=sesame-street", "postgres://u%3Asesame-street@host/db",
		"redis://user:a:sesame-street@b@host", "rediss://x:sesame-street@host:bad",
	} {
		v := &Console{}
		v.KeepSecret(SecretsOf(url)...)
		for _, text := range []string{"parse " + url + ": bad", fmt.Sprintf("parse %q: bad", url), "password sesame-street"} {
			if said := string(v.text(text, text)); strings.Contains(said, "sesame") && !strings.Contains(url, "a:sesame") {
				t.Errorf("%s: says %s", url, said)
			}
		}
	}
	// What is no secret is shown, and what hides one keeps the shape of a URL.
	for url, want := range map[string]string{
		"postgres://u@host/db":           "postgres://u@host/db",
		"postgresql://sesame@host,i/d":   "postgresql://sesame@host,i/d",
		"postgres://u:pw@host/db":        "postgres://xxxxx@host/db",
		"postgres://u/pw@host/db":        "postgres://xxxxx@host/db",
		"postgres://u%3Apw@host/db":      "postgres://xxxxx@host/db",
		"consul://sesame-street@host":    "consul://xxxxx@host",
		"redis://:sesame-street@host/0":  "redis://xxxxx@host/0",
		"mysql://sesame-street@host?a=b": "mysql://xxxxx@host?a=b",
	} {
		v := &Console{}
		v.KeepSecret(SecretsOf(url)...)
		if said := v.Redact(url); said != want {
			t.Errorf("%s: says %s, want %s", url, said, want)
		}
	}
	v := &Console{}
	v.KeepSecret(SecretsOf("redis://:a@host")...)
	if said := string(v.text("a job", "")); said != "leaderrun: a job\n" {
		t.Errorf("a short password garbles %q", said)
	}
}

// The help has every key of a job file that the documentation has.
func TestJobFilePageHasEveryKey(t *testing.T) {
	text, err := os.ReadFile("../../docs/cron.md")
	if err != nil {
		t.Fatal(err)
	}
	keys := regexp.MustCompile("(?m)^\\| `([a-z_]+)` \\|.*\\|.*\\|$").FindAllStringSubmatch(string(text), -1)
	if len(keys) < 20 {
		t.Fatalf("%d keys in the documentation", len(keys))
	}
	for _, key := range keys {
		if !regexp.MustCompile(`\b` + key[1] + `\b`).MatchString(jobFilePage()) {
			t.Errorf("%s is missing", key[1])
		}
	}
}

// What others have written must not reach a terminal as a command to it: an 8-bit control character, and a byte that is no UTF-8, are
// some to older ones.
func TestOneLine(t *testing.T) {
	for text, want := range map[string]string{
		"näme \ufffd": "näme \ufffd", "a\nb": `a\nb`, "\x9b31mx": `\x9b31mx`, "a\xff": `a\xff`, "\u009b": `\u009b`, `"`: `"`, "\x1b'": `\x1b'`,
	} {
		if got := OneLine(text); got != want {
			t.Errorf("%q: got %q, want %q", text, got, want)
		}
	}
}
