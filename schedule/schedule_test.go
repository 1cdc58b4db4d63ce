package schedule

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"
)

func parsed(t rapid.TB, zone string, exprs ...string) *Schedule {
	t.Helper()
	s, err := Parse(exprs, zone)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// Each row is a few days; times are local, with the offset from UTC where it matters.
func TestDaylightSaving(t *testing.T) {
	for _, c := range []struct {
		what, zone, expr, from string
		want                   []string
	}{
		{
			"in the gap: right after it", "America/New_York", "30 2 * * *", "2026-03-07T12:00:00-05:00",
			[]string{"2026-03-08T03:00:00-04:00", "2026-03-09T02:30:00-04:00"},
		},
		{
			"several times of the gap and its end: one run", "America/New_York", "0,30 2-3 * * *", "2026-03-07T12:00:00-05:00",
			[]string{"2026-03-08T03:00:00-04:00", "2026-03-08T03:30:00-04:00", "2026-03-09T02:00:00-04:00"},
		},
		{
			"a repeated hour: once", "America/New_York", "30 1 * * *", "2026-10-31T12:00:00-04:00",
			[]string{"2026-11-01T01:30:00-04:00", "2026-11-02T01:30:00-05:00"},
		},
		{
			"*: real time, forward", "America/New_York", "30 * * * *", "2026-03-08T00:00:00-05:00",
			[]string{"2026-03-08T00:30:00-05:00", "2026-03-08T01:30:00-05:00", "2026-03-08T03:30:00-04:00"},
		},
		{
			"*: real time, back", "America/New_York", "30 * * * *", "2026-11-01T00:00:00-04:00",
			[]string{"2026-11-01T00:30:00-04:00", "2026-11-01T01:30:00-04:00", "2026-11-01T01:30:00-05:00", "2026-11-01T02:30:00-05:00"},
		},
		{
			"* in the minute: the hour in the gap is not shown", "America/New_York", "*/30 2 * * *", "2026-03-07T12:00:00-05:00",
			[]string{"2026-03-09T02:00:00-04:00", "2026-03-09T02:30:00-04:00"},
		},
		{
			"* in the day only: fixed", "Europe/Berlin", "30 2 */1 * *", "2026-03-28T12:00:00+01:00",
			[]string{"2026-03-29T03:00:00+02:00", "2026-03-30T02:30:00+02:00"},
		},
		{
			"0-23 is no *: each hour once", "Europe/Berlin", "0 0-23 * * *", "2026-10-25T01:30:00+02:00",
			[]string{"2026-10-25T02:00:00+02:00", "2026-10-25T03:00:00+01:00"},
		},
		{
			"a gap at midnight", "America/Sao_Paulo", "0 0 * * *", "2018-11-03T12:00:00-03:00",
			[]string{"2018-11-04T01:00:00-02:00", "2018-11-05T00:00:00-02:00"},
		},
		{
			"a gap at midnight: the weekday is that of the time left out", "America/Sao_Paulo", "30 0 * * SUN", "2018-11-03T12:00:00-03:00",
			[]string{"2018-11-04T01:00:00-02:00", "2018-11-11T00:30:00-02:00"},
		},
		{
			"half an hour forward", "Australia/Lord_Howe", "15 2 * * *", "2026-10-03T12:00:00+10:30",
			[]string{"2026-10-04T02:30:00+11:00", "2026-10-05T02:15:00+11:00"},
		},
		{
			"a day left out", "Pacific/Apia", "0 2 * * *", "2011-12-28T12:00:00-10:00",
			[]string{"2011-12-29T02:00:00-10:00", "2011-12-31T02:00:00+14:00"},
		},
		{
			"@every up to an hour follows real time", "Europe/Berlin", "@every 30m", "2026-10-25T02:15:00+02:00",
			[]string{"2026-10-25T02:30:00+02:00", "2026-10-25T02:00:00+01:00", "2026-10-25T02:30:00+01:00", "2026-10-25T03:00:00+01:00"},
		},
		{
			"@every of some hours keeps to the clock", "Europe/Berlin", "@every 6h", "2026-03-28T18:00:00+01:00",
			[]string{"2026-03-29T00:00:00+01:00", "2026-03-29T06:00:00+02:00"},
		},
	} {
		s := parsed(t, c.zone, c.expr)
		from, err := time.Parse(time.RFC3339, c.from)
		if err != nil {
			t.Fatal(err)
		}
		var got []string
		for _, tick := range s.Upcoming(from, len(c.want)) {
			got = append(got, tick.Time.Format(time.RFC3339))
		}
		if !slices.Equal(got, c.want) {
			t.Errorf("%s: %s after %s\n got %s\nwant %s", c.what, s, c.from, got, c.want)
		}
	}
}

func TestDays(t *testing.T) {
	for _, c := range []struct {
		expr string
		want []string // after 2026-01-01, a Thursday
	}{
		{"0 0 1,15 * FRI", []string{"Fri 2026-01-02", "Fri 2026-01-09", "Thu 2026-01-15", "Fri 2026-01-16"}},
		{"0 0 * * FRI", []string{"Fri 2026-01-02", "Fri 2026-01-09"}},
		{"0 0 */10 * FRI", []string{"Fri 2026-05-01", "Fri 2026-07-31", "Fri 2026-08-21", "Fri 2026-09-11"}},
		{"0 0 13 * */5", []string{"Fri 2026-02-13", "Fri 2026-03-13", "Sun 2026-09-13", "Fri 2026-11-13"}},
		{"0 0 * * 5-7", []string{"Fri 2026-01-02", "Sat 2026-01-03", "Sun 2026-01-04", "Fri 2026-01-09"}},
		{"0 0 * * 5-7/2", []string{"Fri 2026-01-02", "Sun 2026-01-04", "Fri 2026-01-09"}},
		{"0 0 * * sat,SUN", []string{"Sat 2026-01-03", "Sun 2026-01-04", "Sat 2026-01-10"}},
		{"0 0 29 2 *", []string{"Tue 2028-02-29", "Sun 2032-02-29"}},
		{"0 0 29 2 */6", []string{"Sun 2032-02-29", "Sat 2048-02-29", "Sun 2060-02-29"}},
		{"0 0 29-31 FEB-mar *", []string{"Sun 2026-03-29", "Mon 2026-03-30", "Tue 2026-03-31", "Mon 2027-03-29"}},
		{"@yearly", []string{"Fri 2027-01-01"}},
		{"@monthly", []string{"Sun 2026-02-01"}},
		{"@weekly", []string{"Sun 2026-01-04"}},
		{"@midnight", []string{"Fri 2026-01-02"}},
	} {
		s := parsed(t, "UTC", c.expr)
		var got []string
		for _, tick := range s.Upcoming(time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC), len(c.want)) {
			got = append(got, tick.Time.Format("Mon 2006-01-02"))
		}
		if !slices.Equal(got, c.want) {
			t.Errorf("%s: got %s, want %s", s, got, c.want)
		}
	}
}

