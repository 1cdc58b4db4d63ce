package waits

import (
	"testing"
	"time"
)

func TestPatience(t *testing.T) {
	for _, c := range []struct {
		set  string
		want time.Duration
	}{{"", time.Minute}, {"45s", 45 * time.Second}, {"2m", time.Minute}} {
		t.Setenv(Variable, c.set)
		if got := atMost(time.Minute); got != c.want {
			t.Errorf("%q: %v, want %v", c.set, got, c.want)
		}
	}
}
