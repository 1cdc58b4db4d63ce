package schedule

import (
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"
)

// A host whose schedule was superseded computes the instants of the recorded one from its text. Another schedule
// than the one that is meant would prove that nobody uses it, while somebody does.
func TestParseTextIsTheInverseOfString(t *testing.T) {
	zones := []string{"UTC", "Etc/UTC", "Europe/Berlin", "America/New_York", "Australia/Lord_Howe", "Etc/GMT+5"}
	rapid.Check(t, func(t *rapid.T) {
		var exprs []string
		for range rapid.IntRange(1, 5).Draw(t, "expressions") {
			expr := drawSpec(t).text
			if rapid.IntRange(0, 4).Draw(t, "named?") == 0 {
				expr = rapid.SampledFrom([]string{"@daily", "@hourly", "@every 7h", "@every 2d", "@every 3605s", "@weekly"}).Draw(t, "name")
			}
			if rapid.Bool().Draw(t, "own zone?") {
				expr = zoneIs + rapid.SampledFrom(zones).Draw(t, "own zone") + " " + expr
			}
			exprs = append(exprs, expr)
		}
		s, err := Parse(exprs, rapid.SampledFrom(zones).Draw(t, "zone"))
		if err != nil {
			t.Skip("a date that does not exist")
		}
		back, err := ParseText(s.String())
		if err != nil {
			t.Fatalf("%s: %v", s, err)
		}
		if back.Fingerprint() != s.Fingerprint() || back.String() != s.String() {
			t.Fatalf("%s came back as %s", s, back)
		}
		at := time.Unix(rapid.Int64Range(0, 4e9).Draw(t, "at"), 0)
		want, _ := s.Next(at)
		if got, _ := back.Next(at); !got.Equal(want) {
			t.Fatalf("%s: next after %s is %s, of what came back %s", s, at, want, got)
		}
	})
}

func TestParseTextOfTheLongest(t *testing.T) {
	var minutes []string
	for range 3 {
		for minute := range 60 {
			minutes = append(minutes, time.Time{}.Add(time.Duration(minute)*time.Minute).Format("04"))
		}
	}
	long := strings.Join(minutes[:162], ",") + " 2 * * *"
	if len(long) > maxLength || len(long)+len(zoneIs+"UTC ") <= maxLength {
		t.Fatalf("%d bytes are not what is to be tested", len(long))
	}
	exprs := slices.Repeat([]string{"CRON_TZ=Europe/Paris " + "1 1 1 1 *"}, 2)
	s, err := Parse(append(exprs, long), "UTC")
	if err != nil {
		t.Fatal(err)
	}
	if back, err := ParseText(s.String()); err != nil || back.Fingerprint() != s.Fingerprint() {
		t.Errorf("%v", err)
	}
}

func TestParseTextRefuses(t *testing.T) {
	for _, text := range []string{
		"", " ()", "(UTC)", "0 2 * * *", "0 2 * * * ()", "0 2 * * * (Local)", "0 2 * * * (Mars/Olympus)", "0 2 * * * (UTC",
		"0 2 * * * (UTC) ", "0 2 * * *; (UTC)", "CRON_TZ=UTC", "CRON_TZ= 0 2 * * *", "CRON_TZ=UTC 0 2 * * *; 0 3 * * *",
		"CRON_TZ=UTC 0 2 * * * (Europe/Berlin", "61 * * * * (UTC)", "@every 500ms (UTC)", "@reboot (UTC)",
		strings.Repeat("0 2 * * *; ", maxExpressions) + "0 2 * * * (UTC)",
	} {
		if s, err := ParseText(text); err == nil {
			t.Errorf("%q is taken for %s", text, s)
		}
	}
}

func FuzzParseText(f *testing.F) {
	for _, text := range []string{"0 2 * * * (UTC)", "CRON_TZ=UTC 0 2 * * *; CRON_TZ=Europe/Berlin @daily", "@every 7h (UTC)", " (", ";"} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		if s, err := ParseText(text); err == nil {
			if back, err := ParseText(s.String()); err != nil || back.Fingerprint() != s.Fingerprint() {
				t.Errorf("%q: %s: %v", text, s, err)
			}
		}
	})
}
