package runner

import (
	"errors"
	"syscall"
	"testing"
	"time"

	"github.com/leaderrun/leaderrun/backends"
	"github.com/leaderrun/leaderrun/internal/lifeline"
)

func wantEnding(t *testing.T, got Result, want Ending) {
	t.Helper()
	if got.Ending != want {
		t.Fatalf("ending %d (%v), want %d", got.Ending, got.Err, want)
	}
}

func silent(int) answer { return answer{dropRequest: true} }

func TestSilentBackendEndsTheRunBeforeTheLease(t *testing.T) {
	virtual(t, func(t *testing.T, b *bed) {
		b.ignores = true
		b.renewal, b.finish = silent, silent
		wantEnding(t, b.run(), LeaseLost)
		var term, kill bool
		for _, entry := range b.log {
			term = term || entry == "11s TERM"
			kill = kill || entry == "14s KILL"
		}
		if !term || !kill {
			t.Errorf("no SIGTERM at 11 s or no SIGKILL at 14 s: %q", b.log)
		}
	})
}

func TestValidityCountsFromTheRequest(t *testing.T) {
	virtualRun(t, "of the claim", func(t *testing.T, b *bed) {
		b.acquire = func(int, backends.Claim) (backends.Grant, error) {
			time.Sleep(2 * time.Second)
			return backends.Grant{}, nil
		}
		b.renewal, b.finish = silent, nil
		wantEnding(t, b.run(), LeaseLost)
		if b.log[2] != "5s renew" || b.log[len(b.log)-2] != "11s TERM" {
			t.Errorf("the timeline does not count from the request: %q", b.log)
		}
	})
	virtualRun(t, "of a renewal", func(t *testing.T, b *bed) {
		b.renewal = func(n int) answer {
			if n == 1 {
				return answer{back: time.Second}
			}
			return answer{dropRequest: true}
		}
		wantEnding(t, b.run(), LeaseLost)
		if b.log[3] != "6s extend to 19.7s" || b.log[len(b.log)-2] != "16s TERM" {
			t.Errorf("the timeline does not count from the request: %q", b.log)
		}
	})
}

func TestSilentRenewalIsHedgedOnAFreshConnection(t *testing.T) {
	virtual(t, func(t *testing.T, b *bed) {
		b.duration = 8 * time.Second
		b.renewal = func(n int) answer { return answer{dropRequest: n == 1} }
		b.ends(Ran, "0s claim", "0s start", "5s renew", "6.25s renew", "6.25s extend to 20.95s", "8s finish done 0")
	})
}

func TestFailedRenewalIsRepeatedAtOnceThenWithABackoff(t *testing.T) {
	virtual(t, func(t *testing.T, b *bed) {
		b.duration = 6 * time.Second
		b.renewal = func(n int) answer {
			if n < 5 {
				return answer{err: errors.New("connection refused"), dropRequest: false}
			}
			return answer{}
		}
		// Without jitter a pause is half of 100, 200, 400 ms …
		b.ends(Ran, "0s claim", "0s start", "5s renew", "5s renew", "5.05s renew", "5.15s renew", "5.35s renew",
			"5.35s extend to 20.05s", "6s finish done 0")
	})
}

func TestReplyAfterTheEndCountsAsNone(t *testing.T) {
	virtual(t, func(t *testing.T, b *bed) {
		b.ignores, b.immortal = true, true // so that the run still waits when the reply comes
		b.renewal = func(int) answer {
			switch {
			case b.now() < 12*time.Second:
				return answer{err: errRefused}
			case b.now() < 15*time.Second:
				return answer{there: 15*time.Second - b.now(), deaf: true} // late, but the loop still waits for it
			}
			return silent(0)
		}
		wantEnding(t, b.run(), Unconfirmed)
		if b.over != 15400*time.Millisecond { // the reply came at 15 s, after the end at 14.7 s
			t.Errorf("given up at %v: a reply after the lease ran out extended it", b.over)
		}
		b.lives(false)
	})
}

