package daemon

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/leaderrun/leaderrun/backends"
	"github.com/leaderrun/leaderrun/internal/jobfile"
	"github.com/leaderrun/leaderrun/internal/slots"
)

// worked lists which shards of a job were started for each tick, as "hh:mm 0 1 2", in the order of ticks and shards. No shard may run
// twice at a time, and its tokens must grow.
func (b *bed) worked(job string) []string {
	b.mu.Lock()
	defer b.mu.Unlock()
	last := map[int]start{}
	ticks := map[string][]int{}
	for _, s := range b.starts {
		of, shard, ok := slots.Split(s.job)
		if !ok || of != job {
			continue
		}
		if former := last[shard]; s.token <= former.token || s.at.Before(former.ended) {
			b.t.Errorf("shard %d at %v with token %d beside that of %v with token %d", shard, s.at, s.token, former.at, former.token)
		}
		last[shard] = s
		tick := s.tick.UTC().Format("15:04")
		ticks[tick] = append(ticks[tick], shard)
	}
	var lines []string
	for tick, shards := range ticks {
		slices.Sort(shards)
		lines = append(lines, tick+" "+strings.Trim(fmt.Sprint(shards), "[]"))
	}
	slices.Sort(lines)
	return lines
}

func wantWork(t *testing.T, b *bed, job string, want ...string) {
	t.Helper()
	if got := b.worked(job); !slices.Equal(got, want) {
		t.Errorf("shards of %s: %q\nwant: %q", job, got, want)
	}
}

// byHost counts the starts of a host.
func (b *bed) byHost(host string) (n int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, s := range b.starts {
		if s.host == host {
			n++
		}
	}
	return n
}

func divided(t *testing.T, expr string, n int, change func(*jobfile.Job)) *jobfile.Job {
	t.Helper()
	return newJob(t, "j", expr, func(j *jobfile.Job) {
		j.Shards, j.Parallel = n, 1
		if change != nil {
			change(j)
		}
	})
}

func lasting(d time.Duration) func(string, time.Time, int) (time.Duration, int) {
	return func(string, time.Time, int) (time.Duration, int) { return d, 0 }
}

// All hosts that have a tick work through its shards, and each shard is run once.
func TestHostsShareATick(t *testing.T) {
	inBed(t, func(t *testing.T, b *bed) {
		b.takes = lasting(20 * time.Second)
		j := divided(t, "*/10 * * * *", 9, func(j *jobfile.Job) { j.Parallel = 2 })
		hosts := []*host{b.host("a", j), b.hostAhead("b", 1900*time.Millisecond, j), b.hostAhead("c", -time.Second, j)}
		time.Sleep(11 * time.Minute)
		busy := 0
		for _, h := range hosts {
			if b.byHost(h.name) > 0 {
				busy++
			}
		}
		if busy != len(hosts) {
			t.Errorf("%d hosts took part", busy)
		}
		time.Sleep(18 * time.Minute)
		b.end(hosts...)
		all := "0 1 2 3 4 5 6 7 8"
		wantWork(t, b, "j", "00:00 "+all, "00:10 "+all, "00:20 "+all)
		if got := b.outcomes("j"); got["ran 0"] == 0 || got["lost"] != 0 {
			t.Errorf("outcomes %v", got)
		}
	})
}

// The next tick stops what runs of the one before on every host, and nothing of that one starts any more.
func TestReplaceStopsTheWholeTick(t *testing.T) {
	inBed(t, func(t *testing.T, b *bed) {
		b.takes = func(_ string, tick time.Time, _ int) (time.Duration, int) {
			if tick.Minute() == 1 {
				return 50 * time.Second, 0
			}
			return time.Second, 0
		}
		j := divided(t, "1,2 0 * * *", 6, func(j *jobfile.Job) { j.Overlap = jobfile.Replace })
		hosts := []*host{b.host("a", j), b.hostAhead("b", -time.Second, j)}
		time.Sleep(time.Hour)
		b.end(hosts...)
		lines := b.worked("j")
		if len(lines) != 2 || lines[1] != "00:02 0 1 2 3 4 5" {
			t.Errorf("shards: %q", lines)
		}
		for _, s := range b.starts {
			if late := s.at.Sub(s.tick); s.tick.Minute() == 2 && late > 30*time.Second {
				t.Errorf("%s of 00:02 began after %v", s.job, late)
			}
		}
		stopped := 0
		for k := range 6 {
			status, err := b.mem.Inspect(t.Context(), slots.Name("j", k))
			if err != nil {
				t.Fatal(err)
			}
			for _, run := range status.Record.Runs {
				if run.State == backends.Stopped {
					stopped++
				}
			}
		}
		if most := len(hosts) + 1; stopped < len(hosts) || stopped > most { // whose clock is behind may have begun one more
			t.Errorf("%d runs were stopped, shards: %q", stopped, lines)
		}
	})
}

