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
	"github.com/leaderrun/leaderrun/fence"
	"github.com/leaderrun/leaderrun/fence/redisfence"
	"github.com/leaderrun/leaderrun/internal/lifeline"
	"github.com/leaderrun/leaderrun/internal/supervise"
	"github.com/leaderrun/leaderrun/runner"
)

var update = flag.Bool("update", false, "write the golden files anew")

// The help is what people learn from: a change of it is seen in review.
func TestHelpPages(t *testing.T) {
	pages := map[string]string{"leaderrun": rootPage(rootCommand())}
	for topic, page := range topics() {
		pages[topic] = page()
	}
	for _, cmd := range commands() {
		pages[cmd.name] = commandPage(cmd)
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
		jobVariable, tokenVariable, nativeVariable, holderVariable, tickVariable, tickUnixVariable, onceVariable,
		attemptVariable, socketVariable, slotVariable, slotsVariable, shardVariable, shardsVariable, backendFile,
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
	options := map[string]option{}
	for _, cmd := range commands() {
		for _, o := range cmd.options {
			told := o.name == "help" || o.name == "version" || cmd.name == "import" || cmd.name == "lint"
			if o.bare && !told && !strings.Contains(optionsText(), o.flag()) {
				t.Errorf("`leaderrun help environment` does not say that --%s has no variable", o.name)
			}
		}
		names := map[string]bool{}
		for _, o := range cmd.options {
			for _, form := range []string{o.name, o.short} {
				if form != "" && names[form] {
					t.Errorf("%s has %s twice", cmd.name, form)
				}
				names[form] = true
			}
			if first, ok := options[o.name]; ok && (first.value != o.value || first.short != o.short || first.bare != o.bare) {
				t.Errorf("--%s is not the same everywhere", o.name)
			}
			options[o.name] = o
		}
	}
	for name, o := range options {
		if o.bare {
			if !slices.Contains(forOneCall, name) {
				t.Errorf("--%s has no variable", name)
			}
			if _, ok := newSettings(func(string) (string, bool) { return "environment", true }).find(name); ok {
				t.Errorf("--%s is read from the environment", name)
			}
			continue
		}
		if slices.Contains(forOneCall, name) {
			t.Errorf("--%s has a variable and a key", name)
		}
		want := "LEADERRUN_" + strings.ToUpper(strings.ReplaceAll(name, "-", "_"))
		if o.variable() != want || "LEADERRUN_"+strings.ToUpper(o.key()) != want {
			t.Errorf("--%s has the variable %s and the key %s", name, o.variable(), o.key())
		}
		if slices.Contains(handed, o.variable()) {
			t.Errorf("--%s would be set by an outer run: %s", name, o.variable())
		}

		// The variable is read, and after it the flag.
		s := newSettings(func(v string) (string, bool) { return "environment", v == want })
		w := s.word(o)
		if g, ok := s.find(name); !ok || g.text != "environment" || g.place != want {
			t.Errorf("%s is not read: %+v", want, g)
		}
		s.file = map[string]given{o.key(): {text: "file"}}
		s.lookup = func(string) (string, bool) { return "", false }
		if g, ok := s.find(name); !ok || g.text != "file" {
			t.Errorf("the key %s is not read: %+v", o.key(), g)
		}
		_ = w.Set("flag")
		if g, ok := s.find(name); !ok || g.text != "flag" || g.place != "--"+name {
			t.Errorf("--%s is not read: %+v", name, g)
		}
	}
}

// What the help promises as a default must be a value that the option takes.
func TestDefaultsAndExamplesOfOptionsAreValid(t *testing.T) {
	for _, o := range allOptions() {
		values := slices.Clone(o.words)
		if o.def != "" && !strings.Contains(o.def, " ") {
			values = append(values, o.def)
		}
		if o.example != "" {
			values = append(values, strings.Trim(o.example, `"`))
		}
		for _, v := range values {
			if err := o.validate(v); err != nil {
				t.Errorf("--%s %s: %v", o.name, v, err)
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
		if got := endOf(c.result, -1); got != c.want {
			t.Errorf("%s: %+v, want %+v", c.name, got, c.want)
		}
		want := c.want
		if c.conflict != 0 {
			want = ExitStatus{Code: c.conflict}
		}
		if got := endOf(c.result, 100); got != want {
			t.Errorf("%s with -E 100: %+v, want %+v", c.name, got, want)
		}
	}
}

// A stderr that nobody reads must not hold up a renewal, nor the end of the program for long.
func TestConsoleDoesNotWaitForAReader(t *testing.T) {
	read, write := io.Pipe()
	v := &console{out: write}
	for range 3 * consoleBuffer {
		v.warn("a line", "")
	}
	lines := make(chan string)
	go func() {
		text, _ := io.ReadAll(read)
		lines <- string(text)
	}()
	v.close()
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
			v := &console{out: &said}
			v.warn("the last word", "")
			var others sync.WaitGroup
			for range 4 {
				others.Go(func() {
					for range 20 {
						v.warn("late", "")
					}
				})
			}
			begun := time.Now()
			v.close()
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
		v := &console{}
		v.keepSecret(secretsOf(url)...)
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
		v := &console{}
		v.keepSecret(secretsOf(url)...)
		if said := v.redact(url); said != want {
			t.Errorf("%s: says %s, want %s", url, said, want)
		}
	}
	v := &console{}
	v.keepSecret(secretsOf("redis://:a@host")...)
	if said := string(v.text("a job", "")); said != "leaderrun: a job\n" {
		t.Errorf("a short password garbles %q", said)
	}
}

func TestStatusOfAJob(t *testing.T) {
	holder := backends.Holder{ID: "h1", Host: "web1", PID: 7, User: "app"}
	record := backends.Record{
		Job: "j", Token: 5, Holder: holder, TTL: 15000, Granted: 1000,
		Tick: backends.Occurrence{Tick: 60, State: backends.Claimed, Claimant: holder},
		Runs: []backends.Run{{Token: 5, State: backends.Claimed}, {Token: 4, State: backends.Failed, Exit: 3, Ended: 900}},
	}
	released := record
	released.Released = 5
	for _, c := range []struct {
		name      string
		status    backends.Status
		state     string
		host      string
		tickState string
	}{
		{"running", backends.Status{Record: record, Lease: &backends.Lease{Holder: "h1", Token: 5, Left: time.Second}}, stateRunning, "web1", "claimed"},
		{"another holder runs", backends.Status{Record: record, Lease: &backends.Lease{Holder: "h2", Token: 6}}, stateRunning, "", "lost"},
		{"vanished", backends.Status{Record: record, Wait: time.Second}, stateVanished, "web1", "lost"},
		{"gone for long", backends.Status{Record: record}, stateFree, "", "lost"},
		{"quarantined", backends.Status{Record: released, Wait: time.Second}, stateQuarantined, "", "lost"},
	} {
		j := describe("j", c.status, backends.Limits{ExpiryLag: func(time.Duration) time.Duration { return time.Second }})
		host := ""
		if j.Host != nil {
			host = *j.Host
		}
		if j.State != c.state || host != c.host || *j.TickState != c.tickState || j.TakeOver != 16000 {
			t.Errorf("%s: %+v", c.name, j)
		}
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

func TestAnErrorHasOneExitCode(t *testing.T) {
	denied := &fence.SetupError{Kind: fence.Credentials, Err: io.EOF}
	for name, c := range map[string]struct {
		err  error
		want int
	}{
		"its own code":                {&fault{code: codeStale, err: denied}, codeStale},
		"that of its cause":           {&fault{err: fmt.Errorf("open: %w", denied)}, codeCredentials},
		"no cause":                    {&fault{}, codeInternal},
		"wrapped":                     {fmt.Errorf("x: %w", usage("a", "b", "")), codeUsage},
		"a store's":                   {backends.Misconfigured("", "x"), codeConfiguration},
		"a store's refusal":           {backends.Denied("", io.EOF), codeCredentials},
		"a resource, stale":           {fenceFailed("x", &fence.StaleError{}), codeStale},
		"a resource, to be set right": {fenceFailed("x", denied), codeCredentials},
		"a resource out of reach":     {fenceFailed("x", io.EOF), codeUnavailable},
		"Redis, misused":              {redisFailed("x", &redisfence.CommandError{Misused: true, Err: io.EOF}), codeUsage},
		"Redis, a right is missing":   {redisFailed("x", &redisfence.CommandError{Kind: fence.Credentials, Err: io.EOF}), codeCredentials},
		"Redis, it failed":            {redisFailed("x", &redisfence.CommandError{Begun: true, Err: io.EOF}), codeConfiguration},
		"the command is not there":    {&supervise.ExecError{Errno: syscall.ENOENT}, 127},
		"anything else":               {io.EOF, codeInternal},
	} {
		if got := errorCode(c.err); got != c.want {
			t.Errorf("%s: %d, want %d", name, got, c.want)
		}
	}
}

// What others have written must not reach a terminal as a command to it: an 8-bit control character, and a byte that is no UTF-8, are
// some to older ones.
func TestOneLine(t *testing.T) {
	for text, want := range map[string]string{
		"näme \ufffd": "näme \ufffd", "a\nb": `a\nb`, "\x9b31mx": `\x9b31mx`, "a\xff": `a\xff`, "\u009b": `\u009b`, `"`: `"`, "\x1b'": `\x1b'`,
	} {
		if got := oneLine(text); got != want {
			t.Errorf("%q: got %q, want %q", text, got, want)
		}
	}
}
