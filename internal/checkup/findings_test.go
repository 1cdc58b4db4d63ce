package checkup

import (
	"strings"
	"testing"
	"time"

	"github.com/leaderrun/leaderrun/backends"
)

func TestOffset(t *testing.T) {
	t.Parallel()
	const s = time.Second
	for _, c := range []struct {
		name        string
		offset, err time.Duration
		want        backends.Grade
		say         string
	}{
		{"in step", 20 * time.Millisecond, 3 * time.Millisecond, backends.Fine, "20ms ahead of"},
		{"behind", -1500 * time.Millisecond, 0, backends.Fine, "1.5s behind"},
		{"noticed", -3 * s, s / 2, backends.Warning, "3s behind"},
		{"within the error", 3 * s, s, backends.Fine, "±1s"},
		{"ticks are refused", 62 * s, s, backends.Bad, "1m0s"},
		{"and so they are the other way", -62 * s, s, backends.Bad, "behind"},
		{"almost", 60 * s, 0, backends.Warning, ""},
	} {
		var f Findings
		f.Offset("the clock of the server", c.offset, c.err)
		if len(f) != 1 || f[0].Grade != c.want || !strings.Contains(f[0].Why, c.say) || f[0].What != Clock {
			t.Errorf("%s: %+v, want %s with %q", c.name, f, c.want, c.say)
		}
		if (f[0].Remedy == "") != (c.want == backends.Fine) {
			t.Errorf("%s: the remedy is %q", c.name, f[0].Remedy)
		}
	}
}

func TestInClear(t *testing.T) {
	t.Parallel()
	for addr, warned := range map[string]bool{
		"db.example.com:6379": true, "10.0.0.7:6379": true, "localhost:6379": false, "127.0.0.3:1": false,
		"[::1]:2379": false, "[fe80::1]:2379": true, "/run/redis.sock": false,
	} {
		var f Findings
		f.InClear("password", []string{"127.0.0.1:1", addr}, "use TLS")
		if (len(f) == 1) != warned || warned && (f[0].Grade != backends.Warning || f[0].Remedy != "use TLS") {
			t.Errorf("%s: %+v", addr, f)
		}
	}
}