func TestEveryIsMultiples(t *testing.T) {
	for _, c := range []struct{ expr, zone, at, next, last string }{
		{"@every 15m", "Asia/Kolkata", "2026-06-01T10:07:00Z", "2026-06-01T10:15:00Z", "2026-06-01T10:00:00Z"},
		{"@every 1h", "Asia/Kolkata", "2026-06-01T10:07:00Z", "2026-06-01T10:30:00Z", "2026-06-01T09:30:00Z"},
		{"@every 1d", "Asia/Kolkata", "2026-06-01T10:07:00Z", "2026-06-01T18:30:00Z", "2026-05-31T18:30:00Z"},
		{"@every 90", "UTC", "2026-06-01T10:00:00Z", "2026-06-01T10:01:30Z", "2026-06-01T10:00:00Z"},
		{"@every 1s", "UTC", "2026-06-01T10:00:00Z", "2026-06-01T10:00:01Z", "2026-06-01T10:00:00Z"},
		{"@every 7h", "Asia/Kolkata", "1970-01-01T07:00:00Z", "1970-01-01T14:00:00Z", "1970-01-01T07:00:00Z"},
		{"@every 2d", "America/New_York", "1970-01-04T00:00:00Z", "1970-01-05T00:00:00Z", "1970-01-03T00:00:00Z"},
		{"@every 1d12h", "America/New_York", "1970-01-01T00:00:01Z", "1970-01-02T12:00:00Z", ""},
	} {
		s := parsed(t, c.zone, c.expr)
		at, _ := time.Parse(time.RFC3339, c.at)
		next, _ := s.Next(at)
		last, ok := s.Last(at)
		if got := next.Format(time.RFC3339); got != c.next {
			t.Errorf("%s after %s: %s, want %s", s, c.at, got, c.next)
		}
		if got := last.Format(time.RFC3339); got != c.last && (ok || c.last != "") {
			t.Errorf("%s at %s: %s, want %s", s, c.at, got, c.last)
		}
	}
}