// A tick is seen to when all its shards are: what was left of one is caught up, and nothing of it is run again.
func TestCatchUpFinishesATick(t *testing.T) {
	inBed(t, func(t *testing.T, b *bed) {
		b.takes = lasting(time.Minute)
		j := divided(t, "0 * * * *", 4, func(j *jobfile.Job) { j.CatchUp = 1 })
		h := b.host("a", j)
		time.Sleep(61*time.Minute + 30*time.Second) // the second shard of 01:00 runs
		b.end(h)
		wantWork(t, b, "j", "01:00 "+strings.Join(strings.Fields(b.worked("j")[0])[1:], " "))
		if n := b.byHost("a"); n != 2 {
			t.Fatalf("%d shards were run", n)
		}
		time.Sleep(10 * time.Minute)
		h = b.host("a", j)
		time.Sleep(20 * time.Minute)
		wantWork(t, b, "j", "01:00 0 1 2 3")
		b.end(h)
		h = b.host("a", j) // all was seen to
		time.Sleep(time.Minute)
		b.end(h)
		wantWork(t, b, "j", "01:00 0 1 2 3")
	})
}

// What an earlier tick was in the way of is not caught up under forbid.
func TestCatchUpLeavesWhatWasForbidden(t *testing.T) {
	inBed(t, func(t *testing.T, b *bed) {
		b.takes = lasting(50 * time.Second)
		j := divided(t, "1-6 0 * * *", 4, func(j *jobfile.Job) { j.CatchUp = 5 })
		h := b.host("a", j)
		time.Sleep(time.Hour)
		b.end(h)
		wantWork(t, b, "j", "00:01 0 1 2 3", "00:05 0 1 2 3")
	})
}

// After an outage the present tick runs, and the attempt for the one before does not stand in its way.
func TestOutageOfDividedTicks(t *testing.T) {
	for range 8 { // which request meets the outage is chance
		inBed(t, func(t *testing.T, b *bed) {
			j := divided(t, "*/5 * * * *", 3, func(j *jobfile.Job) { j.BackendWait = time.Hour })
			h := b.host("a", j)
			time.Sleep(4 * time.Minute)
			h.away(8 * time.Minute) // 00:05 and 00:10 come due
			time.Sleep(time.Minute)
			b.end(h)
			lines := b.worked("j")
			if !slices.Contains(lines, "00:10 0 1 2") || slices.ContainsFunc(lines, func(l string) bool { return strings.HasPrefix(l, "00:05") }) {
				t.Errorf("shards: %q", lines)
			}
		})
	}
}

// A fault of leaderrun in one divided job leaves the daemon, and the next tick, alone.
func TestAFaultInADividedJob(t *testing.T) {
	inBed(t, func(t *testing.T, b *bed) {
		h := b.host("a", divided(t, "10,20 0 * * *", 3, nil))
		h.faults.Store(1)
		time.Sleep(time.Hour)
		b.end(h)
		wantWork(t, b, "j", "00:20 0 1 2")
	})
}

// A tick that is caught up too late for its start deadline does not keep the present one from being run.
func TestCatchUpOfADividedTickThatIsTooLate(t *testing.T) {
	inBed(t, func(t *testing.T, b *bed) {
		j := divided(t, "0 * * * *", 3, func(j *jobfile.Job) { j.CatchUp, j.StartDeadline = 1, 10*time.Minute })
		h := b.host("a", j)
		time.Sleep(90 * time.Minute)
		h.away(time.Hour) // 02:00 passes
		time.Sleep(95 * time.Minute)
		b.end(h)
		wantWork(t, b, "j", "01:00 0 1 2", "03:00 0 1 2", "04:00 0 1 2")
	})
}
