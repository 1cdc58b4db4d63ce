package jobfile

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/leaderrun/leaderrun/backends"
)

// The file of the documentation, and every key.
func TestYAML(t *testing.T) {
	file := accepted(t, "jobs.yaml", `# what we run
timezone: Europe/Berlin
defaults: {ttl: 15s, on_lost: skip, env: {REPORT_LANG: en, PATH: /usr/bin}}
jobs:
  nightly-report:
    schedule: "0 2 * * *"
    command: [/usr/local/bin/report, --full, 1.50, true, 010]     # or  shell: "…"
    timeout: 30m
    start_deadline: 10m
    overlap: forbid
    catch_up: 0
    retries: 2
    env: {REPORT_LANG: de}
  "all: of it":
    schedule: ["0 4 * * mon", CRON_TZ=UTC 30 4 * * *]
    timezone: Asia/Tokyo
    shell: |
      cd /srv
      report
    env: {EMPTY: "", YES: yes}
    dir: /srv/app
    ttl: 30
    grace: 1.5
    kill_after: 1m
    timeout: none
    start_deadline: 1d
    backend_wait: 0
    on_lost: rerun
    max_attempts: 7
    overlap: wait
    shards: 16
    parallel: 2
    catch_up: 1000
    jitter: 15m
    retries: 4
    retry_delay: 0
    prefix: "[all] "
  8:
    every: 1.5d
    schedule: "@daily"
    command: [x]
`)
	if names := jobNames(file); !slices.Equal(names, []string{"nightly-report", "all: of it", "8"}) {
		t.Fatalf("jobs: %q", names)
	}
	report, all, eight := file.Jobs[0], file.Jobs[1], file.Jobs[2]

	options := NewDefaults().Options
	options.Timeout, options.StartDeadline, options.Retries = 30*time.Minute, 10*time.Minute, 2
	if diff := cmp.Diff(options, report.Options); diff != "" {
		t.Errorf("nightly-report (-want +got):\n%s", diff)
	}
	for _, c := range []struct{ what, got, want string }{
		{"place", report.Place, "jobs.yaml:5"},
		{"schedule", report.Schedule.String(), "0 2 * * * (Europe/Berlin)"},
		{"argv, as it is written", strings.Join(report.Argv, "|"), "/usr/local/bin/report|--full|1.50|true|010"},
		{"env, over the defaults", strings.Join(report.variables(), "|"), "PATH=/usr/bin|REPORT_LANG=de"},
		{"dir", report.Dir, ""},
		{"place", all.Place, "jobs.yaml:14"},
		{"schedule", all.Schedule.String(), "CRON_TZ=Asia/Tokyo 0 4 * * mon; CRON_TZ=UTC 30 4 * * *"},
		{"argv", strings.Join(all.Argv, "|"), "sh|-c|cd /srv\nreport\n"},
		{"env", strings.Join(all.variables(), "|"), "EMPTY=|PATH=/usr/bin|REPORT_LANG=en|YES=yes"},
		{"dir", all.Dir, "/srv/app"},
		{"schedule", eight.Schedule.String(), "CRON_TZ=UTC @every 36h; CRON_TZ=Europe/Berlin @daily"},
	} {
		if c.got != c.want {
			t.Errorf("%s: got %q, want %q", c.what, c.got, c.want)
		}
	}
	want := Options{
		TTL: 30 * time.Second, Grace: 1500 * time.Millisecond, KillAfter: time.Minute, StartDeadline: 24 * time.Hour,
		Jitter: 15 * time.Minute, Retries: 4, OnLost: backends.Rerun, MaxAttempts: 7, CatchUp: 1000, Overlap: Wait, Shards: 16, Parallel: 2, Prefix: "[all] ",
	}
	if diff := cmp.Diff(want, all.Options); diff != "" {
		t.Errorf("all of it (-want +got):\n%s", diff)
	}
	if plan := all.Timeline; plan.TTL != want.TTL || plan.Grace != want.Grace {
		t.Errorf("timeline: %+v", plan)
	}
	checkWarnings(t, file)
}

func jobNames(file *File) []string {
	var names []string
	for _, j := range file.Jobs {
		names = append(names, j.Name)
	}
	return names
}

