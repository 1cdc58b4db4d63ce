package backends_test

import (
	"testing"
	"time"

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
	evicted := func(s backends.Server) backends.Server { s.Evicted++; return s }
	for _, x := range []struct {
		name   string
		mark   backends.Mark
		server backends.Server
		record bool
		want   time.Duration
	}{
		{"the same server", mark("s"), server(time.Second), true, 0},
		{"the same server, which has forgotten the job", mark("s"), server(time.Second), false, 0},
		{"the same server, which has evicted something", mark("s"), evicted(server(time.Hour)), false, longest},
		{"the same server, which has evicted something else", mark("s"), evicted(server(time.Hour)), true, 0},
		{"restarted just now", mark("r"), server(time.Second), true, longest - time.Second},
		{"restarted long ago", mark("r"), server(time.Hour), true, 0},
		{"restarted, and forgot later", mark("r"), forgot(server(time.Hour)), true, longest},
		{"new, up for long", backends.Mark{}, server(time.Hour), false, 0},
		{"new, started just now", backends.Mark{}, server(time.Second), false, longest - time.Second},
		{"new, and forgot", backends.Mark{}, forgot(server(time.Hour)), false, longest},
		{"the mark alone is gone", backends.Mark{}, server(time.Hour), true, longest},
		{"the clock went back in a quarantine", backends.Mark{Identity: "s", Longest: ms, Until: now + 100*ms}, server(time.Hour), true, longest},
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
