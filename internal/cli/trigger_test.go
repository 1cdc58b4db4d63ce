package cli

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/leaderrun/leaderrun/backends"
	"github.com/leaderrun/leaderrun/internal/duration"
	"github.com/leaderrun/leaderrun/runner"
	"github.com/leaderrun/leaderrun/schedule"
)

// values are settings of run as three places give them: flags as "--name value" or "--name=value", variables and
// keys as "name=value".
type values struct{ line, environment, file []string }

func (v values) settings(t *testing.T) *settings {
	t.Helper()
	environment := map[string]string{}
	s := newSettings(func(name string) (string, bool) { text, ok := environment[name]; return text, ok })
	s.file = map[string]given{}
	for _, o := range runOptions() {
		s.word(o)
	}
	for _, entry := range v.line {
		name, text, _ := strings.Cut(entry, "=")
		if err := s.words[name].Set(text); err != nil {
			t.Fatal(err)
		}
	}
	for _, entry := range v.environment {
		name, text, _ := strings.Cut(entry, "=")
		environment[s.words[name].variable()] = text
	}
	for _, entry := range v.file {
		name, text, _ := strings.Cut(entry, "=")
		s.file[s.words[name].key()] = given{text: text, origin: fromFile, place: "leaderrun.yaml:1: " + name}
	}
	return s
}

func at(t *testing.T, text string) time.Time {
	t.Helper()
	instant, err := time.Parse(time.RFC3339Nano, text)
	if err != nil {
		t.Fatal(err)
	}
	return instant
}

func TestTriggerOfARun(t *testing.T) {
	t.Setenv("TZ", "Europe/Berlin")
	const now = "2026-11-20T12:34:56.5Z"
	for _, c := range []struct {
		name string
		values
		now  string // "": as above
		tick string // "": none
		text string // of the schedule
	}{
		{name: "nothing in particular"},
		{name: "at the host's time", values: values{line: []string{"schedule=0 2 * * *"}}, tick: "2026-11-20T01:00:00Z", text: "0 2 * * * (Europe/Berlin)"},
		{name: "in another zone", values: values{line: []string{"schedule=0 2 * * *", "timezone=UTC"}}, tick: "2026-11-20T02:00:00Z", text: "0 2 * * * (UTC)"},
		{name: "with its own zone", values: values{line: []string{"schedule=CRON_TZ=UTC 0 2 * * *"}}, tick: "2026-11-20T02:00:00Z", text: "0 2 * * * (UTC)"},
		{name: "the latest of a union", values: values{line: []string{"schedule=0 2 * * *", "schedule=0 13 * * *"}}, tick: "2026-11-20T12:00:00Z", text: "0 2 * * *; 0 13 * * * (Europe/Berlin)"},
		{name: "a period", values: values{line: []string{"every=90"}}, tick: "2026-11-20T12:34:30Z", text: "@every 1m30s (Europe/Berlin)"},
		{name: "a period that divides no day", values: values{line: []string{"every=7h"}}, tick: "2026-11-20T11:00:00Z", text: "@every 7h (UTC)"},
		{name: "a schedule and a period", values: values{line: []string{"every=1h", "schedule=30 13 * * *"}}, tick: "2026-11-20T12:30:00Z", text: "30 13 * * *; @every 1h (Europe/Berlin)"},
		{name: "a variable with several lines", values: values{environment: []string{"schedule=0 2 * * *\n\n 0 13 * * * \n"}}, tick: "2026-11-20T12:00:00Z", text: "0 2 * * *; 0 13 * * * (Europe/Berlin)"},
		{name: "a file", values: values{file: []string{"schedule=0 2 * * *", "timezone=UTC"}}, tick: "2026-11-20T02:00:00Z", text: "0 2 * * * (UTC)"},
		{name: "the command line over the rest", values: values{line: []string{"every=1h"}, environment: []string{"schedule=* * * * *"}, file: []string{"schedule=* * * * *"}}, tick: "2026-11-20T12:00:00Z", text: "@every 1h (Europe/Berlin)"},
		{name: "a variable over a file", values: values{environment: []string{"schedule=@daily"}, file: []string{"every=1m"}}, tick: "2026-11-19T23:00:00Z", text: "@daily (Europe/Berlin)"},
		{name: "a given tick", values: values{line: []string{"tick=2026-11-20T03:00:00+01:00"}}, tick: "2026-11-20T02:00:00Z"},
		{name: "in seconds", values: values{line: []string{"tick=1795140000"}}, tick: "2026-11-20T02:00:00Z"},
		{name: "over a schedule that is set", values: values{line: []string{"tick=1795140000"}, environment: []string{"schedule=@daily"}, file: []string{"every=1m"}}, tick: "2026-11-20T02:00:00Z"},

		// A clock that was set back between cron's start and ours must not make it the tick before.
		{name: "just before", values: values{line: []string{"schedule=0 2 * * *"}}, now: "2026-11-20T00:59:58Z", tick: "2026-11-20T01:00:00Z", text: "0 2 * * * (Europe/Berlin)"},
		{name: "too early", values: values{line: []string{"schedule=0 2 * * *"}}, now: "2026-11-20T00:59:57.999Z", tick: "2026-11-19T01:00:00Z", text: "0 2 * * * (Europe/Berlin)"},
		{name: "on time", values: values{line: []string{"schedule=0 2 * * *"}}, now: "2026-11-20T01:00:00Z", tick: "2026-11-20T01:00:00Z", text: "0 2 * * * (Europe/Berlin)"},

		// What is meant for ticks is no fault of a run without one, unless it is asked for here and now.
		{name: "deadlines for all", values: values{environment: []string{"start-deadline=1m"}, file: []string{"on-lost=rerun", "max-attempts=5", "timezone=UTC"}}},
	} {
		t.Run(c.name, func(t *testing.T) {
			instant := at(t, now)
			if c.now != "" {
				instant = at(t, c.now)
			}
			o, err := readTrigger(c.settings(t), instant)
			if err != nil {
				t.Fatal(err)
			}
			tick := ""
			if o.Tick != 0 {
				tick = tickText(o.Tick)
			}
			if tick != c.tick || o.Schedule.Text != c.text {
				t.Errorf("got %s of %q, want %s of %q", tick, o.Schedule.Text, c.tick, c.text)
			}
			if recorded, err := schedule.ParseText(o.Schedule.Text); c.text != "" && (err != nil || recorded.Fingerprint() != o.Schedule.Fingerprint) {
				t.Errorf("%q and %s are not the same: %v", o.Schedule.Text, o.Schedule.Fingerprint, err)
			}
			if !o.Given() && (o.OnLost != backends.Skip || o.StartDeadline != 0) {
				t.Errorf("nothing in particular, and yet %+v", o)
			}
		})
	}
}