// What the caller says counts where neither the job nor `defaults` says otherwise.
func TestCallersDefaults(t *testing.T) {
	d := testDefaults()
	d.TTL, d.Retries, d.Dir, d.Env = 20*time.Second, 5, "/srv", []string{"A=caller", "B=caller", "C=caller"}
	text := "defaults: {retries: 6, env: {B: file, C: file}}\njobs: {a: {every: 1h, shell: x, env: {C: job}}}\n"
	file, err := parse("jobs.yaml", []byte(text), d, testHost())
	if err != nil {
		t.Fatal(err)
	}
	a := file.Jobs[0]
	if a.TTL != d.TTL || a.Retries != 6 || a.Dir != "/srv" || !slices.Equal(a.variables(), []string{"A=caller", "B=file", "C=job"}) {
		t.Errorf("got %+v", a)
	}
}

// A job must not change what the next one begins with.
func TestJobsDoNotShare(t *testing.T) {
	file := accepted(t, "jobs.yaml", `
defaults: {env: {A: "1"}}
jobs:
  a: {every: 1h, shell: x, env: {A: "2", B: "3"}, timezone: Asia/Tokyo, retries: 3}
  b: {every: 1h, shell: x}
`)
	if b := file.Jobs[1]; !slices.Equal(b.variables(), []string{"A=1"}) || b.Schedule.String() != "@every 1h (UTC)" || b.Retries != 0 {
		t.Errorf("got %+v, %s", b, b.Schedule)
	}
}

func TestYAMLWarnings(t *testing.T) {
	file := accepted(t, "jobs.yaml", `jobs:
  a: {every: 1h, command: [/usr/bin/leaderrun, --quiet, run, other, x]}
  b: {every: 1h, shell: "leaderrun status && /opt/run"}
`)
	checkWarnings(t, file, "jobs.yaml:2: a: `leaderrun run` inside a job takes a second lease: write the command alone")
}

const plain = "jobs:\n  a:\n    every: 1h\n    shell: x\n" // a line of a job can follow

