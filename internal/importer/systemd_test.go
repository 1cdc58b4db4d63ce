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
		if text, _ := Lines([]*Job{job}); text != "0 0 * * * leaderrun run --schedule '0 0 * * *' a -- sh -c 'A='\\''b c'\\'' /a '\\''--b=c d'\\'''\n" {
			t.Errorf("%s: %s", service, text)
		}
	}
}

// CRON_TZ counts for all lines below it.
func TestZonesOfUnits(t *testing.T) {
	jobs := []*Job{}
	for name, zone := range map[string]string{"a": "Asia/Tokyo", "b": "", "c": "Europe/Berlin", "d": "Asia/Tokyo", "e": ""} {
		jobs = append(jobs, &Job{Name: name, Exprs: []string{"0 2 * * *"}, Timezone: zone, User: "root", raw: name})
	}
	text, _ := Lines(jobs)
	zone := ""
	for line := range strings.Lines(text) {
		if value, ok := strings.CutPrefix(line, "CRON_TZ="); ok {
			zone = strings.TrimSpace(value)
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