func TestDefiniteLossKillsAtOnce(t *testing.T) {
	virtual(t, func(t *testing.T, b *bed) {
		b.ignores = true
		b.renewal = func(int) answer { b.lease = "somebody else"; return answer{} }
		b.ends(LeaseLost, "0s claim", "0s start", "5s renew", "5s KILL at once", "5s finish lost 137")
		if len(b.finished) != 0 {
			t.Error("the newer lease was touched")
		}
	})
}

func TestSuspendPastTheEndKillsBeforeAnythingElse(t *testing.T) {
	virtual(t, func(t *testing.T, b *bed) {
		b.ignores = true
		time.AfterFunc(2*time.Second, func() { b.clock.suspend(time.Minute) })
		b.ends(LeaseLost, "0s claim", "0s start", "1m2s TERM", "1m2s KILL", "1m2s finish lost 137")
	})
}

func TestSuspendWithinTheLeaseRenewsAtOnce(t *testing.T) {
	virtual(t, func(t *testing.T, b *bed) {
		b.duration = 3 * time.Second
		time.AfterFunc(2*time.Second, func() { b.clock.suspend(6 * time.Second) })
		b.ends(Ran, "0s claim", "0s start", "8s renew", "8s extend to 22.7s", "9s finish done 0")
	})
}

func TestTreeThatSurvivesIsKeptUnderLeaseWhileTheBackendAnswers(t *testing.T) {
	virtual(t, func(t *testing.T, b *bed) {
		b.ignores, b.immortal = true, true
		go func() {
			time.Sleep(time.Second)
			b.signals <- syscall.SIGTERM
			b.signals <- syscall.SIGTERM
			time.Sleep(time.Minute)
			b.die(lifeline.Status{Known: true, Signal: syscall.SIGKILL})
		}()
		b.comesTo(Ran)
		if n := b.counts["renew"]; n != 12 {
			t.Errorf("%d renewals in 61 s, want 12", n)
		}
		if len(b.finished) != 1 || b.finished[0].State != backends.Stopped {
			t.Errorf("recorded %v, want stopped", b.finished)
		}
	})
}

func TestTreeThatSurvivesItsLeaseIsNotReleased(t *testing.T) {
	virtual(t, func(t *testing.T, b *bed) {
		b.ignores, b.immortal = true, true
		b.renewal = silent
		wantEnding(t, b.run(), Unconfirmed)
		if b.counts["finish"] != 0 {
			t.Error("the lease of a living tree was released")
		}
		if now := b.over; now < 14700*time.Millisecond {
			t.Errorf("given up at %v, before the lease ran out", now)
		}
		b.lives(false)
	})
}

// Where the store says what it lacks, the user is told that, and not that it does not answer.
func TestUnknownFinish(t *testing.T) {
	const waits = "the lease runs out by itself; until then the job does not start again"
	for name, c := range map[string]struct {
		trigger backends.Trigger
		finish  func(int) answer
		want    Ending
		hint    string
	}{
		"without a tick keeps the command's code": {backends.Trigger{}, silent, Ran, waits},
		"with a tick is unrecorded":               {backends.Trigger{Tick: 1000}, silent, Unrecorded, ""},
		"with a key is unrecorded":                {backends.Trigger{Once: "v1"}, silent, Unrecorded, ""},
		"a remedy is told":                        {backends.Trigger{}, full, Ran, "make room"},
		"a remedy is the error, with a tick":      {backends.Trigger{Tick: 1000}, full, Unrecorded, ""},
	} {
		virtualRun(t, name, func(t *testing.T, b *bed) {
			b.request.Trigger, b.finish = c.trigger, c.finish
			b.duration, b.code = time.Second, 4
			result := b.comesTo(c.want)
			if result.Status.ExitCode() != 4 || b.counts["finish"] < 4 || b.over > 15*time.Second {
				t.Errorf("code %d; finish was tried %d times, until %v", result.Status.ExitCode(), b.counts["finish"], b.over)
			}
			if told := b.toldAs(EventReleased); c.want == Ran && (len(told) != 1 || told[0].Hint != c.hint) {
				t.Errorf("told %+v", told)
			}
			if c.want == Unrecorded && errors.Is(result.Err, fullDisk{}) != (c.finish(0).err != nil) {
				t.Errorf("%v", result.Err)
			}
		})
	}
}