func TestYAMLRefused(t *testing.T) {
	const aliases = ": write the value out; keys that all jobs share go under `defaults:`"
	for _, c := range []struct {
		what, text string
		want       []string
	}{
		{"empty", "", []string{"jobs.yaml: there is no job in it: name one under `jobs:`"}},
		{"only comments", "# x\n", []string{"jobs.yaml: there is no job in it: name one under `jobs:`"}},
		{"no jobs", "timezone: UTC\njobs:\n", []string{"jobs.yaml: there is no job in it: name one under `jobs:`"}},
		{"a list", "- a\n", []string{"jobs.yaml:1: a list instead of keys and values: write one `key: value` a line"}},
		{"jobs in a list", "jobs:\n  - a\n", []string{"jobs.yaml:2: jobs: a list instead of keys and values: write one `key: value` a line"}},
		{"a job without keys", "jobs:\n  a:\n", []string{"jobs.yaml:2: a: nothing instead of keys and values: write one `key: value` a line"}},
		{
			"a run inside of its own name", "jobs:\n  a: {every: 1h, command: [su, app, -c, leaderrun run a x]}\n",
			[]string{"jobs.yaml:2: a: `leaderrun run` inside has the name of a job of this daemon, which has its lease: write the command alone"},
		},
		{
			"neither name nor keys", "jobs:\n  '':\n",
			[]string{
				"jobs.yaml:2: nothing instead of keys and values: write one `key: value` a line",
				"jobs.yaml:2: the name of the job is empty",
			},
		},
		{
			"a job of nothing", "jobs:\n  a: {}\n",
			[]string{
				"jobs.yaml:2: a: it has no command: give it `command: [PROGRAM, ARG]`, or `shell: LINE`",
				"jobs.yaml:2: a: it has no schedule: give it `schedule: \"0 2 * * *\"`, or `every: 15m`",
			},
		},
		{"two commands", plain + "    command: [x]\n", []string{"jobs.yaml:4: a: shell: it has a command already, in line 5: keep one of them"}},
		{
			"unknown keys", "job: {}\n" + plain + "    cmd: y\n    retry: 3\n    start-deadline: 1m\ndefaults: {tll: 1m, shell: x}\n",
			[]string{
				`jobs.yaml:1: unknown key "job": did you mean jobs?`,
				`jobs.yaml:6: a: unknown key "cmd": did you mean command?`,
				`jobs.yaml:7: a: unknown key "retry": did you mean retries?`,
				`jobs.yaml:8: a: unknown key "start-deadline": did you mean start_deadline?`,
				`jobs.yaml:9: defaults: unknown key "tll": did you mean ttl?`,
				`jobs.yaml:9: defaults: shell: it is each job's own: write it in the jobs`,
			},
		},
		{
			"keys twice", plain + "    shell: y\n  a: {every: 1h, shell: x}\njobs: {}\n",
			[]string{
				`jobs.yaml:5: a: key "shell" is given twice; the first is in line 4: keep one of them`,
				`jobs.yaml:6: jobs: key "a" is given twice; the first is in line 2: keep one of them`,
				`jobs.yaml:7: key "jobs" is given twice; the first is in line 1: keep one of them`,
			},
		},
		{
			"a zone twice", "timezone: UTC\ndefaults: {timezone: UTC}\n" + plain,
			[]string{"jobs.yaml:2: defaults: timezone: given twice; the first is in line 1: keep one of them"},
		},
		{
			"anchors and the like", "jobs:\n  a: &x {every: 1h, shell: x}\n  b: *x\n  c: {<<: {every: 1h}, every: !foo 1h, shell: !!str y}\n",
			[]string{
				"jobs.yaml:2: anchor &x: anchors are not read here" + aliases,
				"jobs.yaml:3: alias *x: aliases are not read here" + aliases,
				"jobs.yaml:4: merge key <<: merge keys are not read here" + aliases,
				`jobs.yaml:4: tag "!foo": tags are not read here: remove it; quotes make a text of any value`,
				`jobs.yaml:4: tag "!!str": tags are not read here: remove it; quotes make a text of any value`,
			},
		},
		{"names", "jobs:\n  '': {every: 1h, shell: x}\n  [a]: {}\n  " + strings.Repeat("n", 256) + ": {every: 1h, shell: x}\n", []string{
			"jobs.yaml:2: the name of the job is empty",
			"jobs.yaml:3: jobs: a key that is no word: put it in quotes",
			"jobs.yaml:4: the name of the job is longer than 255 bytes",
		}},
		{"names of shards", "jobs: {" + strings.Repeat("n", 253) + ": {every: 1h, shell: x, shards: 11}}", []string{
			"jobs.yaml:1: " + strings.Repeat("n", 253) + ": shards: the names of the shards are longer than 255 bytes: give the job a shorter name",
		}},
		{"a second document", plain + "---\n" + plain, []string{"jobs.yaml:5: a second document begins here: remove the line `---` and what follows"}},
		{"a zero byte", "jobs: {a: {every: 1h, command: [\"x\\0\"]}}", []string{"jobs.yaml:1: a: command: there is a zero byte in it: write it like `command: [PROGRAM, ARG]`"}},
		{"not UTF-8", plain + "#\xff\n", []string{"jobs.yaml:5: there is text that is not valid UTF-8: a job file is plain text, in UTF-8"}},
		{"a control character", plain + "#\x1b\n", []string{"jobs.yaml:5: there is a control character: a job file is plain text, in UTF-8"}},
		{
			"zones", "timezone: Mars/Base\n" + plain + "    timezone: ''\n",
			[]string{
				`jobs.yaml:1: timezone: unknown time zone "Mars/Base": name one of the IANA database, such as Europe/Berlin or UTC`,
				"jobs.yaml:6: a: timezone: the name of the zone is empty: name one of the IANA database, such as Europe/Berlin or UTC",
			},
		},
		{
			"each of several schedules", "jobs:\n  a:\n    shell: x\n    schedule:\n    - 0 2 * *\n    - '@daily'\n    - '@reboot'\n",
			[]string{
				`jobs.yaml:5: a: schedule: "0 2 * *": 4 fields instead of five: write minute, hour, day of month, month and day of week`,
				`jobs.yaml:7: a: schedule: "@reboot": @reboot is no instant: let systemd or cron start the job at boot, without a schedule`,
			},
		},
		{
			"types", "jobs:\n  a: {every: [1h], command: x}\n  b: {schedule: [], command: []}\n  c: {schedule: {a: b}, command: [a, [b]]}\n  d: {schedule: , shell: ' '}\n",
			[]string{
				"jobs.yaml:2: a: every: a list instead of a single value: write it like `every: 15m`",
				"jobs.yaml:2: a: command: a single value instead of a list of words: write `command: [PROGRAM, ARG]`, or give the line to a shell: `shell: LINE`",
				"jobs.yaml:3: b: schedule: the list is empty: write it like `schedule: \"0 2 * * *\"`",
				"jobs.yaml:3: b: command: the list is empty: write it like `command: [PROGRAM, ARG]`",
				"jobs.yaml:4: c: schedule: a mapping instead of a single value: write it like `schedule: \"0 2 * * *\"`",
				"jobs.yaml:4: c: command: a list instead of a single value: write it like `command: [PROGRAM, ARG]`",
				`jobs.yaml:5: d: schedule: it has no value: write one, or ""`,
				"jobs.yaml:5: d: shell: the line is empty: write it like `shell: \"PROGRAM ARG | PROGRAM\"`",
			},
		},
		{
			"the environment", plain + "    env: {LEADERRUN_X: 1, NOTIFY_SOCKET: x, A: , 1A: x}\n  b: {every: 1h, shell: x, env: [A=b]}\n",
			[]string{
				"jobs.yaml:5: a: env: LEADERRUN_X is leaderrun's own: remove it",
				"jobs.yaml:5: a: env: NOTIFY_SOCKET is between systemd and leaderrun: remove it",
				`jobs.yaml:5: a: env: A: it has no value: write it like A: "value"`,
				`jobs.yaml:5: a: env: "1A" is not the name of a variable: remove it`,
				"jobs.yaml:6: b: env: a list instead of keys and values: write one `key: value` a line",
			},
		},
	} {
		t.Run(c.what, func(t *testing.T) { refused(t, "jobs.yaml", c.text, c.want) })
	}
}

