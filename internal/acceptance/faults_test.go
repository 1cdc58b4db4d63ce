package acceptance

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"syscall"
	"testing"

	"github.com/leaderrun/leaderrun/internal/boottime"
	"github.com/leaderrun/leaderrun/internal/testserver"
)

// fault is something that goes wrong while a run leads, a standby waits and newcomers arrive.
type fault struct {
	name   string
	strike func(b *bed, r *testserver.RedisServer, w *wrapper)
	mend   func(b *bed, r *testserver.RedisServer, w *wrapper) // before the standby can take over; nil: nothing to mend
	codes  []int                                               // what the struck wrapper ends with; nil: it never does by itself
}

func redisURL(r *testserver.RedisServer) string {
	return fmt.Sprintf("redis://%s/?longest-ttl=%s", r.Addr(), ttl)
}

var faults = []fault{
	{
		name:   "wrapper killed",
		strike: func(_ *bed, _ *testserver.RedisServer, w *wrapper) { w.signal(syscall.SIGKILL) },
		codes:  []int{137},
	},
	{
		name:   "wrapper stopped",
		strike: func(_ *bed, _ *testserver.RedisServer, w *wrapper) { w.signal(syscall.SIGSTOP) },
	},
	{
		name: "guardian killed",
		strike: func(b *bed, _ *testserver.RedisServer, w *wrapper) {
			if err := syscall.Kill(w.guardian(), syscall.SIGKILL); err != nil {
				b.t.Fatal(err)
			}
		},
		codes: []int{70},
	},
	{
		name: "guardian stopped",
		strike: func(b *bed, _ *testserver.RedisServer, w *wrapper) {
			if err := syscall.Kill(w.guardian(), syscall.SIGSTOP); err != nil {
				b.t.Fatal(err)
			}
		},
		codes: []int{70},
	},
	{
		name: "lease deleted",
		strike: func(b *bed, r *testserver.RedisServer, _ *wrapper) {
			r.Do(b.t, "DEL", "leaderrun:{job}:lease")
		},
		codes: []int{75},
	},
	{
		name:   "server flushed",
		strike: func(b *bed, r *testserver.RedisServer, _ *wrapper) { r.Do(b.t, "FLUSHALL") },
		codes:  []int{75},
	},
	{
		name:   "server stopped",
		strike: func(b *bed, r *testserver.RedisServer, _ *wrapper) { r.Stop(b.t) },
		mend: func(b *bed, r *testserver.RedisServer, w *wrapper) {
			w.wait()
			r.Cont(b.t)
		},
		codes: []int{75},
	},
	{
		name:   "server restarted empty",
		strike: func(b *bed, r *testserver.RedisServer, _ *wrapper) { r.Restart(b.t, false) },
		codes:  []int{75},
	},
}

// A run that was struck is dead before the next one starts, and a standby takes over.
func TestFaultsOnRedis(t *testing.T) {
	t.Parallel()
	for _, f := range faults {
		t.Run(f.name, func(t *testing.T) {
			t.Parallel()
			r := testserver.Redis(t, testserver.RedisOptions{})
			// A server that has just started may have forgotten a lease: the first claim waits that out.
			b := newBed(t, redisURL(r))
			w := b.holder()
			old := last(t, b.log)
			standby := b.start(nil, "--wait", "forever")
			b.newcomers()
			f.strike(b, r, w)
			struck := boottime.Now()
			if f.mend != nil {
				f.mend(b, r, w)
			}
			b.beats(standby, old.token)
			spans := verdict(t, b.log)
			i := slices.IndexFunc(spans, func(s runSpan) bool { return s.token == old.token })
			if lived := spans[i].last.Sub(struck); lived >= ttl {
				t.Errorf("the run lived on for %v after the fault: a lease of %v had run out", lived, ttl)
			}
			gone(t, spans[i])
			if f.codes != nil {
				if code := w.wait(); !slices.Contains(f.codes, code) {
					t.Errorf("exit code %d, want one of %v: %s", code, f.codes, w.output.String())
				}
			}
		})
	}
}

