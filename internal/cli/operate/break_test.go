package operate

import (
	"testing"
	"time"

	"github.com/leaderrun/leaderrun/backends"
)

// A run whose lease is gone may live until its time is over. The hazard: break says that it is dead, and somebody
// starts it by hand beside it.
func TestRunIsOverOnlyWhenNobodyCanLive(t *testing.T) {
	begin := time.Unix(1000, 0)
	held := func(token int64) backends.Status {
		return backends.Status{Record: lostRun(), Lease: &backends.Lease{Holder: "h", Token: token}}
	}
	vanished := func(beat int64, wait time.Duration) backends.Status {
		return backends.Status{Record: changed(lostRun(), func(r *backends.Record) { r.Beat = beat }), Wait: wait}
	}
	free := backends.Status{Record: changed(lostRun(), func(r *backends.Record) { r.Released = 5 })}
	tomb := backends.Status{Record: changed(lostRun(), func(r *backends.Record) { r.Token, r.Holder = 9, bob }), Wait: 10 * time.Second}
	type look struct {
		after  time.Duration
		status backends.Status
		over   bool
	}
	for name, looks := range map[string][]look{
		"released":                              {{0, held(5), false}, {1, free, true}},
		"released, with a quarantine":           {{0, held(5), false}, {1, backends.Status{Record: free.Record, Wait: time.Minute}, true}},
		"somebody was granted since":            {{0, held(5), false}, {1, held(6), true}},
		"the store counts the time down":        {{0, vanished(1, 10*time.Second), false}, {9 * time.Second, vanished(1, time.Second), false}, {10 * time.Second, vanished(1, 0), true}},
		"the store always says a whole TTL":     {{0, vanished(1, 15*time.Second), false}, {14 * time.Second, vanished(1, 15*time.Second), false}, {15 * time.Second, vanished(1, 15*time.Second), true}},
		"a sign of life begins it anew":         {{0, vanished(1, 15*time.Second), false}, {14 * time.Second, vanished(2, 15*time.Second), false}, {16 * time.Second, vanished(2, 15*time.Second), false}, {29 * time.Second, vanished(2, 15*time.Second), true}},
		"the lease came back":                   {{0, vanished(1, 15*time.Second), false}, {10 * time.Second, held(5), false}, {16 * time.Second, vanished(1, 15*time.Second), false}},
		"a tombstone is waited out":             {{0, held(5), false}, {1, tomb, false}, {10*time.Second + 1, tomb, true}},
		"the lock is the evidence, and is free": {{0, held(5), false}, {1, vanished(1, 0), true}},
	} {
		e := watchRun(held(5))
		for i, l := range looks {
			if got := e.over(l.status, begin.Add(l.after)); got != l.over {
				t.Errorf("%s: look %d: over is %v", name, i, got)
			}
		}
	}
}

func TestDaemonIsToldByItsArguments(t *testing.T) {
	for _, c := range []struct {
		argv []string
		want bool
	}{
		{[]string{"leaderrun", "run", "job", "cron"}, false},
		{[]string{"leaderrun", "--quiet", "cron", "/etc/jobs.yaml"}, true},
		{[]string{"leaderrun", "cron", "run"}, true},
		{nil, true}, // two SIGTERM would end the other runs of a daemon
	} {
		if got := isDaemon(c.argv); got != c.want {
			t.Errorf("%q: %v", c.argv, got)
		}
	}
}
