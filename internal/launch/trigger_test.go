package launch

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/leaderrun/leaderrun/backends"
	"github.com/leaderrun/leaderrun/internal/cli"
	"github.com/leaderrun/leaderrun/runner"
	"github.com/leaderrun/leaderrun/schedule"
)

// values are settings of run as three places give them: flags as "--name value" or "--name=value", variables and
// keys as "name=value".
type values struct{ line, environment, file []string }

func (v values) settings(t *testing.T) *cli.Settings {
	t.Helper()
	environment := map[string]string{}
	s := cli.NewSettings(func(name string) (string, bool) { text, ok := environment[name]; return text, ok })
	s.File = map[string]cli.Given{}
	words := map[string]*cli.Word{}
	for _, o := range RunOptions() {
		words[o.Name] = s.Word(o)
	}
	for _, entry := range v.line {
		name, text, _ := strings.Cut(entry, "=")
		if err := words[name].Set(text); err != nil {
			t.Fatal(err)
		}
	}
	for _, entry := range v.environment {
		name, text, _ := strings.Cut(entry, "=")
		environment[words[name].Variable()] = text
	}
	for _, entry := range v.file {
		name, text, _ := strings.Cut(entry, "=")
		s.File[words[name].Key()] = cli.Given{Text: text, Origin: cli.FromFile, Place: "leaderrun.yaml:1: " + name}
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
		{name: "the latest of a union", values: values{line: []string{"schedule=0 2 * * *", "schedule=0 13 * * *"}}, tick: "2026-11-20T12:00:00Z", text: "0 2 * * *; 0 13 * * * (Europe/Berlin)"},
		{name: "a period", values: values{line: []string{"every=90"}}, tick: "2026-11-20T12:34:30Z", text: "@every 1m30s (Europe/Berlin)"},
		{name: "a period that divides no day", values: values{line: []string{"every=7h"}}, tick: "2026-11-20T11:00:00Z", text: "@every 7h (UTC)"},
		{name: "a schedule and a period", values: values{line: []string{"every=1h", "schedule=30 13 * * *"}}, tick: "2026-11-20T12:30:00Z", text: "30 13 * * *; @every 1h (Europe/Berlin)"},
		{name: "a given tick", values: values{line: []string{"tick=2026-11-20T03:00:00+01:00"}}, tick: "2026-11-20T02:00:00Z"},

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
			o, err := ReadTrigger(c.settings(t), instant)
			if err != nil {
				t.Fatal(err)
			}
			tick := ""
			if o.Tick != 0 {
				tick = cli.TickText(o.Tick)
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
	o, err := ReadTrigger(values{line: []string{"tick=60", "start-deadline=10m", "on-lost=rerun", "max-attempts=5"}}.settings(t), now)
	want := backends.Trigger{Tick: 60, StartDeadline: 10 * time.Minute, OnLost: backends.Rerun, MaxAttempts: 5}
	if diff := cmp.Diff(want, o); err != nil || diff != "" {
		t.Errorf("%v\n%s", err, diff)
	}
	o, err = ReadTrigger(values{line: []string{"once=v42"}, environment: []string{"start-deadline=10m", "schedule=@daily"}}.settings(t), now)
	want = backends.Trigger{Once: "v42", OnLost: backends.Skip, MaxAttempts: 3}
	if diff := cmp.Diff(want, o); err != nil || diff != "" {
		t.Errorf("a key: %v\n%s", err, diff)
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
		o, err := ReadTrigger(s, time.Now())
		if err != nil {
			t.Fatal(err)
		}
		if wait, backendWait := PatienceOf(s, o); wait != c.wait || backendWait != c.backendWait {
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
		u, ok := PassedUnclaimed(c.refusal, at(t, c.now))
		switch {
		case ok != (c.want != ""):
			t.Errorf("%s: %+v, %t", c.name, u, ok)
		case ok && (cli.TickText(u.Instant) != c.want || !strings.HasPrefix(u.Fingerprint, "1-")):
			t.Errorf("%s: %s of %s, want %s", c.name, cli.TickText(u.Instant), u.Fingerprint, c.want)
		}
	}
}