func TestValuesRefused(t *testing.T) {
	for line, want := range map[string]string{
		"ttl: x":             `a: ttl: "x" is not a duration like 90s, 1h30m, 2d, or 15 for seconds: write it like ` + "`ttl: 15s`",
		"ttl: 1s":            "a: a TTL of 1s is too short to renew, retry, stop and kill within: at least 5s: raise ttl",
		"grace: 5s":          "a: a grace of 5s does not fit a TTL of 15s: at most 4s: raise ttl, or leave grace out",
		"grace: -1s":         `a: grace: "-1s" is negative: write it like ` + "`grace: 2s`",
		"start_deadline: 0":  `a: start_deadline: "0" would start nothing: say "none" for no bound: write it like ` + "`start_deadline: 10m`",
		"kill_after: 0":      `a: kill_after: "0" would end it at once: say "none" for no bound: write it like ` + "`kill_after: 30s`",
		"timeout: -5":        `a: timeout: "-5" is not longer than nothing: write it like ` + "`timeout: 30m`",
		"start_deadline: no": `a: start_deadline: "no" is not a duration like 90s, 1h30m, 2d, or 15 for seconds: write it like ` + "`start_deadline: 10m`",
		"backend_wait: ~":    `a: backend_wait: it has no value: write one, or ""`,
		"on_lost: retry":     `a: on_lost: "retry" is none of skip, rerun: write it like ` + "`on_lost: skip`",
		"max_attempts: 0":    `a: max_attempts: "0" is not a whole number of at least 1: write it like ` + "`max_attempts: 3`",
		"overlap: allow":     `a: overlap: "allow" is none of forbid, wait, replace: write it like ` + "`overlap: forbid`",
		"catch_up: 1001":     `a: catch_up: "1001" is not a whole number from 0 to 1000: write it like ` + "`catch_up: 0`",
		"catch_up: 1.5":      `a: catch_up: "1.5" is not a whole number from 0 to 1000: write it like ` + "`catch_up: 0`",
		"shards: 0":          `a: shards: "0" is not a whole number from 1 to 10000: write it like ` + "`shards: 16`",
		"shards: 10001":      `a: shards: "10001" is not a whole number from 1 to 10000: write it like ` + "`shards: 16`",
		"parallel: 2":        "a: parallel: it is for a job with shards, and this one has none: add `shards: 16`, or remove it",
		"jitter: -1":         `a: jitter: "-1" is negative: write it like ` + "`jitter: 30s`",
		"jitter: 1h":         "a: jitter: 1h0m0s is not shorter than the 1h0m0s between two ticks: make it shorter; 0 is none",
		"retries: -1":        `a: retries: "-1" is not a whole number of at least 0: write it like ` + "`retries: 2`",
		"retry_delay: {}":    "a: retry_delay: a mapping instead of a single value: write it like `retry_delay: 10s`",
		`prefix: "a\nb"`:     `a: prefix: "a\nb" is more than one line: write it like ` + "`prefix: \"report: \"`",
		"dir: tmp":           `a: dir: "tmp" is not an absolute path: write it like ` + "`dir: /srv/app`",
		// A replaced run is "stopped", which rerun would run again at once.
		"overlap: replace, on_lost: rerun": "a: overlap: replace contradicts on_lost: rerun, which would run again what was replaced: choose one of them",
		// The next tick would come due, and stop the older one that is caught up.
		"overlap: replace, catch_up: 2":  "a: overlap: replace contradicts catch_up: the latest tick would stop what is caught up: choose one of them",
		"ttl: 1s, grace: 20s":            "a: a TTL of 1s is too short to renew, retry, stop and kill within: at least 5s: raise ttl",
		"shards: 16, parallel: 0":        `a: parallel: "0" is not a whole number from 1 to 10000: write it like ` + "`parallel: 2`",
		"jitter: 5m, start_deadline: 5m": "a: jitter: 5m0s is not shorter than the start_deadline of 5m0s: a run could delay itself past it: make it shorter; 0 is none",
	} {
		refused(t, "jobs.yaml", "jobs: {a: {every: 1h, shell: x, "+line+"}}", []string{"jobs.yaml:1: " + want})
	}
}

