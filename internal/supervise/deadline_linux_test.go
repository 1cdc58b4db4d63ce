package supervise

import (
	"errors"
	"os"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/leaderrun/leaderrun/internal/boottime"
	"github.com/leaderrun/leaderrun/internal/lifeline"
	"github.com/leaderrun/leaderrun/internal/supervise/guardian"
)

// A command that writes down when it was told to end, and does not.
const stubborn = `trap 'echo >>termed' TERM; echo $$ >pid; while :; do sleep 0.01; done`

func TestDeadlineSendsTermThenKill(t *testing.T) {
	tiers(t, func(t *testing.T, o Options) {
		inTime(t, func(longer func(time.Duration) time.Duration) (slept bool) {
			r := prepare(t, o)
			d := within(longer(500*time.Millisecond), longer(500*time.Millisecond))
			if !r.startInTime(r.shell(stubborn), d) {
				return true
			}
			eventually(t, "SIGTERM, or the time of SIGKILL", func() bool { return r.has("termed") || boottime.Now() >= d.Kill })
			if now := boottime.Now(); now < d.Term {
				t.Errorf("SIGTERM %v early", d.Term.Sub(now))
			}
			e := r.wait(lifeline.Dead)
			now := boottime.Now()
			if now < d.Kill {
				t.Errorf("dead %v before the time of SIGKILL", d.Kill.Sub(now))
			}
			r.noneLeft()
			if now > d.End || r.saw(lifeline.GuardianLost) || !r.has("termed") {
				t.Logf("dead %v after the end: %+v", now.Sub(d.End), r.seen)
				return true
			}
			if want := (lifeline.Status{Known: true, Signal: syscall.SIGKILL}); e.Status != want {
				t.Errorf("got %+v", e.Status)
			}
			r.equal("termed", "\n")
			return false
		})
	})
}

// A guardian that wakes up when it must kill has slept through the time of SIGTERM. The wrapper may have slept less and
// extended the deadline meanwhile: what it hears of next is no end of the command's own.
func TestTermThatWasSleptThroughIsTold(t *testing.T) {
	inTime(t, func(longer func(time.Duration) time.Duration) (slept bool) {
		r := prepare(t, Options{})
		d := in(longer(time.Second))
		d.Term = d.Kill
		if !r.startInTime(r.shell(stubborn), d) {
			return true
		}
		e := r.wait(lifeline.Dead)
		if r.saw(lifeline.GuardianLost) { // it slept too long
			return true
		}
		if want := (lifeline.Status{Known: true, Signal: syscall.SIGKILL}); e.Status != want {
			t.Errorf("got %+v", e.Status)
		}
		if !r.saw(lifeline.Terminated) {
			t.Error("the end looks like the command's own")
		}
		return false
	})
}

func TestExtendKeepsTheRunAlive(t *testing.T) {
	inTime(t, func(longer func(time.Duration) time.Duration) (slept bool) {
		r := prepare(t, Options{})
		first := within(longer(300*time.Millisecond), 100*time.Millisecond)
		if !r.startInTime(r.shell(stubborn), first) {
			return true
		}
		last := far()
		r.Extend(last)
		eventually(t, "the guardian has extended it, or the time of SIGTERM", func() bool { return r.acked(last) || boottime.Now() >= first.Term })
		if boottime.Now() >= first.Term {
			return true
		}
		r.Extend(first) // not forward: ignored, and by the guardian too
		r.send(guardian.ExtendMessage(99, first))
		eventually(t, "the first deadline's end", func() bool { return boottime.Now() > first.End })
		if r.has("termed") {
			t.Error("SIGTERM although extended")
		}
		if !running(r.pid("pid")) || len(r.Events()) != 0 {
			t.Error("it did not live")
		}
		return false
	})
}

// acked tells whether the guardian has acknowledged this deadline, and has nothing more to acknowledge.
func (r *run) acked(d lifeline.Deadline) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.watch.acked == d && len(r.watch.inFlight) == 0
}