func TestOptionsOfATrigger(t *testing.T) {
	t.Setenv("TZ", "UTC")
	now := at(t, "2026-11-20T12:00:00Z")
	o, err := readTrigger(values{line: []string{"tick=60", "start-deadline=10m", "on-lost=rerun", "max-attempts=5"}}.settings(t), now)
	want := backends.Trigger{Tick: 60, StartDeadline: 10 * time.Minute, OnLost: backends.Rerun, MaxAttempts: 5}
	if diff := cmp.Diff(want, o); err != nil || diff != "" {
		t.Errorf("%v\n%s", err, diff)
	}
	o, err = readTrigger(values{line: []string{"once=v42"}, environment: []string{"start-deadline=10m", "schedule=@daily"}}.settings(t), now)
	want = backends.Trigger{Once: "v42", OnLost: backends.Skip, MaxAttempts: 3}
	if diff := cmp.Diff(want, o); err != nil || diff != "" {
		t.Errorf("a key: %v\n%s", err, diff)
	}
}

func TestContradictoryTriggers(t *testing.T) {
	t.Setenv("TZ", "Moon/Tranquility")
	for _, c := range []struct {
		name string
		values
		code int
		what string // in the error
		hint string // in the remedy
	}{
		{"schedule and tick", values{line: []string{"schedule=@every 7h", "tick=60"}}, 64, "--schedule, --tick", "one of them"},
		{"period and key", values{line: []string{"every=7h", "once=k"}}, 64, "--every, --once", "one of them"},
		{"tick and key", values{line: []string{"tick=60", "once=k"}}, 64, "--tick, --once", "one of them"},
		{"a deadline for a key", values{line: []string{"once=k", "start-deadline=1m"}}, 64, "--start-deadline", "--tick"},
		{"a deadline for nothing", values{line: []string{"start-deadline=1m"}}, 64, "--start-deadline: the run is for no tick", "--schedule"},
		{"a policy for nothing", values{line: []string{"on-lost=rerun"}}, 64, "--on-lost", "--schedule"},
		{"attempts at nothing", values{line: []string{"max-attempts=2"}}, 64, "--max-attempts", "--schedule"},
		{"a zone of nothing", values{line: []string{"timezone=UTC"}}, 64, "--timezone", "--schedule"},
		{"a bad expression", values{line: []string{"schedule=61 * * * *"}}, 64, `--schedule: "61 * * * *": minute: "61" is out of range`, "0-59"},
		{"a bad expression that is set", values{environment: []string{"schedule=0 2 * * *\n@reboot"}}, 78, `LEADERRUN_SCHEDULE: "@reboot"`, "boot"},
		{"a bad expression in a file", values{file: []string{"schedule=0 2"}}, 78, `leaderrun.yaml:1: schedule: "0 2": 2 fields`, "minute, hour"},
		{"an empty expression", values{line: []string{"schedule="}}, 64, "--schedule: empty expression", "0 2 * * *"},
		{"half a second", values{line: []string{"every=0.5"}}, 64, "--every", "whole seconds"},
		{"no period", values{line: []string{"every=soon"}}, 64, `--every: "soon" is not a duration`, ""},
		{"an unknown zone", values{line: []string{"every=1h", "timezone=Mars/Olympus"}}, 64, `--timezone: unknown time zone "Mars/Olympus"`, "Europe/Berlin"},
		{"a host without a zone", values{line: []string{"schedule=0 2 * * *"}}, 78, `time zone: unknown time zone "Moon/Tranquility" (this host's)`, "--timezone"},
		{"no tick yet", values{line: []string{"every=366d"}}, 78, "schedule: @every 8784h (UTC) has no tick before", "clock"},
	} {
		t.Run(c.name, func(t *testing.T) {
			_, err := readTrigger(c.settings(t), at(t, "1970-12-01T00:00:00Z"))
			f, ok := errors.AsType[*fault](err)
			if !ok {
				t.Fatalf("got %v", err)
			}
			if f.code != c.code || !strings.Contains(f.Error(), c.what) || !strings.Contains(f.hint, c.hint) {
				t.Errorf("code %d: %v\nhint: %s", f.code, f, f.hint)
			}
		})
	}
}

