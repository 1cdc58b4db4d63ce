package crontab

import (
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/leaderrun/leaderrun/test/servers"
)

// odd are crontabs about which people and programs disagree. Debian's own cron is asked about each of them below.
var odd = []string{
	"", "# nothing\n", "# no newline", " \t\n", "0 2 * * * x\n", "0 2 * * * x", "  0 2 * * *\tx y \n",
	"0 2 * * *\n", "0 2 * *\n", "0\n", "@daily\n", "@daily x\n", "@Daily x\n", "@ x\n", "@reboot x\n", "@every 5m x\n", "@daily * x\n", "@hourly\t\tx\n",
	"* * * * * *\n", "* * * * * * x\n", "0 0 2 * * * x\n", "- * * * * x\n", "-* * * * * x\n", "~ * * * * x\n",
	"5~7 * * * * x\n", "5? * * * * x\n", "5x * * * * x\n", "*x * * * * x\n", "*-5 * * * * x\n", "*,x * * * * x\n", "5,,6 * * * * x\n", "5, * * * * x\n",
	"5/15 * * * * x\n", "*/0 * * * * x\n", "*/-5 * * * * x\n", "*/61 * * * * x\n", "*/99999999999999999999 * * * * x\n", "4294967301 * * * * x\n", "18446744073709551621 * * * * x\n",
	"60 * * * * x\n", "0 24 * * * x\n", "0 0 0 * * x\n", "0 0 32 * * x\n", "0 0 31 2 * x\n", "0 0 * 0 * x\n", "0 0 * 13 * x\n", "0 0 * * 8 x\n", "0 0 * * 7 x\n", "0 0 * * 0-7 x\n",
	"20-10 * * * * x\n", "10-20/3 * * * * x\n", "5-64/30 * * * * x\n", "1-2-3 * * * * x\n", "*/2/3 * * * * x\n", "0 0 * jan x\n", "0 0 * jan * x\n", "0 0 * JAN-mar * x\n", "0 0 * * mon,WED-fri/2 x\n", "0 0 * * monday x\n", "0 0 * mon * x\n", "0 jan * * * x\n", "0 0 L * * x\n", "0 0 * * 5#3 x\n", "0 0 * * 5L x\n",
	"FOO=bar\n", "FOO=\n", "FOO=\n0 2 * * * x\n", "FOO = \n", "FOO=\"a b\"\n", "FOO=\"a\" b\n", "FOO='a\n", "\"FOO\"=bar\n", "'F O'=bar\n", "\"F=O\"=bar\n", "=2\n", "1X=2\n", "FOO BAR=2\n", "export FOO=bar\n", "FOO\n", "0=5 * * * * x\n",
	"0 2 * * * x\r\n", "\r\n", "FOO=bar\r\n", "# x\r\n0 2 * * * x\n", "@daily\r\n",
	"0 2 * * * \xff\n", "0 2 * * \xff x\n", "5\xff * * * * x\n", "5~\xff * * * * x\n", "*\xff * * * * x\n", "é * * * * x\n", "0 2 * * * é\n", "0\u00a02 * * * x\n", "\ufeff0 2 * * * x\n",
	"0 2 * * * " + strings.Repeat("x", MaxCommand) + "\n", "0 2 * * * " + strings.Repeat("x", MaxCommand+1) + "\n", "FOO=" + strings.Repeat("x", 2000) + "\n",
	strings.Repeat("1", 999) + " * * * * x\n", strings.Repeat("1,", 700) + "1 * * * * x\n",
	strings.Repeat("\n", MaxLines-1) + "0 2 * * * x\n", strings.Repeat("\n", MaxLines) + "0 2 * * * x\n",
}

