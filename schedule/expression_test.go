package schedule

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"
)

func TestRefused(t *testing.T) {
	for _, c := range []struct{ expr, want string }{
		{"", "empty expression"},
		{"* * * *", "4 fields instead of five"},
		{"0 0 2 * * *", "no field for seconds"},
		{"60 * * * *", `minute: "60" is out of range: use 0-59`},
		{"0 24 * * *", `hour: "24" is out of range: use 0-23`},
		{"0 0 0 * *", `day of month: "0" is out of range: use 1-31`},
		{"0 0 32 * *", `day of month: "32" is out of range`},
		{"0 0 * * 8", `day of week: "8" is out of range: use 0-7 or SUN-SAT`},
		{"0 0 30 2 *", `day of month: "30" does not exist in month "2"`},
		{"0 0 31 4,jun,9,11 *", `day of month: "31" does not exist in month "4,jun,9,11"`},
		{"*/61 * * * *", `minute: "*/61" has a step larger than its range: write the value alone`},
		{"10-20/11 * * * *", `minute: "10-20/11" has a step larger`},
		{"0 0 * * 6-7/2", `day of week: "6-7/2" has a step larger`},
		{"*/0 * * * *", `minute: "*/0" has no step`},
		{"*/ * * * *", `minute: "*/" has no step`},
		{"*/99999999999999999999 * * * *", `minute: "*/99999999999999999999" has no step`},
		{"5/15 * * * *", `minute: "5/15" is a step without a range`},
		{"0 0 * * 7/2", `day of week: "7/2" is a step without a range`},
		{"1,,2 * * * *", `minute: empty element in "1,,2"`},
		{"0 FOO * * *", `hour: "FOO" is not understood`},
		{"0 0 * MON *", `month: "MON" is not understood`},
		{"0 0 * * MONDAY", `day of week: "MONDAY" is not understood`},
		{"0 0 * * FRI-SUN", `"FRI-SUN" goes backwards: write two ranges with a comma; as the end of a range Sunday is 7`},
		{"20-10 * * * *", `minute: "20-10" goes backwards`},
		{"-5 * * * *", `minute: "-5" is not understood`},
		{"*-5 * * * *", `minute: "*-5" is not understood`},
		{"*/2/2 * * * *", `minute: "*/2/2"`},
		{"? * * * *", `minute: "?" is not understood`},
		{"0 0 L * *", `day of month: "L" is not understood`},
		{"0 0 * * 5#3", `day of week: "5#3" is not understood`},
		{"H * * * *", `minute: "H" is not understood`},
		{"0 2\u00a0* * *", "neither ASCII nor a blank"},
		{"0 2 * * *\n", "neither ASCII nor a blank"},
		{"TZ=UTC", `"TZ=UTC" before the minute: only CRON_TZ=ZONE`},
		{"TZ=UTC 0 2 * * *", `"TZ=UTC" before the minute`},
		{"CRON_TZ=Europe/Paris", "nothing after the zone"},
		{"CRON_TZ= * * * * *", "CRON_TZ names no zone"},
		{"CRON_TZ=Nowhere/Town 0 2 * * *", `unknown time zone "Nowhere/Town"`},
		{"CRON_TZ=Local 0 2 * * *", `"Local" is no name of a zone`},
		{"CRON_TZ=../../etc/passwd 0 2 * * *", "unknown time zone"},
		{"CRON_TZ=UTC CRON_TZ=UTC 0 2 * * *", "6 fields"},
		{"@reboot", "@reboot is no instant"},
		{"@fortnightly", `unknown name "@fortnightly"`},
		{"@daily 5", "fields after @daily"},
		{"@every", "@every takes one duration"},
		{"@every 5 m", "@every takes one duration"},
		{"@every soon", `"soon" is not a duration`},
		{"@every -5s", `"-5s" is not longer than nothing`},
		{"@every 0", `"0" is not longer than nothing`},
		{"@every 1ms", "fraction of a second"},
		{"@every 1d-1h", "is not a duration"},
		{"@every 99999999999999999999", "is not a duration"},
		{"@every 300000h", "is longer than a year"},
		{strings.Repeat("1,", 300) + "1 * * * *", "longer than 500 bytes"},
	} {
		s, err := Parse([]string{"@daily", c.expr}, "UTC")
		if err == nil {
			t.Errorf("%q is accepted: %s", c.expr, s)
			continue
		}
		checkError(t, err)
		if !strings.Contains(err.Error(), c.want) {
			t.Errorf("%q: %v, want %s", c.expr, err, c.want)
		}
	}
	for _, exprs := range [][]string{nil, slices.Repeat([]string{"@daily"}, 33)} {
		if _, err := Parse(exprs, "UTC"); err == nil {
			t.Errorf("%d expressions are accepted", len(exprs))
		}
	}
	for _, zone := range []string{"Local", "localtime", "Mars/Base", "right/UTC", "Europe", "/etc/localtime", "a\nb"} {
		_, err := Parse([]string{"@every 7h"}, zone)
		if checkError(t, err); err == nil {
			t.Errorf("zone %q is accepted", zone)
		}
	}
}

func checkError(t rapid.TB, err error) {
	t.Helper()
	var fault *Error
	switch {
	case !errors.As(err, &fault):
		t.Errorf("%v is no *Error", err)
	case fault.Why == "" || fault.Hint == "":
		t.Errorf("%v has no reason or no remedy", err)
	case strings.ContainsAny(err.Error(), "\n\r\t") || len(err.Error()) > 400:
		t.Errorf("not a short line: %q", err)
	}
}

func FuzzParse(f *testing.F) {
	for _, seed := range []string{
		"0 2 * * MON", "CRON_TZ=Europe/Berlin */5 8-18/2 1,15 jan-MAR 5-7", "TZ=UTC", "@every 1d", "@daily", "*/61 * * * *",
		"0 0 30 2 *", "@every -5s", "CRON_TZ=UTC", "? * * * *", "0 0 29 2 */6", "\x00", "@every 9223372036854775807s",
	} {
		f.Add(seed, int64(1775000000))
	}
	f.Fuzz(func(t *testing.T, expr string, at int64) {
		s, err := Parse([]string{expr}, "America/New_York")
		if err != nil {
			checkError(t, err)
			return
		}
		now := time.Unix(at, 0)
		next, ok := s.Next(now)
		if ok && (!next.After(now) || at >= firstTick && next.Sub(now) > 45*366*24*time.Hour) {
			t.Errorf("%s: after %s comes %s", s, now, next)
		}
		if !ok && at < 4e9 {
			t.Errorf("%s: nothing after %s", s, now)
		}
		if ok {
			if last, found := s.Last(next); !found || !last.Equal(next) {
				t.Errorf("%s: the last at %s is %s", s, next, last)
			}
			if last, found := s.Last(next.Add(-1)); found && last.After(now) {
				t.Errorf("%s: %s lies between %s and the next, %s", s, last, now, next)
			}
		}
		// What people read means the same.
		zone := s.rules[0].zone.String()
		again, err := Parse([]string{strings.TrimSuffix(s.String(), " ("+zone+")")}, zone)
		if err != nil || again.Fingerprint() != s.Fingerprint() {
			t.Errorf("%q is shown as %q: %v", expr, s, err)
		}
	})
}