// fullDisk is a failure that the store knows a remedy for.
type fullDisk struct{}

func (fullDisk) Error() string  { return "no space left" }
func (fullDisk) Remedy() string { return "make room" }

func full(int) answer { return answer{err: fullDisk{}} }

func TestSignalIsForwardedAndASecondOneKills(t *testing.T) {
	virtual(t, func(t *testing.T, b *bed) {
		b.ignores = true
		go func() {
			time.Sleep(time.Second)
			b.signals <- syscall.SIGUSR1
			time.Sleep(time.Second)
			b.signals <- syscall.SIGTERM
			time.Sleep(time.Second)
			b.signals <- syscall.SIGINT
		}()
		result := b.ends(Ran, "0s claim", "0s start", "1s user defined signal 1", "2s terminated", "3s KILL", "3s finish stopped 137")
		if result.Signal != syscall.SIGINT {
			t.Errorf("signal %v, want the one received last", result.Signal)
		}
	})
}

func TestForwardedSignalStartsNoDeadlineOfItsOwn(t *testing.T) {
	virtual(t, func(t *testing.T, b *bed) {
		b.ignores, b.duration = true, 8*time.Second
		time.AfterFunc(time.Second, func() { b.signals <- syscall.SIGTERM })
		b.ends(Ran, "0s claim", "0s start", "1s terminated", "5s renew", "5s extend to 19.7s", "8s finish stopped 0")
	})
}

func TestReloadAndDumpAreNotAStop(t *testing.T) {
	virtual(t, func(t *testing.T, b *bed) {
		b.ignores, b.duration, b.request.KillAfter = true, 4*time.Second, time.Second
		time.AfterFunc(time.Second, func() { b.signals <- syscall.SIGHUP; b.signals <- syscall.SIGQUIT })
		b.ends(Ran, "0s claim", "0s start", "1s hangup", "1s quit", "4s finish done 0")
	})
}

func TestDeathByHangupIsAStop(t *testing.T) {
	virtual(t, func(t *testing.T, b *bed) {
		time.AfterFunc(time.Second, func() { b.signals <- syscall.SIGHUP })
		b.ends(Ran, "0s claim", "0s start", "1s hangup", "1s finish stopped 129")
	})
}

// The guardian has told the command to end, on its own clock, just before a renewal was answered.
func TestTermOfTheGuardianCannotBeTakenBack(t *testing.T) {
	virtual(t, func(t *testing.T, b *bed) {
		b.duration = 12 * time.Second // a command that cleans up on SIGTERM and exits with 0
		time.AfterFunc(10990*time.Millisecond, func() {
			b.mu.Lock()
			defer b.mu.Unlock()
			b.events <- lifeline.Event{Kind: lifeline.Terminated}
		})
		b.renewal = func(int) answer { return answer{dropRequest: b.now() < 10980*time.Millisecond} }
		wantEnding(t, b.run(), LeaseLost)
		if last := b.log[len(b.log)-1]; last != "12s finish lost 0" {
			t.Errorf("ended with %q", last)
		}
	})
}

// This process was stopped across the deadline: its first look is at the clock, whatever else has arrived.
func TestDeadlineComesBeforeAReply(t *testing.T) {
	virtual(t, func(t *testing.T, b *bed) {
		b.ignores = true
		b.renewal = func(n int) answer {
			if n < 100 { // then Go's own clock goes on, and ends a run that would not
				b.clock.suspend(7 * time.Second) // 12 s: past SIGTERM, before SIGKILL
			}
			return answer{}
		}
		wantEnding(t, b.run(), LeaseLost)
	})
}

func TestGuardianIsLostWhileItStartsTheCommand(t *testing.T) {
	virtual(t, func(t *testing.T, b *bed) {
		b.startErr = lifeline.ErrGuardian
		b.lives(true) // whether the command runs is not known
		b.loseGuardian(time.Second)
		b.ends(TreeLost, "0s claim", "1s finish lost 0")
	})
}
