package acceptance

import (
	"cmp"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"syscall"
	"testing"
	"time"

	"github.com/leaderrun/leaderrun/internal/boottime"
	"github.com/leaderrun/leaderrun/test/hosts"
	"github.com/leaderrun/leaderrun/test/servers"
)

// fault is something that goes wrong while a run leads, a standby waits and newcomers arrive.
type fault[S any] struct {
	name   string
	strike func(b *bed, s S, w *wrapper)
	mend   func(b *bed, s S, w *wrapper) // before the standby can take over; nil: nothing to mend
	code   int                           // what the struck wrapper ends with; 0: it never does by itself
	within time.Duration                 // how soon after the fault the run is dead; 0: within the TTL
}

// none is the server of a fault that happens to a process.
type none struct{}

var processFaults = []fault[none]{
	{name: "wrapper killed", code: 137, strike: func(_ *bed, _ none, w *wrapper) { w.signal(syscall.SIGKILL) }},
	{name: "wrapper stopped", strike: func(_ *bed, _ none, w *wrapper) { w.signal(syscall.SIGSTOP) }},
	{name: "guardian killed", code: 70, strike: guardianGets(syscall.SIGKILL)},
	{name: "guardian stopped", code: 70, strike: guardianGets(syscall.SIGSTOP)},
}

func guardianGets(sig syscall.Signal) func(b *bed, _ none, w *wrapper) {
	return func(b *bed, _ none, w *wrapper) {
		if err := syscall.Kill(w.guardian(), sig); err != nil {
			b.t.Fatal(err)
		}
	}
}

// A run to which something happens on its host is dead before the next one starts, and a standby takes over.
func TestFaultsOfProcesses(t *testing.T) {
	t.Parallel()
	on := stores
	if testing.Short() {
		on = stores[:2]
	}
	for _, f := range processFaults {
		t.Run(f.name, func(t *testing.T) {
			t.Parallel()
			onStores(t, on, func(t *testing.T, b *bed) {
				b.mild = false
				strike(b, none{}, f)
			})
		})
	}
}

// strike lets a fault happen to a run, behind which a standby waits and newcomers arrive: the run is dead in
// time, and before the standby's begins.
func strike[S any](b *bed, s S, f fault[S]) {
	b.t.Helper()
	w := b.holder()
	old := b.last()
	standby := b.start(nil, "--wait", "forever")
	b.newcomers()
	f.strike(b, s, w)
	struck := boottime.Now()
	if f.mend != nil {
		f.mend(b, s, w)
	}
	b.beats(standby, old.token)
	spans := b.verdict()
	i := slices.IndexFunc(spans, func(s runSpan) bool { return s.token == old.token })
	if lived := spans[i].lived(struck); lived >= cmp.Or(f.within, b.ttl) {
		b.t.Errorf("the run lived on for %v after the fault: it had %v", lived, cmp.Or(f.within, b.ttl))
	}
	gone(b.t, spans[i])
	if f.code != 0 {
		if code := w.wait(); code != f.code {
			b.t.Errorf("exit code %d, want %d: %s", code, f.code, w.said())
		}
	}
}

func redisURL(r *servers.RedisServer, longest time.Duration) string {
	return fmt.Sprintf("redis://%s/?longest-ttl=%s", r.Addr(), longest)
}

// `pkill -9 leaderrun` ends wrapper and standby; the guardian goes by another name and ends the run.
func TestKillByNameDoesNotLeaveTheJobRunning(t *testing.T) {
	t.Parallel()
	b := newBed(t, "file://"+servers.Dir(t))
	w := b.holder()
	old := b.last()
	if name := hosts.Comm(w.pid()); name != "leaderrun" {
		t.Fatalf("the wrapper is called %q", name)
	}
	if name := hosts.Comm(w.guardian()); name == "leaderrun" {
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
	b := newBed(t, "file://"+servers.Dir(t))
	w := b.holder()
	old := b.last()
	standby := b.start(nil, "--wait", "forever")
	var guardian int
	servers.Eventually(t, "the standby has a guardian", func() bool {
		for _, pid := range hosts.Children(t, standby.pid()) {
			if hosts.Comm(pid) == "lr-guard" {
				guardian = pid
			}
		}
		return guardian != 0
	})
	if err := syscall.Kill(guardian, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	servers.Eventually(t, "it is gone", func() bool { return !hosts.Alive(guardian) })
	w.signal(syscall.SIGKILL)
	b.beats(standby, old.token)
}
