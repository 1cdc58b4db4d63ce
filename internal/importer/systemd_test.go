package importer

import (
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/leaderrun/leaderrun/test/servers"
)

// Words of units are those of systemd: quotes may stand anywhere in one.
func TestWordsOfUnits(t *testing.T) {
	for line, want := range map[string][]string{
		`a  b	c`:        {"a", "b", "c"},
		`"a b" 'c d'`:   {"a b", "c d"},
		`--tag="a b" c`: {"--tag=a b", "c"},
		`A='b "c"'d ''`: {`A=b "c"d`, ""},
		`a ";" ';'b ;c`: {"a", ";", ";b", ";c"},
		`a ; b`:         nil,
		`a ;`:           nil,
		`a "b`:          nil,
		`a b'`:          nil,
	} {
		got, ok := unitWords(line)
		if ok != (want != nil) || ok && !slices.Equal(got, want) {
			t.Errorf("%s: %q, %v", line, got, ok)
		}
	}
}

// systemd-analyze names the program that it misses.
func TestWordsOfUnitsAsSystemdHasThem(t *testing.T) {
	servers.SkipShort(t)
	servers.Require(t, "systemd")
	for _, word := range []string{`/nowhere/a`, `"/nowhere/a b"`, `/nowhere/a" b"`, `/nowhere/'a b'c`, `/nowhere/a"b"'c'`} {
		path := filepath.Join(t.TempDir(), "a.service")
		if err := os.WriteFile(path, []byte("[Service]\nType=oneshot\nExecStart="+word+" x\n"), 0o600); err != nil {
			t.Fatal(err)
		}
		out, _ := exec.Command("systemd-analyze", "verify", "--man=no", path).CombinedOutput()
		words, _ := unitWords(word)
		if len(words) != 1 || !strings.Contains(string(out), "Command "+words[0]+" is not executable") {
			t.Errorf("%s: got %q, systemd says %s", word, words, out)
		}
	}
}

// What a unit has that a job would get otherwise is told, and nothing is written.
func TestUnitsThatAreNotUnderstood(t *testing.T) {
	for service, why := range map[string]string{
		"ExecStart=/a ; /b":                                 "its ExecStart= is not understood",
		"ExecStart=/a\nType=forking":                        "Type=forking leaves a daemon behind, which would end with the run",
		"ExecStart=/a\nUser=%i":                             "User=%i is not understood",
		"ExecStart=/a\nEnvironment=A=\"b":                   "Environment=A=\"b is not understood",
		"ExecStart=/a --b=\"c d\"\nEnvironment=A=\"b c\" D": "",
	} {
		timer := &unit{name: "a.timer", settings: parseUnit("OnCalendar=daily")}
		job, got := ofTimer(timer, []*unit{timer, {name: "a.service", settings: parseUnit(service)}})
		if why != "" {
			if got != "a.service: "+why {
				t.Errorf("%s: %q", service, got)
			}
			continue
		}
		if got != "" {
			t.Fatal(got)
		}
		job.Name = "a"
		if text := Lines([]*Job{job}, Options{}); text != "# job: a\n0 0 * * * leaderrun run --schedule '0 0 * * *' --shell a -- 'A='\\''b c'\\'' /a '\\''--b=c d'\\'''\n" {
			t.Errorf("%s: %s", service, text)
		}
	}
}

// Spans are those of systemd.time(7), in seconds; -1: it is none.
func TestSpans(t *testing.T) {
	for text, want := range map[string]float64{
		"": 0, "0": 0, "60": 60, "60sec": 60, "1 second": 1, "2seconds": 2, "1s": 1, "500ms": 0.5, "5 msec": 0.005, "7us": 7e-6, "7usec": 7e-6,
		"1m": 60, "5min": 300, "1minute": 60, "30 minutes": 1800, "1hr": 3600, "2h": 7200, "1hour": 3600, "2 hours": 7200, "1d": 86400, "1day": 86400, "2days": 172800,
		"1w": 604800, "1week": 604800, "2 weeks": 1209600, "1M": 2629800, "1month": 2629800, "2months": 5259600, "1y": 31557600, "1 year": 31557600, "2years": 63115200,
		"1h 30min": 5400, "1h30m": 5400, "1.5h": 5400, "2min 20": 140,
		"infinity": -1, "1 fortnight": -1, "h": -1, "-1h": -1, "1..5h": -1, "1000y": -1,
	} {
		d, ok := span(text)
		if ok != (want >= 0) || ok && d.Seconds() != want {
			t.Errorf("%s: %v, %v", text, d, ok)
		}
	}
	for text, want := range map[string]bool{"1": true, "yes": true, "Y": true, "TRUE": true, "t": true, "on": true, "0": false, "no": false, "n": false, "False": false, "f": false, "off": false} {
		if yes, ok := boolean(text); !ok || yes != want {
			t.Errorf("%s: %v, %v", text, yes, ok)
		}
	}
	if _, ok := boolean("maybe"); ok {
		t.Error("maybe")
	}
}

// A run starts before the next tick, or `leaderrun cron` refuses the file with all its jobs.
func TestDelaysOfTimers(t *testing.T) {
	for timer, want := range map[string]string{
		"OnCalendar=daily\nRandomizedDelaySec=24h":                 "23h59m59s",
		"OnCalendar=hourly\nRandomizedDelaySec=2h":                 "59m59s",
		"OnCalendar=00/3:00\nRandomizedDelaySec=3h":                "2h59m59s",
		"OnCalendar=6:00\nOnCalendar=7:00\nRandomizedDelaySec=1hr": "59m59s",
		"OnCalendar=daily\nRandomizedDelaySec=1day":                "23h59m59s",
		"OnCalendar=daily\nRandomizedDelaySec=12h":                 "12h",
		"OnCalendar=daily\nRandomizedDelaySec=5min":                "5m",
		"OnCalendar=daily\nRandomizedDelaySec=0":                   "",
	} {
		u := &unit{name: "a.timer", settings: parseUnit(timer)}
		job, why := ofTimer(u, []*unit{u, {name: "a.service", settings: parseUnit("ExecStart=/a")}})
		if why != "" {
			t.Fatal(why)
		}
		job.Name = "a"
		text, _ := JobFile([]*Job{job}, "")
		if got := strings.Contains(text, "    jitter: \""+want+"\"\n"); got != (want != "") || strings.Contains(text, "jitter") != got || job.Word == Left {
			t.Errorf("%s: %s %s", timer, job.Why, text)
		}
	}
}

// CRON_TZ counts for all lines below it.
func TestZonesOfUnits(t *testing.T) {
	jobs := []*Job{}
	for name, zone := range map[string]string{"a": "Asia/Tokyo", "b": "", "c": "Europe/Berlin", "d": "Asia/Tokyo", "e": ""} {
		jobs = append(jobs, &Job{Name: name, Exprs: []string{"0 2 * * *"}, Timezone: zone, User: "root", raw: name})
	}
	text := Lines(jobs, Options{})
	zone := ""
	for line := range strings.Lines(text) {
		if value, ok := strings.CutPrefix(line, "CRON_TZ="); ok {
			zone = strings.TrimSpace(value)
			continue
		}
		if line[0] == '#' {
			continue
		}
		if given := strings.Contains(line, "--timezone"); given != (zone != "") || given && !strings.Contains(line, "--timezone "+zone+" ") {
			t.Errorf("below CRON_TZ=%s: %s", zone, line)
		}
	}
	if strings.Count(text, "CRON_TZ") != 2 || strings.Count(text, "leaderrun run") != 5 {
		t.Error(text)
	}
}
