package waits_test

import (
	"testing"
	"time"

	"github.com/leaderrun/leaderrun/test/waits"
)

func TestAtMost(t *testing.T) {
	for _, c := range []struct {
		set  string
		want time.Duration
	}{{"", time.Minute}, {"45s", 45 * time.Second}, {"2m", time.Minute}} {
		t.Setenv(waits.Variable, c.set)
		if got := waits.AtMost(time.Minute); got != c.want {
			t.Errorf("%q: %v, want %v", c.set, got, c.want)
		}
	}
}