func TestTickOfAnInstant(t *testing.T) {
	s := parsed(t, "UTC", "0 2 * * *", "CRON_TZ=Asia/Tokyo 30 9 * * *") // 02:00 and 00:30 UTC
	tick := time.Date(2026, 6, 1, 2, 0, 0, 0, time.UTC)
	for _, c := range []struct{ at, last, next time.Time }{
		{tick, tick, tick.Add(22*time.Hour + 30*time.Minute)},
		{tick.Add(1), tick, tick.Add(22*time.Hour + 30*time.Minute)},
		{tick.Add(-1), tick.Add(-90 * time.Minute), tick},
		{tick.Add(-time.Second), tick.Add(-90 * time.Minute), tick},
	} {
		last, _ := s.Last(c.at)
		next, _ := s.Next(c.at)
		if !last.Equal(c.last) || !next.Equal(c.next) || next.Location() != time.UTC {
			t.Errorf("at %s: last %s, next %s, want %s and %s", c.at, last, next, c.last, c.next)
		}
	}
}

func TestBeforeAndAfterAllTicks(t *testing.T) {
	for _, zone := range []string{"UTC", "America/New_York"} {
		s := parsed(t, zone, "0 0 1 1 *")
		for _, at := range []time.Time{{}, time.Unix(math.MinInt64, 0), time.Unix(-1, 0)} {
			if last, ok := s.Last(at); ok {
				t.Errorf("%s: at %s: last %s", s, at, last)
			}
			if next, ok := s.Next(at); !ok || next.Year() < 1970 || next.Year() > 1971 {
				t.Errorf("%s: after %s: next %s", s, at, next)
			}
		}
		for _, at := range []time.Time{time.Date(9999, 12, 31, 23, 0, 0, 0, time.UTC), time.Unix(math.MaxInt64, 0)} {
			if next, ok := s.Next(at); ok {
				t.Errorf("%s: after %s: next %s", s, at, next)
			}
			if last, ok := s.Last(at); !ok || last.Year() != 9999 {
				t.Errorf("%s: at %s: last %s", s, at, last)
			}
		}
	}
	if last, ok := parsed(t, "UTC", "* * * * *").Last(time.Unix(30, 0)); ok {
		t.Errorf("0 stands for no tick, got %s", last)
	}
}