func TestTerminateAndThenTheDeadlineSendOneTerm(t *testing.T) {
	inTime(t, func(longer func(time.Duration) time.Duration) (slept bool) {
		r := prepare(t, Options{})
		d := in(longer(400 * time.Millisecond))
		if !r.startInTime(r.shell(stubborn), d) {
			return true
		}
		r.Terminate()
		eventually(t, "SIGTERM, or its time", func() bool { return r.has("termed") || boottime.Now() >= d.Term })
		if boottime.Now() >= d.Term {
			return true
		}
		r.Terminate()
		r.wait(lifeline.Dead)
		if now := boottime.Now(); now < d.Kill {
			t.Errorf("dead %v before the time of SIGKILL", d.Kill.Sub(now))
		}
		r.equal("termed", "\n")
		return false
	})
}

func TestKillEndsEverythingAtOnce(t *testing.T) {
	tiers(t, func(t *testing.T, o Options) {
		inTime(t, func(func(time.Duration) time.Duration) (slept bool) {
			r := prepare(t, o)
			r.start(r.shell("("+stubborn+") & "+stubborn), far())
			r.pid("pid")
			asked := time.Now()
			r.Kill(true)
			e := r.wait(lifeline.Dead)
			r.noneLeft()
			if r.saw(lifeline.GuardianLost) { // it has a tenth of a second to begin
				t.Logf("%+v after %v", r.seen, time.Since(asked))
				return true
			}
			if e.Status.Signal != syscall.SIGKILL {
				t.Errorf("%+v", r.seen)
			}
			return false
		})
	})
}

func TestSignalsReachTheCommandOrItsGroup(t *testing.T) {
	noNohup(t)
	r := prepare(t, Options{})
	r.start(r.shell(`trap 'echo >usr1' USR1; trap 'echo >hup' HUP
(trap 'echo >child-usr1' USR1; trap 'echo >child-hup; exit' HUP; echo >ready; while :; do sleep 0.01; done) &
while [ ! -e ready ]; do sleep 0.01; done; echo $$ >pid; while :; do sleep 0.01; done`), far())
	r.pid("pid")
	r.Signal(syscall.SIGUSR1)
	r.file("usr1")
	r.Signal(syscall.SIGHUP)
	r.file("hup")
	r.file("child-hup")
	if _, err := os.Stat(filepath.Join(r.dir, "child-usr1")); err == nil {
		t.Error("USR1 went to the group")
	}
}

func TestTermReachesAStoppedCommand(t *testing.T) {
	r := prepare(t, Options{})
	r.start(r.shell("echo $$ >pid; exec sleep 100"), far())
	must(t, syscall.Kill(r.pid("pid"), syscall.SIGSTOP))
	r.Signal(syscall.SIGTERM)
	if e := r.wait(lifeline.Dead); e.Status.Signal != syscall.SIGTERM {
		t.Errorf("got %+v", e)
	}
}

// The hazard: the machine sleeps in the moment of the start. When it wakes up, the time to wait for an answer is over, and the answer is
// there: nothing was started. Who takes the guardian for lost instead waits for a death of which nobody tells.
func TestAnswerThatComesWithTheEndCounts(t *testing.T) {
	for range 20 { // which of the two is looked at first is left to chance
		limit, err := boottime.NewTimer()
		if err != nil {
			t.Fatal(err)
		}
		end := boottime.Now()
		limit.Set(end)
		g := newGuard(Options{})
		g.watch.start(lifeline.Deadline{}, 0)
		g.heardStarted(guardian.Message{Kind: guardian.Started, Numbers: []int64{0, 0, 1}})
		time.Sleep(2 * time.Millisecond)
		if err := g.awaitStart(Command{}, end, limit); !errors.Is(err, ErrTooLate) {
			t.Fatalf("%v, want %v", err, ErrTooLate)
		}
		limit.Stop()
	}
}