func TestTicksAndKeysThatAreRefused(t *testing.T) {
	for _, text := range []string{
		"", "now", "0", "-5", "1.5", "2026-11-20", "2026-11-20 02:00:00Z", "2026-11-20T02:00:00", "2026-11-20T02:00:00.5Z",
		"1795140000000", "99999999999999999999", "1969-12-31T23:59:59Z", "9999-12-31T23:59:59-01:00", "0x10",
	} {
		if tick, err := parseTick(text); err == nil {
			t.Errorf("%q is taken for %s", text, tickText(tick))
		}
	}
	for text, want := range map[string]int64{
		"1": 1, "2026-11-20T02:00:00Z": 1795140000, "2026-11-20T03:00:00+01:00": 1795140000, "2026-11-20T02:00:00.000Z": 1795140000,
		"9999-12-31T23:59:59Z": lastTick,
	} {
		if tick, err := parseTick(text); err != nil || tick != want {
			t.Errorf("%q: %d, %v", text, tick, err)
		}
	}
	for _, key := range []string{"", "a\x00b", "\xff", strings.Repeat("k", 256), strings.Repeat("é", 128)} {
		if _, err := parseOnce(key); err == nil {
			t.Errorf("the key %q is taken", key)
		}
	}
	for _, key := range []string{"k", " ", "v1.2/ü\n", strings.Repeat("k", 255)} {
		if got, err := parseOnce(key); err != nil || got != key {
			t.Errorf("the key %q: %q, %v", key, got, err)
		}
	}
	for _, text := range []string{"0", "-1", "x", "", "1.5", "99999999999"} {
		if n, err := parseAttempts(text); err == nil {
			t.Errorf("%q attempts: %d", text, n)
		}
	}
	if d, err := duration.Deadline("0"); err == nil || !strings.Contains(err.Error(), "none") {
		t.Errorf("a deadline that starts nothing: %v, %v", d, err)
	}
}

func TestPatience(t *testing.T) {
	const minute = time.Minute
	skip, rerun := []string{"tick=60"}, []string{"tick=60", "on-lost=rerun"}
	for _, c := range []struct {
		name string
		values
		wait, backendWait time.Duration
	}{
		{"no tick", values{}, 0, 5 * time.Second},
		{"a tick", values{line: skip}, 0, minute},
		{"a key", values{line: []string{"once=k"}}, 0, minute},
		{"a wait", values{line: append(skip, "wait=10s")}, 10 * time.Second, minute},
		{"another patience", values{line: append(skip, "backend-wait=7s")}, 0, 7 * time.Second},
		{"rerun stands by", values{line: rerun}, runner.Forever, minute},
		{"a key stands by", values{line: []string{"once=k", "on-lost=rerun"}}, runner.Forever, minute},
		{"0 counts as given", values{line: append(rerun, "wait=0")}, 0, minute},
		{"in the environment, too", values{line: rerun, environment: []string{"wait=0"}}, 0, minute},
		{"and in a file", values{line: rerun, file: []string{"wait=1m"}}, minute, minute},
		{"rerun without a tick", values{file: []string{"on-lost=rerun"}}, 0, 5 * time.Second},
	} {
		s := c.settings(t)
		o, err := readTrigger(s, time.Now())
		if err != nil {
			t.Fatal(err)
		}
		if wait, backendWait := patienceOf(s, o); wait != c.wait || backendWait != c.backendWait {
			t.Errorf("%s: %v, %v", c.name, wait, backendWait)
		}
	}
}

