package daemon

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/leaderrun/leaderrun/backends"
	"github.com/leaderrun/leaderrun/internal/jobfile"
)

// minutes lists ticks from a minute on, as bed.runs does.
func minutes(from, n int) string {
	var list []string
	for i := range n {
		list = append(list, fmt.Sprintf("%02d:%02d", (from+i)/60, (from+i)%60))
	}
	return strings.Join(list, " ")
}

func wantRuns(t *testing.T, b *bed, job, want string) {
	t.Helper()
	if got := b.runs(job); got != want {
		t.Errorf("runs of %s: %s\nwant: %s", job, got, want)
	}
}

func TestEveryTickRunsOnceOnOneOfThreeHosts(t *testing.T) {
	inBed(t, func(t *testing.T, b *bed) {
		j := newJob(t, "j", "* * * * *", nil)
		time.Sleep(30 * time.Second) // midnight has gone by on every clock
		// H29: clocks differ.
		hosts := []*host{b.host("a", j), b.hostAhead("b", 1900*time.Millisecond, j), b.hostAhead("c", -20*time.Second, j)}
		time.Sleep(60 * time.Minute)
		b.end(hosts...)
		wantRuns(t, b, "j", minutes(1, 60))
		if got := b.outcomes("j"); got["ran 0"] != 60 {
			t.Errorf("outcomes %v", got)
		}
	})
}

func TestNothingIsAskedWhileNothingIsDue(t *testing.T) {
	inBed(t, func(t *testing.T, b *bed) {
		var jobs []*jobfile.Job
		for i := range 1000 {
			jobs = append(jobs, newJob(t, fmt.Sprint("j", i), "0 0 1 * *", nil))
		}
		h := b.host("a", jobs...)
		time.Sleep(29 * 24 * time.Hour)
		if n := h.asked.Load(); n != 0 {
			t.Errorf("%d requests", n)
		}
		time.Sleep(3 * 24 * time.Hour)
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if err := h.Alive(ctx); err != nil {
			t.Error(err)
		}
		b.end(h)
		if len(b.starts) != len(jobs) {
			t.Errorf("%d of %d jobs ran", len(b.starts), len(jobs))
		}
	})
}

func TestOverlap(t *testing.T) {
	// Runs take 150 s: two ticks come due meanwhile.
	for overlap, want := range map[jobfile.Overlap]string{
		jobfile.Forbid:  "00:01 00:04 00:07",
		jobfile.Wait:    minutes(1, 8),
		jobfile.Replace: minutes(1, 8),
	} {
		inBedRun(t, string(overlap), func(t *testing.T, b *bed) {
			b.takes = lasting(150 * time.Second)
			j := newJob(t, "j", "1-8 0 * * *", func(j *jobfile.Job) { j.Overlap = overlap })
			hosts := []*host{b.host("a", j), b.host("b", j)}
			time.Sleep(23 * time.Hour)
			b.end(hosts...)
			wantRuns(t, b, "j", want)
			status, err := b.mem.Inspect(t.Context(), "j")
			if err != nil {
				t.Fatal(err)
			}
			replaced := 0
			for _, run := range status.Record.Runs {
				if run.State == backends.Stopped {
					replaced++
				}
			}
			if want := map[jobfile.Overlap]int{jobfile.Replace: 7}[overlap]; replaced != want {
				t.Errorf("%d runs were stopped, want %d", replaced, want)
			}
		})
	}
}

func TestCatchUpRunsWhatNobodyRan(t *testing.T) {
	inBed(t, func(t *testing.T, b *bed) {
		j := newJob(t, "j", "0 * * * *", func(j *jobfile.Job) { j.CatchUp = 2 })
		h := b.host("a", j)
		time.Sleep(90 * time.Minute)
		b.end(h)
		time.Sleep(5 * time.Hour) // until 06:30: five ticks go by
		h = b.host("a", j)
		time.Sleep(time.Hour)
		b.end(h)
		wantRuns(t, b, "j", "01:00 04:00 05:00 06:00 07:00")
	})
}

// A host claims a tick and dies before it has started it, or takes its claim back: nobody has run that tick, although it
// is recorded.
func TestCatchUpRunsWhatWasClaimedAndNeverStarted(t *testing.T) {
	for name, change := range map[string]func(*jobfile.Job){
		"taken back before anybody looks": func(j *jobfile.Job) {},
		"taken back while others stand by": func(j *jobfile.Job) {
			j.OnLost, j.Overlap = backends.Rerun, jobfile.Wait
		},
	} {
		inBedRun(t, name, func(t *testing.T, b *bed) {
			j := newJob(t, "j", "0 * * * *", change)
			j.CatchUp = 2
			time.Sleep(60*time.Minute + time.Second)
			claim := backends.Claim{
				Job: "j", Holder: backends.Holder{ID: "x", Host: "elsewhere"}, TTL: 2 * time.Hour,
				Trigger: backends.Trigger{Tick: time.Now().Unix() - 1, OnLost: j.OnLost, MaxAttempts: 3},
			}
			if _, err := b.mem.Acquire(t.Context(), claim); err != nil {
				t.Fatal(err)
			}
			takeBack := func() {
				if err := b.mem.Abandon(t.Context(), claim); err != nil {
					t.Fatal(err)
				}
			}
			if j.Overlap != jobfile.Wait {
				takeBack()
			}
			time.Sleep(70 * time.Minute)
			h := b.host("a", j)
			if j.Overlap == jobfile.Wait {
				time.Sleep(time.Minute)
				takeBack()
			}
			time.Sleep(time.Hour)
			b.end(h)
			wantRuns(t, b, "j", "01:00 02:00 03:00")
		})
	}
}