// A Redis that is restarted with its data costs nothing: the lease is still there.
func TestServerRestartedWithItsData(t *testing.T) {
	t.Parallel()
	r := testserver.Redis(t, testserver.RedisOptions{AppendOnly: true})
	b := newBed(t, redisURL(r))
	w := b.holder()
	old := last(t, b.log)
	r.Restart(t, true)
	until := boottime.Now().Add(ttl)
	testserver.Eventually(t, "the run outlives its first lease", func() bool { return last(t, b.log).last > until })
	if w.ended() || len(verdict(t, b.log)) != 1 {
		t.Errorf("the run of token %d ended: %s", old.token, w.output.String())
	}
}

// A failed over Redis never hands the job to a second run, and goes on giving greater tokens.
func TestFailover(t *testing.T) {
	t.Parallel()
	testserver.Require(t, "sentinel")
	s := testserver.Sentinel(t, 2)
	b := newBed(t, s.URL()+"?longest-ttl="+ttl.String())
	w := b.holder()
	old := last(t, b.log)
	standby := b.start(nil, "--wait", "forever")
	master := s.Master(t)
	master.Kill()
	s.Changed(t, master)
	// One replica is left where two were seen: no renewal counts, and no claim until the old master is back.
	if code := w.wait(); code != 75 {
		t.Errorf("exit code %d, want 75: %s", code, w.output.String())
	}
	master.Restart(t, true)
	b.beats(standby, old.token)
}

// One host: the same without any server.
func TestFaultsOnFile(t *testing.T) {
	t.Parallel()
	for _, f := range faults[:4] {
		t.Run(f.name, func(t *testing.T) {
			t.Parallel()
			b := newBed(t, "file://"+testserver.Dir(t))
			w := b.holder()
			old := last(t, b.log)
			standby := b.start(nil, "--wait", "forever")
			b.newcomers()
			f.strike(b, nil, w)
			b.beats(standby, old.token)
			gone(t, old)
			if f.codes != nil {
				if code := w.wait(); !slices.Contains(f.codes, code) {
					t.Errorf("exit code %d, want one of %v: %s", code, f.codes, w.output.String())
				}
			}
		})
	}
}

// `pkill -9 leaderrun` ends wrapper and standby; the guardian goes by another name and ends the run.
func TestKillByNameDoesNotLeaveTheJobRunning(t *testing.T) {
	t.Parallel()
	b := newBed(t, "file://"+testserver.Dir(t))
	w := b.holder()
	old := last(t, b.log)
	if name := comm(w.pid()); name != "leaderrun" {
		t.Fatalf("the wrapper is called %q", name)
	}
	if name := comm(w.guardian()); name == "leaderrun" {
		t.Fatalf("the guardian is called %q", name)
	}
	if line, _ := os.ReadFile(filepath.Join("/proc", fmt.Sprint(w.guardian()), "cmdline")); slices.Contains([]string{"", "leaderrun"}, string(line)) {
		t.Fatalf("the guardian's command line is %q", line)
	}
	w.signal(syscall.SIGKILL)
	gone(t, old)
}

// A standby whose guardian is killed while it waits still runs the job when its turn comes.
func TestStandbyReplacesItsGuardian(t *testing.T) {
	t.Parallel()
	b := newBed(t, "file://"+testserver.Dir(t))
	w := b.holder()
	old := last(t, b.log)
	standby := b.start(nil, "--wait", "forever")
	var guardian int
	testserver.Eventually(t, "the standby has a guardian", func() bool {
		for _, pid := range children(t, standby.pid()) {
			if comm(pid) == "lr-guard" {
				guardian = pid
			}
		}
		return guardian != 0
	})
	if err := syscall.Kill(guardian, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	testserver.Eventually(t, "it is gone", func() bool { return !alive(guardian) })
	w.signal(syscall.SIGKILL)
	b.beats(standby, old.token)
}