// asks says what crontab of Debian, whose parser is that of its cron, says of the syntax of a crontab.
func asks(t *testing.T, dir, text string) bool {
	t.Helper()
	path := filepath.Join(dir, "crontab")
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	out, err := exec.Command("crontab", "-n", path).CombinedOutput()
	switch {
	case strings.Contains(string(out), "successfully checked"):
		return true
	case strings.Contains(string(out), "can't install"), strings.Contains(string(out), "too long"):
		return false
	}
	t.Skipf("crontab -n says nothing of the syntax: %v, %s", err, out)
	return false
}

func TestLoadAgreesWithCron(t *testing.T) {
	if _, err := exec.LookPath("crontab"); err != nil {
		servers.Lack(t, "cron", "there is no crontab")
	}
	dir := t.TempDir()
	if !asks(t, dir, "@daily x\n") {
		t.Skip("this crontab is another's")
	}
	check := func(text string) {
		t.Helper()
		_, err := Load([]byte(text), User, Debian)
		if got, want := err == nil, asks(t, dir, text); got != want {
			if len(text) > 200 {
				text = text[:200] + "…"
			}
			t.Errorf("%q: loads: %t (%v), by cron: %t", text, got, err, want)
		}
	}
	for _, text := range odd {
		check(text)
	}
	if testing.Short() {
		return
	}
	const pieces = "0|5|59|60|*|/|-|,|~|?|x|jan|mon|7|31| | |\t|\n|=|\"|'|#|@daily|@|%|\\|\r|\xff|-|*/5|0 2 * * * |FOO="
	random := rand.New(rand.NewPCG(1, 2))
	for range 500 {
		var b strings.Builder
		for range 1 + random.IntN(14) {
			all := strings.Split(pieces, "|")
			b.WriteString(all[random.IntN(len(all))])
		}
		text := b.String() + "\n"
		if strings.Contains(text, "=\"\n") || strings.Contains(text, "='\n") || strings.Contains(text, "\n\"\n") || strings.Contains(text, "\n'\n") || text[:len(text)-1] == "'" || text[:len(text)-1] == "\"" {
			continue // a quote at the end of a line makes cron read on in what the memory held before
		}
		check(text)
	}
}

func TestLoad(t *testing.T) {
	got, err := Load([]byte("A=1\n\n*/30 2-4 1,15 jan-mar MON x %y\nB = 2\n@weekly z\n@reboot r\n"), User, Debian)
	if err != nil {
		t.Fatal(err)
	}
	want := []Entry{
		{Line: 3, Fields: "*/30 2-4 1,15 jan-mar MON", Command: "x %y"},
		{Line: 5, Fields: "@weekly", Command: "z"},
		{Line: 6, Fields: "@reboot", Command: "r"},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}

func TestLoadSystem(t *testing.T) {
	for text, why := range map[string]string{
		"0 2 * * * root x\n":            "",
		"0 2 * * *   root\tx\n":         "",
		"@daily root * x\n":             "",
		"0 2 * * * root\n":              "line 1: bad command",
		"0 2 * * *\n0 1 * * * root x\n": "line 1: bad command",
		"0 2 * * *  root\n":             "line 1: bad command",
	} {
		entries, err := Load([]byte(text), System, Debian)
		switch {
		case why == "" && (err != nil || entries[0].User != "root"):
			t.Errorf("%q: %v, %+v", text, err, entries)
		case why != "" && (err == nil || err.Error() != why):
			t.Errorf("%q: %v, want %s", text, err, why)
		}
	}
}

func TestCronie(t *testing.T) {
	for _, text := range []string{"-0 2 * * * x\n", "5~30 2 * * * x\n", "FOO=\n", "0 2 * * * " + strings.Repeat("x", 5000) + "\n"} {
		if _, err := Load([]byte(text), User, Cronie); err != nil {
			t.Errorf("%q: %v", text, err)
		}
		if _, err := Load([]byte(text), User, Debian); err == nil && !strings.Contains(text, "~") { // to Debian's that is 5
			t.Errorf("%q: cron of Debian loads it", text)
		}
	}
}