func TestReloadLosesNeitherATickNorARun(t *testing.T) {
	inBed(t, func(t *testing.T, b *bed) {
		b.takes = lasting(90 * time.Second)
		old := newJob(t, "old", "0-10 0 * * *", func(j *jobfile.Job) { j.Overlap = jobfile.Wait })
		gone := newJob(t, "gone", "* * * * *", nil)
		h := b.host("a", old, gone)
		for range 50 {
			time.Sleep(7 * time.Second)
			again := *old
			again.Retries++
			if err := h.Reload(t.Context(), []*jobfile.Job{&again, gone}); err != nil {
				t.Fatal(err)
			}
		}
		added := newJob(t, "added", "* * * * *", nil)
		if err := h.Reload(t.Context(), []*jobfile.Job{old, added}); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Hour)
		b.end(h)
		wantRuns(t, b, "old", minutes(1, 10))
		wantRuns(t, b, "gone", "00:01 00:03 00:05")
		if got := b.runs("added"); !strings.HasPrefix(got, "00:06 00:08") {
			t.Errorf("the new job ran at %s", got)
		}
	})
}

// The clock is stepped over a tick, and the file with another schedule comes before the daemon has looked.
func TestATickThatIsDueRunsByTheOldFile(t *testing.T) {
	inBed(t, func(t *testing.T, b *bed) {
		h := b.host("a", newJob(t, "j", "30 0 * * *", nil))
		time.Sleep(29*time.Minute + 51*time.Second)
		synctest.Wait()
		h.skew.Store(int64(20 * time.Second))
		if err := h.Reload(t.Context(), []*jobfile.Job{newJob(t, "j", "0 12 * * *", nil)}); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Minute)
		b.end(h)
		wantRuns(t, b, "j", "00:30")
	})
}

func TestDrainWaitsForCommandsAndStartsNothing(t *testing.T) {
	inBed(t, func(t *testing.T, b *bed) {
		b.takes = lasting(10 * time.Minute)
		long := newJob(t, "long", "1 0 * * *", nil)
		waits := newJob(t, "waits", "1-3 0 * * *", func(j *jobfile.Job) { j.Overlap = jobfile.Wait })
		h := b.host("a", long, waits)
		time.Sleep(150 * time.Second)
		h.stop()
		synctest.Wait()
		if n := h.Running(); n != 2 {
			t.Errorf("%d commands run", n)
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if err := h.Alive(ctx); err != nil {
			t.Errorf("while it drains: %v", err)
		}
		<-h.over
		wantRuns(t, b, "long", "00:01")
		wantRuns(t, b, "waits", "00:01")
		if got := b.outcomes("long"); got["ran 0"] != 1 {
			t.Errorf("outcomes %v", got)
		}
	})
}

func TestAHostThatLacksTheCommandLeavesItToOthers(t *testing.T) {
	inBed(t, func(t *testing.T, b *bed) {
		j := newJob(t, "j", "* * * * *", nil)
		a, c := b.host("a", j), b.host("b", j)
		a.lacks.Store(true)
		time.Sleep(5*time.Minute + time.Second)
		asked := a.asked.Load()
		b.end(a, c)
		wantRuns(t, b, "j", minutes(1, 5))
		if asked != 0 {
			t.Errorf("the host that lacks it asked %d times", asked)
		}
	})
}

// Turned back by an hour: no tick runs twice, and the job goes on. Turned forward: the latest tick runs.
func TestAClockThatIsStepped(t *testing.T) {
	inBed(t, func(t *testing.T, b *bed) {
		j := newJob(t, "j", "*/10 * * * *", nil)
		h := b.host("a", j)
		time.Sleep(125 * time.Minute)
		h.skew.Store(-int64(time.Hour))
		time.Sleep(66 * time.Minute) // the clock shows 02:11
		b.end(h)
		if got := b.runs("j"); !strings.HasSuffix(got, "01:50 02:00 02:10") || strings.Count(got, "02:00") != 1 {
			t.Errorf("runs %s", got)
		}
	})
	inBed(t, func(t *testing.T, b *bed) {
		j := newJob(t, "j", "0 0 * * *", nil)
		h := b.host("a", j)
		time.Sleep(time.Hour)
		h.skew.Store(int64(300 * 24 * time.Hour))
		time.Sleep(time.Minute)
		h.skew.Store(0) // mended: the next tick is tomorrow's, not that of next year
		time.Sleep(24 * time.Hour)
		b.end(h)
		if got := b.outcomes("j"); got["future"] == 0 || got["ran 0"] != 1 {
			t.Errorf("outcomes %v", got)
		}
	})
}

func TestJitterSpreadsStartsOfOneTick(t *testing.T) {
	inBed(t, func(t *testing.T, b *bed) {
		j := newJob(t, "j", "* * * * *", func(j *jobfile.Job) { j.Jitter = 30 * time.Second })
		h := b.host("a", j)
		time.Sleep(100*time.Minute + 40*time.Second)
		b.end(h)
		wantRuns(t, b, "j", minutes(1, 100))
		late := map[time.Duration]bool{}
		for _, s := range b.starts {
			late[s.at.Sub(s.tick).Round(time.Second)] = true
		}
		if len(late) < 10 {
			t.Errorf("starts were late by %v only", late)
		}
	})
}
