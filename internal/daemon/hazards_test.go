package daemon

import (
	"fmt"
	"syscall"
	"testing"
	"time"

	"github.com/leaderrun/leaderrun/backends"
	"github.com/leaderrun/leaderrun/internal/jobfile"
	"github.com/leaderrun/leaderrun/runner"
	"github.com/leaderrun/leaderrun/test/servers"
)

// Hazards that a second reader found, each as it was found.

// A daemon that drains goes on with what it catches up.
func TestDrainEndsCatchingUp(t *testing.T) {
	inBed(t, func(t *testing.T, b *bed) {
		b.takes = lasting(10 * time.Minute)
		j := newJob(t, "j", "0 * * * *", func(j *jobfile.Job) { j.CatchUp, j.Overlap = 10, jobfile.Wait })
		h := b.host("a", j)
		time.Sleep(61 * time.Minute)
		b.end(h)
		time.Sleep(5 * time.Hour)
		h = b.host("a", j)
		time.Sleep(5 * time.Minute)
		b.end(h)
		wantRuns(t, b, "j", "01:00 02:00")
	})
}

// A daemon that drains loses the lease of a run, and stands by for its tick for ever.
func TestDrainDoesNotStandByForWhatItLost(t *testing.T) {
	inBed(t, func(t *testing.T, b *bed) {
		b.takes = lasting(time.Hour)
		h := b.host("a", newJob(t, "j", "1 0 * * *", func(j *jobfile.Job) { j.OnLost = backends.Rerun }))
		time.Sleep(2 * time.Minute)
		h.stop()
		h.away(20 * time.Second)
		<-h.over
		wantRuns(t, b, "j", "00:01")
	})
}

// A command's file system does not answer, and the daemon never ends.
func TestDrainDoesNotWaitForAFileSystem(t *testing.T) {
	inBed(t, func(t *testing.T, b *bed) {
		h := b.host("a", newJob(t, "j", "1 0 * * *", nil))
		h.hangs.Store(true)
		time.Sleep(2 * time.Minute)
		b.end(h)
		if len(b.ends) != 1 || b.ends[0].result.Ending != runner.Interrupted {
			t.Errorf("%+v", b.ends)
		}
	})
}

// A command that a host cannot start in time, because it sleeps or its disk hangs, is started when it can, or on another host that
// waits for the tick: whoever was too slow lets the others go first.
func TestAStartThatIsTooLate(t *testing.T) {
	inBed(t, func(t *testing.T, b *bed) {
		h := b.host("a", newJob(t, "j", "1 0 * * *", nil))
		h.slow.Store(true)
		time.Sleep(65 * time.Second)
		h.slow.Store(false)
		time.Sleep(time.Minute)
		b.end(h)
		wantRuns(t, b, "j", "00:01")
	})
	for range 20 { // who does not wait may lose all the same
		inBed(t, func(t *testing.T, b *bed) {
			rerun := func(j *jobfile.Job) { j.OnLost = backends.Rerun }
			slow := b.host("a", newJob(t, "j", "1 0 * * *", rerun))
			slow.slow.Store(true)
			time.Sleep(61 * time.Second)
			other := b.host("b", newJob(t, "j", "1 0 * * *", func(j *jobfile.Job) { rerun(j); j.CatchUp = 1 }))
			time.Sleep(13 * time.Second) // less than two leases
			b.mu.Lock()
			if len(b.starts) != 1 || b.starts[0].host != "b" {
				t.Errorf("%+v", b.starts)
			}
			b.mu.Unlock()
			slow.slow.Store(false)
			b.end(slow, other)
		})
	}
}

// lose leaves a tick behind, of that time after midnight, whose run on another host vanished.
func (b *bed) lose(job string, at time.Duration, policy backends.Policy) {
	b.t.Helper()
	time.Sleep(at)
	_, err := b.mem.Acquire(b.t.Context(), backends.Claim{
		Job: job, Holder: backends.Holder{ID: "lost", Host: "elsewhere"}, TTL: 15 * time.Second,
		Trigger: backends.Trigger{Tick: time.Now().Unix(), OnLost: policy, MaxAttempts: 3},
	})
	if err != nil {
		b.t.Fatal(err)
	}
	time.Sleep(15 * time.Second)
}

// The clock is turned back a little under a run that the next tick would replace: the same tick comes due again.
func TestAClockThatIsTurnedBackReplacesNothing(t *testing.T) {
	inBed(t, func(t *testing.T, b *bed) {
		b.takes = lasting(5 * time.Minute)
		h := b.host("a", newJob(t, "j", "*/10 * * * *", func(j *jobfile.Job) { j.Overlap = jobfile.Replace }))
		time.Sleep(10*time.Minute + 5*time.Second)
		h.skew.Store(-int64(25 * time.Second))
		time.Sleep(6 * time.Minute)
		b.end(h)
		wantRuns(t, b, "j", "00:10")
		if got := b.outcomes("j"); got["ran 0"] != 1 {
			t.Errorf("outcomes %v", got)
		}
	})
}

