package backends_test

import (
	"fmt"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/leaderrun/leaderrun/backends"
)

// TestMark: a store that may have forgotten a lease grants nobody before the longest lease there can be is over.
func TestMark(t *testing.T) {
	const longest = 30 * time.Second
	ms := longest.Milliseconds()
	now := start.UnixMilli()
	mark := func(identity string) backends.Mark { return backends.Mark{Identity: identity, Longest: ms} }
	server := func(up time.Duration) backends.Server {
		return backends.Server{Identity: "s", Started: now - up.Milliseconds()}
	}
	forgot := func(s backends.Server) backends.Server { s.Forgot = true; return s }
	for _, x := range []struct {
		name   string
		mark   backends.Mark
		server backends.Server
		record bool
		want   time.Duration
	}{
		{"the same server", mark("s"), server(time.Second), true, 0},
		{"the same server, which has forgotten the job", mark("s"), server(time.Second), false, 0},
		{"restarted just now", mark("r"), server(time.Second), true, longest - time.Second},
		{"restarted long ago", mark("r"), server(time.Hour), true, 0},
		{"restarted, and forgot later", mark("r"), forgot(server(time.Hour)), true, longest},
		{"new, up for long", backends.Mark{}, server(time.Hour), false, 0},
		{"new, started just now", backends.Mark{}, server(time.Second), false, longest - time.Second},
		{"new, and forgot", backends.Mark{}, forgot(server(time.Hour)), false, longest},
		{"the mark alone is gone", backends.Mark{}, server(time.Hour), true, longest},
		{"started in the future", mark("r"), server(-time.Hour), true, longest},
	} {
		next, wait := x.mark.Admit(x.server, longest, now, x.record)
		if wait != x.want {
			t.Errorf("%s: wait %v, want %v", x.name, wait, x.want)
		}
		if next.Identity != "s" || next.Longest != ms {
			t.Errorf("%s: %+v", x.name, next)
		}
		if _, again := next.Admit(x.server, longest, now+wait.Milliseconds(), true); again != 0 {
			t.Errorf("%s: wait %v after the wait", x.name, again)
		}
	}
}

// A host that allows longer leases than were known when the quarantine began makes it longer.
func TestMarkGrows(t *testing.T) {
	now := start.UnixMilli()
	server := backends.Server{Identity: "s", Started: now, Forgot: true}
	m, wait := backends.Mark{}.Admit(server, 10*time.Second, now, false)
	if wait != 10*time.Second {
		t.Errorf("wait %v", wait)
	}
	m, wait = m.Admit(server, 30*time.Second, now+4000, false)
	if wait != 26*time.Second {
		t.Errorf("wait %v, want 30s since the first sight", wait)
	}
	if _, wait = m.Admit(server, 10*time.Second, now+4000, false); wait != 26*time.Second {
		t.Errorf("wait %v for a host with shorter leases, want the same", wait)
	}
	if _, wait = m.Admit(server, time.Hour, now+40_000, false); wait != 0 {
		t.Errorf("wait %v after the quarantine", wait)
	}
}

func TestMarkProperties(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var m backends.Mark
		now := start.UnixMilli()
		s := backends.Server{Identity: "0", Started: now - rapid.Int64Range(0, 100_000).Draw(t, "up")}
		most, replicas := int64(0), 0
		restarts := 0
		t.Repeat(map[string]func(*rapid.T){
			"claim": func(t *rapid.T) {
				longest := time.Duration(rapid.Int64Range(1, 60_000).Draw(t, "longest")) * time.Millisecond
				hasRecord := rapid.Bool().Draw(t, "record")
				changed := m.Identity != s.Identity
				before := m
				next, wait := m.Admit(s, longest, now, hasRecord)
				most, replicas = max(most, longest.Milliseconds()), max(replicas, s.Replicas)
				switch {
				case next.Identity != s.Identity, next.Longest != most, next.Replicas != replicas:
					t.Fatalf("%+v after %+v", next, s)
				case wait < 0 || wait > time.Duration(most)*time.Millisecond:
					t.Fatalf("wait %v with a longest of %d ms", wait, most)
				case next.Until > now+most:
					t.Fatalf("until %d, now %d, longest %d", next.Until, now, most)
				case changed && s.Forgot && wait != time.Duration(most)*time.Millisecond:
					t.Fatalf("a server that forgot: wait %v, want %d ms", wait, most)
				case changed && before.Identity == "" && hasRecord && wait != time.Duration(most)*time.Millisecond:
					t.Fatalf("a mark that is gone: wait %v, want %d ms", wait, most)
				case changed && wait < time.Duration(min(s.Started, now)+most-now)*time.Millisecond:
					t.Fatalf("wait %v, want until %d ms after the start", wait, most)
				case !changed && !hasRecord && before.Evicted != s.Evicted && wait != time.Duration(most)*time.Millisecond:
					t.Fatalf("keys were evicted: wait %v, want %d ms", wait, most)
				case !changed && now < before.Until && wait < time.Duration(before.Until-now)*time.Millisecond && before.Until <= now+most:
					t.Fatalf("wait %v, less than the mark says", wait)
				}
				if again, w := next.Admit(s, longest, now, true); again != next || w != wait {
					t.Fatalf("asked again: %+v, %v after %+v, %v", again, w, next, wait)
				}
				m = next
			},
			"restart": func(t *rapid.T) {
				restarts++
				s = backends.Server{Identity: fmt.Sprint(restarts), Started: now, Replicas: rapid.IntRange(0, 3).Draw(t, "replicas")}
			},
			"promote": func(*rapid.T) {
				restarts++
				s.Identity, s.Forgot = fmt.Sprint(restarts), true
			},
			"evict": func(*rapid.T) { s.Evicted++ },
			"restart empty": func(*rapid.T) {
				restarts++
				s = backends.Server{Identity: fmt.Sprint(restarts), Started: now}
				m, most, replicas = backends.Mark{}, 0, 0
			},
			"sleep":     func(t *rapid.T) { now += rapid.Int64Range(0, 40_000).Draw(t, "ms") },
			"clock set": func(t *rapid.T) { now -= rapid.Int64Range(0, 1_000_000).Draw(t, "back") },
		})
	})
}

// Hazard: the keys arrive with a quarantine that is on at a server that has been up for long (a slot of a cluster is moved).
func TestMarkKeepsItsQuarantineOnAnotherServer(t *testing.T) {
	t.Parallel()
	const now = 1_800_000_000_000
	m := backends.Mark{Identity: "a", Longest: 30_000, Until: now + 20_000}
	for _, hasRecord := range []bool{true, false} {
		if _, wait := m.Admit(backends.Server{Identity: "b", Started: now - 3_600_000}, 30*time.Second, now, hasRecord); wait != 20*time.Second {
			t.Errorf("with a record %v: nobody may be granted for %v, want 20 s", hasRecord, wait)
		}
	}
}