// Hazard: a host with an old crontab takes over from one that merely was slower, or from a schedule that is in use.
func TestProofThatAScheduleIsOutOfUse(t *testing.T) {
	const hourly = "0 * * * * (UTC)"
	refusal := func(text, tick, lease string) backends.Refusal {
		return backends.Refusal{Verdict: backends.Outdated, Text: text, Tick: at(t, tick).Unix(), Lease: at(t, lease)}
	}
	for _, c := range []struct {
		name    string
		refusal backends.Refusal
		now     string
		want    string // "": no proof
	}{
		{"passed by a minute", refusal(hourly, "2026-11-20T10:00:00Z", "2026-11-20T10:05:00Z"), "2026-11-20T11:01:00Z", "2026-11-20T11:00:00Z"},
		{"passed by less", refusal(hourly, "2026-11-20T10:00:00Z", "2026-11-20T10:05:00Z"), "2026-11-20T11:00:59Z", ""},
		{"not passed", refusal(hourly, "2026-11-20T10:00:00Z", "2026-11-20T10:05:00Z"), "2026-11-20T10:59:00Z", ""},
		{"the earliest", refusal(hourly, "2026-11-20T10:00:00Z", "2026-11-20T10:05:00Z"), "2026-11-22T10:00:00Z", "2026-11-20T11:00:00Z"},
		{"after the lease", refusal(hourly, "2026-11-20T10:00:00Z", "2026-11-20T12:30:00Z"), "2026-11-20T13:30:00Z", "2026-11-20T13:00:00Z"},
		{"while the lease was held", refusal(hourly, "2026-11-20T10:00:00Z", "2026-11-20T12:30:00Z"), "2026-11-20T12:59:00Z", ""},
		{"as the lease ended", refusal(hourly, "2026-11-20T10:00:00Z", "2026-11-20T11:00:00Z"), "2026-11-20T11:59:00Z", ""},
		{"an instant after", refusal(hourly, "2026-11-20T10:00:00Z", "2026-11-20T10:59:59.999Z"), "2026-11-20T11:02:00Z", "2026-11-20T11:00:00Z"},
		{"after the recorded tick", refusal(hourly, "2026-11-20T10:00:00Z", "1970-01-01T00:00:00Z"), "2026-11-20T12:00:00Z", "2026-11-20T11:00:00Z"},
		{"a text of other rules", refusal("every full moon (UTC)", "2026-11-20T10:00:00Z", "2026-11-20T10:05:00Z"), "2026-11-22T10:00:00Z", ""},
	} {
		u, ok := passedUnclaimed(c.refusal, at(t, c.now))
		switch {
		case ok != (c.want != ""):
			t.Errorf("%s: %+v, %t", c.name, u, ok)
		case ok && (tickText(u.Instant) != c.want || !strings.HasPrefix(u.Fingerprint, "1-")):
			t.Errorf("%s: %s of %s, want %s", c.name, tickText(u.Instant), u.Fingerprint, c.want)
		}
	}
}

func TestVariablesOfATick(t *testing.T) {
	g := backends.Grant{Claim: backends.Claim{Job: "j", Trigger: backends.Trigger{Tick: 1795140000}}, Token: 5, Tick: 1795140000, Attempt: 2}
	got := strings.Join(grantVariables(g, tokenVariable), " ")
	for _, want := range []string{"LEADERRUN_TICK=2026-11-20T02:00:00Z", "LEADERRUN_TICK_UNIX=1795140000", "LEADERRUN_ATTEMPT=2"} {
		if !strings.Contains(got, want) {
			t.Errorf("%s is not in %s", want, got)
		}
	}
	g.Tick = 60 // the run of an earlier tick comes first
	if got := strings.Join(grantVariables(g, tokenVariable), " "); !strings.Contains(got, "LEADERRUN_TICK_UNIX=60") || strings.Contains(got, onceVariable) {
		t.Errorf("an earlier tick: %s", got)
	}
	g.Tick, g.Claim.Tick, g.Claim.Once = 0, 0, "a key"
	if got := strings.Join(grantVariables(g, tokenVariable), " "); !strings.Contains(got, "LEADERRUN_ONCE=a key") || strings.Contains(got, tickVariable) {
		t.Errorf("a key: %s", got)
	}
}
