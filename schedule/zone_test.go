package schedule

import (
	"bytes"
	"encoding/binary"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"
)

// slimZone returns a zone as tzdata since 2020b and the copy in the binary have it: a table that ends soon and a rule
// for what comes after. This table is UTC until the time of its one change.
func slimZone(t rapid.TB, change int64, rule string) *time.Location {
	t.Helper()
	var data bytes.Buffer
	header := func(times, types, chars uint32) {
		data.WriteString("TZif2" + strings.Repeat("\x00", 15))
		for _, n := range []uint32{0, 0, 0, times, types, chars} {
			binary.Write(&data, binary.BigEndian, n)
		}
	}
	header(0, 0, 0)
	header(1, 1, 4)
	binary.Write(&data, binary.BigEndian, change)
	data.Write([]byte{0, 0, 0, 0, 0, 0, 0}) // of type 0: UTC+0, no daylight saving, abbreviation 0
	data.WriteString("LMT\x00\n" + rule + "\n")
	zone, err := time.LoadLocationFromTZData("slim "+rule, data.Bytes())
	if err != nil {
		t.Fatal(err)
	}
	return zone
}

// For 31 December of a leap year time.Time.ZoneBounds says that the zone ends before it: a loop over periods stays
// there for ever.
func TestLastDayOfALeapYearInAZoneWithARule(t *testing.T) {
	zone := slimZone(t, -1e9, "EST5EDT,M3.2.0,M11.1.0")
	at := time.Date(2028, 12, 31, 12, 0, 0, 0, zone)
	if _, end := at.ZoneBounds(); end.After(at) {
		t.Log("time.Time.ZoneBounds has been mended")
	}
	for _, c := range []struct{ expr, next, last string }{
		{"0 2 * * *", "2029-01-01T02:00:00-05:00", "2028-12-31T02:00:00-05:00"},
		{"30 2 1 7 *", "2029-07-01T02:30:00-04:00", "2028-07-01T02:30:00-04:00"},
		{"0 * * * *", "2028-12-31T13:00:00-05:00", "2028-12-31T12:00:00-05:00"},
	} {
		s := parsed(t, "UTC", c.expr)
		s.rules[0].zone = zone
		next, _ := s.Next(at)
		last, _ := s.Last(at)
		if got := next.In(zone).Format(time.RFC3339); got != c.next {
			t.Errorf("%s: next %s, want %s", s, got, c.next)
		}
		if got := last.In(zone).Format(time.RFC3339); got != c.last {
			t.Errorf("%s: last %s, want %s", s, got, c.last)
		}
	}
	p := periodAt(zone, at.Unix())
	if got := time.Unix(p.start, 0).UTC().Format(time.RFC3339); got != "2028-11-05T06:00:00Z" || p.before != -4*3600 {
		t.Errorf("the period of %s starts at %s, before it %d s", at, got, p.before)
	}
}

// Between the change that ends the table and the next, ZoneBounds says that the zone began before the table ended.
func TestTableOfAZoneEndsWithinAYear(t *testing.T) {
	change := time.Date(2020, 6, 1, 0, 0, 0, 0, time.UTC).Unix()
	for _, rule := range []string{"<+00>0<+02>-2,M3.5.0/1,M10.5.0/3", "WAT-1", "<-02>2", "<-01>1<+00>,M10.1.0,M4.1.0", "<+07>-7<+05>-5,M3.5.0/1,M10.5.0/3"} {
		zone := slimZone(t, change, rule)
		for _, spec := range []spec{
			{text: "30 0-4 * * *", sets: [5][]int{{30}, upwards(0, 4, 1), upwards(1, 31, 1), upwards(1, 12, 1), upwards(0, 6, 1)}, star: [5]bool{2: true, 4: true}},
			{text: "30 22 * * *", sets: [5][]int{{30}, {22}, upwards(1, 31, 1), upwards(1, 12, 1), upwards(0, 6, 1)}, star: [5]bool{2: true, 4: true}},
			{text: "@every 20m", every: 20},
			{text: "@every 2h", every: 120},
		} {
			s := parsed(t, "UTC", spec.text)
			s.rules[0].zone = zone
			from, to := change-3*daySeconds, change+400*daySeconds
			compare(t, s, walk(spec, zone, from, to), from, to)
		}
	}
}

func TestZoneOfTheHost(t *testing.T) {
	dir := t.TempDir()
	link := func(name, target string) string {
		t.Helper()
		file := filepath.Join(dir, name)
		if err := os.Symlink(target, file); err != nil {
			t.Fatal(err)
		}
		return file
	}
	plain := filepath.Join(dir, "plain")
	if err := os.WriteFile(plain, []byte("TZif2"), 0o600); err != nil {
		t.Fatal(err)
	}
	berlin := link("berlin", "/usr/share/zoneinfo/Europe/Berlin")
	for _, c := range []struct {
		name, tz  string
		isSet     bool
		localtime string
		want      string // "": an error
	}{
		{"a link", "", false, berlin, "Europe/Berlin"},
		{"a relative link", "", false, link("relative", "../usr/share/zoneinfo/America/Argentina/Ushuaia"), "America/Argentina/Ushuaia"},
		{"a link to a link", "", false, link("second", "berlin"), "Europe/Berlin"},
		{"macOS", "", false, link("mac", "/var/db/timezone/zoneinfo/Asia/Tokyo"), "Asia/Tokyo"},
		{"posix/", "", false, link("posix", "/usr/share/zoneinfo/posix/Asia/Tokyo"), "Asia/Tokyo"},
		{"UTC by its other name", "", false, link("utc", "/usr/share/zoneinfo/Etc/UTC"), "UTC"},
		{"no file", "", false, filepath.Join(dir, "none"), "UTC"},
		{"a copy", "", false, plain, ""},
		{"a link to a copy", "", false, link("copy", "plain"), ""},
		{"a loop", "", false, link("loop", "loop"), ""},
		{"TZ", "Asia/Tokyo", true, berlin, "Asia/Tokyo"},
		{"TZ with a colon", ":Asia/Tokyo", true, berlin, "Asia/Tokyo"},
		{"TZ empty", "", true, berlin, "UTC"},
		{"TZ is a file of the database", "/usr/share/zoneinfo/Asia/Tokyo", true, berlin, "Asia/Tokyo"},
		{"TZ is the link", ":" + berlin, true, plain, "Europe/Berlin"},
		{"TZ is another file", plain, true, berlin, ""},
		{"TZ is no file", "/nowhere", true, berlin, ""},
	} {
		got, err := hostZone(c.tz, c.isSet, c.localtime)
		if got != c.want || (err == nil) != (c.want != "") {
			t.Errorf("%s: %q, %v, want %q", c.name, got, err, c.want)
		}
	}
}

func TestZoneIsThatOfTheVariable(t *testing.T) {
	t.Setenv("TZ", "Asia/Tokyo")
	s, err := Parse([]string{"0 2 * * *"}, "")
	if err != nil || s.Fingerprint() != parsed(t, "Asia/Tokyo", "0 2 * * *").Fingerprint() {
		t.Errorf("%v, %v", s, err)
	}
	t.Setenv("TZ", "CET-1CEST")
	if _, err := Parse([]string{"0 2 * * *"}, ""); err == nil || !strings.Contains(err.Error(), `unknown time zone "CET-1CEST" (this host's)`) {
		t.Errorf("a TZ without a name: %v", err)
	}
	if _, err := Parse([]string{"CRON_TZ=UTC 0 2 * * *", "@every 7h"}, ""); err != nil {
		t.Errorf("the host's zone is not asked for: %v", err)
	}
}