// A clock that was wrong is set right, or a machine wakes up: of the ticks that have passed the last one is started.
func TestAClockThatIsTurnedForwardsStartsTheLatestTick(t *testing.T) {
	inBed(t, func(t *testing.T, b *bed) {
		h := b.host("a", newJob(t, "j", "*/10 * * * *", nil))
		time.Sleep(9 * time.Minute)
		h.skew.Store(-int64(32 * time.Minute))
		time.Sleep(2 * time.Minute)
		h.skew.Store(0)
		time.Sleep(7 * time.Minute)
		b.end(h)
		wantRuns(t, b, "j", "00:10")
	})
}

// An outage at a tick of many jobs: those that wait for the backend keep the others from trying.
func TestManyJobsOutliveAnOutage(t *testing.T) {
	if testing.Short() {
		servers.SkipShort(t)
	}
	for name, change := range map[string]func(i int, j *jobfile.Job){
		"rerun, wait and catch up": func(_ int, j *jobfile.Job) {
			j.OnLost, j.Overlap, j.CatchUp = backends.Rerun, jobfile.Wait, 3
		},
		"most of them give up": func(i int, j *jobfile.Job) {
			if i%4 == 0 {
				j.OnLost, j.Overlap = backends.Rerun, jobfile.Wait
			}
		},
	} {
		inBedRun(t, name, func(t *testing.T, b *bed) {
			var jobs []*jobfile.Job
			for i := range 400 {
				jobs = append(jobs, newJob(t, fmt.Sprint("j", i), "1 0 * * *", func(j *jobfile.Job) { change(i, j) }))
			}
			hosts := []*host{b.host("a", jobs...), b.host("b", jobs...)}
			for _, h := range hosts {
				h.cut.Store(true)
			}
			time.Sleep(3 * time.Minute)
			for _, h := range hosts {
				h.cut.Store(false)
			}
			time.Sleep(2 * time.Minute)
			b.end(hosts...)
			for i, j := range jobs {
				want := ""
				if waits(j) {
					want = "00:01"
				}
				wantRuns(t, b, fmt.Sprint("j", i), want)
			}
		})
	}
}

// After an outage, the ticks that came due meanwhile run in any order, and are in the way of the present one.
func TestAfterAnOutageThePresentTickRuns(t *testing.T) {
	inBed(t, func(t *testing.T, b *bed) {
		b.takes = lasting(3 * time.Second)
		j := newJob(t, "j", "@every 5s", nil)
		hosts := []*host{b.host("a", j), b.host("b", j)}
		for range 10 { // which tick would come first is chance
			time.Sleep(21 * time.Second)
			for _, h := range hosts {
				h.cut.Store(true)
			}
			time.Sleep(40 * time.Second)
			for _, h := range hosts {
				h.cut.Store(false)
			}
		}
		time.Sleep(20 * time.Second)
		b.end(hosts...)
		b.mu.Lock()
		defer b.mu.Unlock()
		for _, s := range b.starts {
			if late := s.at.Sub(s.tick); late >= 5*time.Second {
				t.Errorf("the tick of %v started %v late", s.tick, late)
			}
		}
	})
}

// forbid: what an earlier run was in the way of is not caught up.
func TestForbidCatchesNothingUpThatItForbade(t *testing.T) {
	inBed(t, func(t *testing.T, b *bed) {
		b.takes = func(_ string, tick time.Time, _ int) (time.Duration, int) {
			if tick.UTC().Minute() == 1 {
				return 210 * time.Second, 0
			}
			return time.Second, 0
		}
		j := newJob(t, "j", "* * * * *", func(j *jobfile.Job) { j.CatchUp = 10 })
		h := b.host("a", j)
		time.Sleep(6*time.Minute + time.Second)
		b.end(h)
		wantRuns(t, b, "j", "00:01 00:05 00:06")
	})
}

// The first of what is to be caught up runs long, on another host, which dies: the later ones must not have been
// refused one by one, and be lost with it.
func TestCatchingUpStopsWhereAnEarlierRunIsInTheWay(t *testing.T) {
	for range 20 { // who asks when is left to chance, and only some of it would show a fault
		inBed(t, func(t *testing.T, b *bed) { catchUpBehindARun(t, b) })
	}
}