// One that is wrong in the defaults is told once, and not for each job.
func TestDefaultsRefused(t *testing.T) {
	refused(t, "jobs.yaml", "defaults: {ttl: x, grace: 9s, jitter: y}\njobs:\n  a: {every: 1h, shell: x}\n  b: {every: 1h, shell: x}\n", []string{
		`jobs.yaml:1: defaults: ttl: "x" is not a duration like 90s, 1h30m, 2d, or 15 for seconds: write it like ` + "`ttl: 15s`",
		`jobs.yaml:1: defaults: jitter: "y" is not a duration like 90s, 1h30m, 2d, or 15 for seconds: write it like ` + "`jitter: 30s`",
	})
	refused(t, "jobs.yaml", "defaults: {shards: 2, parallel: 2}\n"+plain, []string{
		"jobs.yaml:1: defaults: shards: it is each job's own: write it in the jobs",
	})
	refused(t, "jobs.yaml", "defaults: {env: {LEADERRUN_JOB: x}}\n"+plain, []string{
		"jobs.yaml:1: defaults: env: LEADERRUN_JOB is leaderrun's own: remove it",
	})
}

// A value that cannot be read hides nothing of the next job, nor of one that has its own.
func TestWrongValuesHideNothing(t *testing.T) {
	const notDuration = ` is not a duration like 90s, 1h30m, 2d, or 15 for seconds: write it like ` + "`ttl: 15s`"
	refused(t, "jobs.yaml", "jobs:\n  a: {every: 1h, shell: x, ttl: y}\n  b: {every: 1h, shell: x, grace: 9s}\n", []string{
		`jobs.yaml:2: a: ttl: "y"` + notDuration,
		"jobs.yaml:3: b: a grace of 9s does not fit a TTL of 15s: at most 4s: raise ttl, or leave grace out",
	})
	refused(t, "jobs.yaml", "defaults: {ttl: y}\njobs:\n  a: {every: 1h, shell: x, ttl: 15s, grace: 9s}\n", []string{
		`jobs.yaml:1: defaults: ttl: "y"` + notDuration,
		"jobs.yaml:3: a: a grace of 9s does not fit a TTL of 15s: at most 4s: raise ttl, or leave grace out",
	})
}

// Package yaml's errors are for programmers. The places are those of its own, as near as can be.
func TestNotYAML(t *testing.T) {
	for _, c := range []struct{ what, text, want string }{
		{
			"a schedule without quotes", "jobs:\n  a:\n    schedule: */5 * * * *\n",
			"jobs.yaml:3: did not find expected alphabetic or numeric character: " + starHint,
		},
		{"an alias of nothing", "jobs:\n  a:\n    schedule: *x\n", "jobs.yaml:3: unknown anchor 'x' referenced: " + starHint},
		{
			"a name without quotes", "jobs:\n  a:\n    schedule: @daily\n",
			"jobs.yaml:3: found character that cannot start any token: indent with blanks, not with tabs, and put a value that begins with @ or % in quotes",
		},
		{
			"a tab", "jobs:\n\ta:\n",
			"jobs.yaml:2: found character that cannot start any token: indent with blanks, not with tabs, and put a value that begins with @ or % in quotes",
		},
		{
			"a colon", "jobs:\n  a:\n    shell: echo a: b\n",
			"jobs.yaml:3: mapping values are not allowed in this context: put a value with a colon in quotes, and begin each key in its own line",
		},
		{
			"an indent", "jobs:\n  a:\n    every: 1h\n   shell: x\n",
			"jobs.yaml:2: did not find expected key, in what begins here: the file is YAML: what belongs to a key stands two blanks deeper",
		},
	} {
		t.Run(c.what, func(t *testing.T) { refused(t, "jobs.yaml", c.text, []string{c.want}) })
	}
}
