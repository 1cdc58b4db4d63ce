package duration

import (
	"testing"
	"time"
)

func TestDurations(t *testing.T) {
	for text, want := range map[string]time.Duration{
		"15": 15 * time.Second, "0": 0, "1.5": 1500 * time.Millisecond, "90s": 90 * time.Second,
		"1h30m": 90 * time.Minute, "2d": 48 * time.Hour, "1d12h": 36 * time.Hour, "0.5d": 12 * time.Hour,
		"-1d": -24 * time.Hour, "-1d12h": -36 * time.Hour, "0d": 0, "250ms": 250 * time.Millisecond, "-5": -5 * time.Second,
	} {
		if got, err := Parse(text); err != nil || got != want {
			t.Errorf("%q: %v, %v; want %v", text, got, err, want)
		}
	}
	for _, text := range []string{"", "d", "soon", "1 h", "1d-1h", "1x", "NaN", "Inf", "1e300", "9999999d", "1d1d", "--1", "1d d"} {
		if got, err := Parse(text); err == nil {
			t.Errorf("%q is taken for %v", text, got)
		}
	}
}

func FuzzDuration(f *testing.F) {
	for _, text := range []string{"15", "1d12h", "-1d", "1e9", "0x1p-2"} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		d, err := Parse(text)
		if err == nil && (d > Longest || d < -Longest) {
			t.Errorf("%q: %v", text, d)
		}
	})
}