func TestFingerprint(t *testing.T) {
	of := func(zone string, exprs ...string) string { t.Helper(); return parsed(t, zone, exprs...).Fingerprint() }
	for _, same := range [][]string{
		{"0 2 * * MON", "00 02 * * 1", " 0\t2  *  *  mon ", "CRON_TZ=Europe/Berlin 0 2 * * 1", "0 2 * * 1,MON", "0 2 * * 1-1"},
		{"0 0 * * 0", "@weekly", "0 0 * * 7", "0 0 * * SUN"},
		{"@hourly", "0 * * * *", "0 */1 * * *", "0 *,5 * * *"},
		{"@daily", "@midnight", "0 0 * * *", "0 0 1-31 * *", "0 0 * * 0-6", "0 0 1-31 * 5", "0 0 1 * 1-7"},
		{"@every 90m", "@every 1h30m", "@every 5400", "@every 0.0625d"},
		{"*/15 * * * *", "*/15 * * 1-12 *", "*/15 0-23 * * *"},
	} {
		for _, expr := range same {
			if got, want := of("Europe/Berlin", expr), of("Europe/Berlin", same[0]); got != want {
				t.Errorf("%q has %s, %q has %s", expr, got, same[0], want)
			}
		}
	}
	different := []string{
		of("Europe/Berlin", "0 2 * * MON"), of("Europe/Berlin", "0 2 * * TUE"), of("Europe/Paris", "0 2 * * MON"),
		of("Europe/Berlin", "0 0-23 * * *"), of("Europe/Berlin", "0 * * * *"), // fixed or not
		of("Europe/Berlin", "0 0 1,11,21,31 * FRI"), of("Europe/Berlin", "0 0 */10 * FRI"), // either or both
		of("Europe/Berlin", "@every 1h"), of("Europe/Berlin", "@every 1m"), of("UTC", "@every 1h"),
		of("UTC", "0 2 * * *", "0 3 * * *"), of("UTC", "0 2 * * *"),
	}
	if slices.Sort(different); len(slices.Compact(slices.Clone(different))) != len(different) {
		t.Errorf("equal fingerprints: %s", different)
	}
	if of("UTC", "0 2 * * *", "0 3 * * *") != of("UTC", "0 3 * * *", "0 2 * * *", "00 2 * * *") {
		t.Error("the order of expressions matters")
	}
	if of("Etc/UTC", "0 2 * * *") != of("UTC", "0 2 * * *") || of("Europe/Berlin", "@every 7h") != of("UTC", "@every 7h") {
		t.Error("names of zones that mean the same")
	}
	// What is stored in records out there. A change of it makes every host's schedule another one.
	if got := of("Europe/Berlin", "0 2 * * MON", "@every 7h"); got != "1-a199ef49a5e129bce715107c7d261909" {
		t.Errorf("the fingerprint has changed: %s", got)
	}
}

func TestText(t *testing.T) {
	for _, c := range []struct {
		exprs []string
		want  string
	}{
		{[]string{" 0  2 * * MON"}, "0 2 * * MON (Europe/Berlin)"},
		{[]string{"0 2 * * MON", "00 02 * * 1", "@every 90m"}, "0 2 * * MON; @every 1h30m (Europe/Berlin)"},
		{[]string{"CRON_TZ=UTC 0 2 * * *"}, "0 2 * * * (UTC)"},
		{[]string{"CRON_TZ=UTC 0 2 * * *", "@daily"}, "CRON_TZ=UTC 0 2 * * *; CRON_TZ=Europe/Berlin @daily"},
		{[]string{"@every 2d"}, "@every 48h (UTC)"},
		{[]string{"@every 60"}, "@every 1m (Europe/Berlin)"},
		{[]string{"@every 3605s"}, "@every 1h0m5s (UTC)"},
	} {
		if got := parsed(t, "Europe/Berlin", c.exprs...).String(); got != c.want {
			t.Errorf("%q: %s, want %s", c.exprs, got, c.want)
		}
	}
}