func catchUpBehindARun(t *testing.T, b *bed) {
	t.Helper()
	b.takes = lasting(10 * time.Minute)
	j := newJob(t, "j", "0 * * * *", func(j *jobfile.Job) { j.CatchUp = 10 })
	first := b.host("a", j)
	time.Sleep(61 * time.Minute)
	b.end(first)
	time.Sleep(4*time.Hour + 10*time.Minute)
	hosts := map[string]*host{"b": b.host("b", j), "c": b.host("c", j)}
	time.Sleep(time.Minute)
	b.mu.Lock()
	leader := b.starts[1].host
	b.mu.Unlock()
	hosts[leader].cut.Store(true) // for good: the other one goes on at the next tick
	time.Sleep(90 * time.Minute)
	b.end(hosts["b"], hosts["c"])
	wantRuns(t, b, "j", "01:00 02:00 03:00 04:00 05:00 06:00")
}

// The run of an earlier tick is broken by an operator, and with it our own tick is forgotten.
func TestOurTickRunsAfterAnEarlierOneThatWasBroken(t *testing.T) {
	inBed(t, func(t *testing.T, b *bed) {
		b.lose("j", time.Minute, backends.Rerun)
		b.takes = func(_ string, tick time.Time, _ int) (time.Duration, int) {
			if tick.UTC().Minute() == 1 {
				return time.Hour, 0
			}
			return time.Second, 0
		}
		j := newJob(t, "j", "*/30 * * * *", func(j *jobfile.Job) { j.OnLost, j.MaxAttempts = backends.Rerun, 2 })
		h := b.host("a", j)
		time.Sleep(31 * time.Minute)
		status, err := b.mem.Inspect(t.Context(), "j")
		if err != nil {
			t.Fatal(err)
		}
		err = b.mem.Order(t.Context(), backends.Order{
			Job: "j", Kind: backends.Stop, Token: status.Lease.Token, By: backends.Holder{ID: "operator"},
		})
		if err != nil {
			t.Fatal(err)
		}
		time.Sleep(10 * time.Minute)
		b.end(h)
		if got := b.runs("j"); got != "00:01#2 00:01#3 00:30" && got != "00:01#2 00:30" {
			t.Errorf("runs %s", got)
		}
	})
}

// A job that was removed and comes back with an emptied store gets tokens that it had before.
func TestTokensGrowAcrossAReloadAndAnEmptiedStore(t *testing.T) {
	inBed(t, func(t *testing.T, b *bed) {
		j, other := newJob(t, "j", "* * * * *", nil), newJob(t, "other", "0 0 1 1 *", nil)
		h := b.host("a", j, other)
		time.Sleep(90 * time.Second)
		for _, jobs := range [][]*jobfile.Job{{other}, {j, other}} {
			if err := h.Reload(t.Context(), jobs); err != nil {
				t.Fatal(err)
			}
		}
		h.mu.Lock()
		floor := h.floors["j"]
		h.mu.Unlock()
		b.mu.Lock()
		token := b.starts[0].token
		b.mu.Unlock()
		if floor != token || floor == 0 {
			t.Errorf("floor %d after a run with token %d", floor, token)
		}
		time.Sleep(time.Minute)
		b.end(h)
		wantRuns(t, b, "j", "00:01 00:02")
	})
}

// A job that is removed while a tick of it waits does not run any more.
func TestARemovedJobStartsNoMore(t *testing.T) {
	inBed(t, func(t *testing.T, b *bed) {
		b.takes = lasting(10 * time.Minute)
		j, other := newJob(t, "j", "* * * * *", func(j *jobfile.Job) { j.Overlap = jobfile.Wait }), newJob(t, "other", "0 0 1 1 *", nil)
		h := b.host("a", j, other)
		time.Sleep(3*time.Minute + time.Second)
		if err := h.Reload(t.Context(), []*jobfile.Job{other}); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Hour)
		b.end(h)
		wantRuns(t, b, "j", "00:01")
		if got := b.outcomes("j"); got["ran 0"] != 1 {
			t.Errorf("what ran did not go on: %v", got)
		}
	})
}

// A host loses the lease of a run, and comes back: with nobody else there it runs the tick again itself.
func TestAHostRunsAgainWhatItLost(t *testing.T) {
	inBed(t, func(t *testing.T, b *bed) {
		b.takes = lasting(time.Minute)
		h := b.host("a", newJob(t, "j", "1 0 * * *", func(j *jobfile.Job) { j.OnLost = backends.Rerun }))
		time.Sleep(70 * time.Second)
		h.away(20 * time.Second)
		time.Sleep(5 * time.Minute)
		b.end(h)
		wantRuns(t, b, "j", "00:01 00:01#2")
	})
}