func TestUpcomingSaysWhatTheClockDid(t *testing.T) {
	for _, c := range []struct{ zone, expr, from, want string }{
		{"America/New_York", "30 2 * * *", "2026-03-07T12:00:00Z", "2026-03-08T03:00:00-04:00 moved: from 02:30, the clock goes from 02:00 to 03:00"},
		{"America/New_York", "0,30 2 * * *", "2026-03-08T00:00:00Z", "2026-03-08T03:00:00-04:00 merged: one run for 02:00, 02:30, the clock goes from 02:00 to 03:00"},
		{"America/New_York", "0 2,3 * * *", "2026-03-08T00:00:00Z", "2026-03-08T03:00:00-04:00 merged: one run for 02:00 and 03:00, the clock goes from 02:00 to 03:00"},
		{"America/New_York", "0 3 * * *", "2026-03-08T00:00:00Z", "2026-03-08T03:00:00-04:00 "},
		{"America/New_York", "*/10 * * * *", "2026-03-08T06:50:00Z", "2026-03-08T03:00:00-04:00 dropped: 02:00 to 02:50 (6 times), the clock goes from 02:00 to 03:00"},
		{"America/New_York", "30 1 * * *", "2026-11-01T00:00:00Z", "2026-11-01T01:30:00-04:00 once: the clock shows 01:30 twice"},
		{"America/New_York", "30 * * * *", "2026-11-01T05:30:00Z", "2026-11-01T01:30:00-05:00 again: the clock shows 01:30 for the second time"},
		{"America/New_York", "30 * * * *", "2026-11-01T06:30:00Z", "2026-11-01T02:30:00-05:00 "},
		{"Pacific/Apia", "0 2 * * *", "2011-12-29T12:00:00Z", "2011-12-31T02:00:00+14:00 dropped: 2011-12-30 02:00, the clock goes from 2011-12-30 00:00 to 2011-12-31 00:00"},
		{"America/Sao_Paulo", "@daily", "2018-11-03T12:00:00Z", "2018-11-04T01:00:00-02:00 moved: from 00:00, the clock goes from 00:00 to 01:00"},
	} {
		from, _ := time.Parse(time.RFC3339, c.from)
		ticks := parsed(t, c.zone, c.expr).Upcoming(from, 1)
		if len(ticks) != 1 {
			t.Fatalf("%s: %v", c.expr, ticks)
		}
		if got := ticks[0].Time.Format(time.RFC3339) + " " + ticks[0].Note; got != c.want {
			t.Errorf("%s in %s: %s\nwant %s", c.expr, c.zone, got, c.want)
		}
	}
	union := parsed(t, "America/New_York", "30 2 * * *", "0 3 * * *", "CRON_TZ=UTC 0 7 * * *")
	ticks := union.Upcoming(time.Date(2026, 3, 8, 0, 0, 0, 0, time.UTC), 2)
	if len(ticks) != 2 || !strings.HasPrefix(ticks[0].Note, "moved") || ticks[1].Time.Format(time.RFC3339) != "2026-03-09T02:30:00-04:00" {
		t.Errorf("a union: %v", ticks)
	}
	if ticks := union.Upcoming(time.Date(9999, 12, 31, 23, 59, 59, 0, time.UTC), 3); len(ticks) != 0 {
		t.Errorf("after the end: %v", ticks)
	}
}

func ExampleSchedule_Upcoming() {
	s, err := Parse([]string{"30 2 * * *"}, "Europe/Berlin")
	if err != nil {
		fmt.Println(err)
		return
	}
	for _, tick := range s.Upcoming(time.Date(2026, 3, 28, 0, 0, 0, 0, time.UTC), 3) {
		fmt.Printf("%s [%s]\n", tick.Time.Format("Mon 2 Jan 15:04 -07:00"), tick.Note)
	}
	// Output:
	// Sat 28 Mar 02:30 +01:00 []
	// Sun 29 Mar 03:00 +02:00 [moved: from 02:30, the clock goes from 02:00 to 03:00]
	// Mon 30 Mar 02:30 +02:00 []
}