// forbid: the others do not stand by for a run, unless they are to run its tick again; and then not for the next ticks.
func TestForbidStandsByForNothingElse(t *testing.T) {
	for policy, want := range map[backends.Policy]int{backends.Skip: 1, backends.Rerun: 0} {
		inBedRun(t, string(policy), func(t *testing.T, b *bed) {
			b.takes = lasting(150 * time.Second)
			j := newJob(t, "j", "* * * * *", func(j *jobfile.Job) { j.OnLost = policy })
			hosts := []*host{b.host("a", j), b.host("b", j)}
			time.Sleep(90 * time.Second)
			if got := b.outcomes("j"); got["held"] != want {
				t.Errorf("beside the first run: %v", got)
			}
			time.Sleep(time.Minute)
			if got := b.outcomes("j"); got["held"] != want+2 {
				t.Errorf("after the second tick: %v", got)
			}
			b.end(hosts...)
			wantRuns(t, b, "j", "00:01")
		})
	}
}

// replace stops the run of another host, whose file is an older one.
func TestReplaceReachesOtherHosts(t *testing.T) {
	inBed(t, func(t *testing.T, b *bed) {
		b.takes = lasting(time.Hour)
		old := b.host("old", newJob(t, "j", "1 0 * * *", nil))
		time.Sleep(90 * time.Second)
		h := b.host("new", newJob(t, "j", "1-2 0 * * *", func(j *jobfile.Job) { j.Overlap = jobfile.Replace }))
		time.Sleep(5 * time.Minute)
		h.Signal(syscall.SIGTERM)
		b.end(old, h)
		wantRuns(t, b, "j", "00:01 00:02")
	})
}

// A standby of rerun misses one answer, and is given up for it when the next tick comes due: then nobody is there when
// the run's host dies.
func TestAStandbyOutlivesALostAnswer(t *testing.T) {
	inBed(t, func(t *testing.T, b *bed) {
		b.takes = lasting(35 * time.Minute)
		j := newJob(t, "j", "10,20 * * * *", func(j *jobfile.Job) { j.OnLost = backends.Rerun })
		hosts := map[string]*host{"a": b.host("a", j), "b": b.host("b", j)}
		time.Sleep(11 * time.Minute)
		b.mu.Lock()
		leader := b.starts[0].host
		b.mu.Unlock()
		other := map[string]string{"a": "b", "b": "a"}[leader]
		hosts[other].away(20 * time.Second)
		time.Sleep(12 * time.Minute)
		hosts[leader].cut.Store(true)
		time.Sleep(6 * time.Minute)
		if got := b.runs("j"); got != "00:10 00:10#2" {
			t.Errorf("runs %s", got)
		}
		hosts[leader].cut.Store(false)
		b.end(hosts["a"], hosts["b"])
	})
}

// A host that cannot start commands claims one tick after the other, and passes over what another host would run.
func TestAHostThatCannotStartCommandsPassesNothingOver(t *testing.T) {
	inBed(t, func(t *testing.T, b *bed) {
		j := newJob(t, "j", "*/10 * * * *", func(j *jobfile.Job) {
			j.OnLost, j.Overlap, j.CatchUp = backends.Rerun, jobfile.Wait, 10
		})
		h := b.host("z", j)
		time.Sleep(11 * time.Minute)
		b.end(h)
		time.Sleep(50 * time.Minute)
		idle := b.host("idle", j)
		idle.idle.Store(true)
		time.Sleep(time.Minute)
		good := b.host("good", j)
		time.Sleep(time.Hour)
		b.end(good, idle)
		wantRuns(t, b, "j", "00:10 00:20 00:30 00:40 00:50 01:00 01:10 01:20 01:30 01:40 01:50 02:00")
	})
}

// The record cannot be read for longer than the job's patience: what is to be caught up stays so.
func TestWhatCannotBeReadIsCaughtUpLater(t *testing.T) {
	inBed(t, func(t *testing.T, b *bed) {
		h := b.host("a", newJob(t, "j", "0 * * * *", func(j *jobfile.Job) { j.CatchUp = 10 }))
		time.Sleep(90 * time.Minute)
		h.away(3*time.Hour + 31*time.Minute + 30*time.Second) // 05:01:30
		time.Sleep(90 * time.Minute)
		b.end(h)
		wantRuns(t, b, "j", "01:00 02:00 03:00 04:00 05:00 06:00")
	})
}

// A claim was granted whose answer is lost. The next tick overtakes it, and is refused because of it.
func TestATickIsNotInTheWayOfTheOneThatOvertakesIt(t *testing.T) {
	inBed(t, func(t *testing.T, b *bed) {
		h := b.host("a", newJob(t, "j", "* * * * *", func(j *jobfile.Job) { j.BackendWait = 5 * time.Minute }))
		time.Sleep(30 * time.Second)
		h.deaf.Store(true)
		time.Sleep(90*time.Second - time.Millisecond)
		h.deaf.Store(false)
		time.Sleep(70 * time.Second)
		b.end(h)
		if got := b.runs("j"); got != "00:02 00:03" && got != "00:01 00:02 00:03" {
			t.Errorf("runs %s", got)
		}
	})
}
