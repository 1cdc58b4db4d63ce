package runner

import (
	"context"
	"errors"
	"syscall"
	"testing"
	"time"

	"github.com/leaderrun/leaderrun/backends"
	"github.com/leaderrun/leaderrun/test/suite"
)

func TestTickThatIsAboutToComeIsSleptTo(t *testing.T) {
	for name, c := range map[string]struct{ ahead, claim time.Duration }{
		"two seconds ahead":   {2 * time.Second, 2 * time.Second},
		"three seconds ahead": {3 * time.Second, 0},
		"now":                 {0, 0},
		"long ago":            {-time.Hour, 0},
	} {
		virtualRun(t, name, func(t *testing.T, b *bed) {
			b.request.Trigger = backends.Trigger{Tick: time.Now().Add(c.ahead).Unix()}
			b.acquire = func(int, backends.Claim) (backends.Grant, error) { return backends.Grant{}, errRefused }
			wantEnding(t, b.run(), Unreachable)
			if want := c.claim.String() + " claim"; b.log[0] != want {
				t.Errorf("%q, want %q", b.log[0], want)
			}
			if b.over != c.claim+5*time.Second { // patience begins with the first claim
				t.Errorf("given up at %v", b.over)
			}
		})
	}
	virtualRun(t, "unless a signal comes", func(t *testing.T, b *bed) {
		b.request.Trigger = backends.Trigger{Tick: time.Now().Add(2 * time.Second).Unix()}
		time.AfterFunc(time.Second, func() { b.signals <- syscall.SIGTERM })
		result := b.comesTo(Interrupted)
		if result.Signal != syscall.SIGTERM {
			t.Errorf("signal %v", result.Signal)
		}
		b.expect()
	})
}

// wantVerdict checks that a run was refused, and why.
func wantVerdict(t *testing.T, got Result, want backends.Verdict) {
	t.Helper()
	wantEnding(t, got, Refused)
	if got.Refusal == nil || got.Refusal.Verdict != want {
		t.Fatalf("refused: %v, want %s", got.Refusal, want)
	}
}

func TestStandbyForTheSameTickOnly(t *testing.T) {
	const tick = 1000
	for name, c := range map[string]struct {
		held int64
		ends time.Duration
		want backends.Verdict
	}{
		"leaves the run of an earlier tick alone": {tick - 60, 0, backends.Held},
		"leaves the run of a later tick alone":    {tick + 60, 0, backends.Held},
		"waits for a run of its own":              {tick, 30 * time.Second, backends.IsDone},
	} {
		virtualRun(t, name, func(t *testing.T, b *bed) {
			b.request.Wait, b.request.SameTickOnly = Forever, true
			b.request.Trigger = backends.Trigger{Tick: tick, OnLost: backends.Rerun, MaxAttempts: 3}
			b.acquire = func(int, backends.Claim) (backends.Grant, error) {
				r := &backends.Refusal{Verdict: backends.Held, Tick: c.held, Wait: 30*time.Second - b.now()}
				if r.Wait <= 0 {
					r = &backends.Refusal{Verdict: backends.IsDone, Tick: c.held}
				}
				return backends.Grant{}, r
			}
			wantVerdict(t, b.run(), c.want)
			if b.over != c.ends {
				t.Errorf("ended at %v, want %v", b.over, c.ends)
			}
		})
	}
}

// rerun makes a bed that stands by for the tick of its begin, at a store that takes the real decisions.
func (b *bed) rerun() {
	b.store = suite.NewMem(nil)
	b.request.Wait = Forever
	b.request.Trigger = backends.Trigger{Tick: time.Now().Unix(), OnLost: backends.Rerun, MaxAttempts: 3}
}

// another claims the job for another host, which never renews.
func (b *bed) another(tick int64) backends.Grant {
	b.t.Helper()
	o := b.request.Trigger
	o.Tick = tick
	c := backends.Claim{Job: "job", Holder: backends.Holder{ID: "another"}, TTL: DefaultTTL, Trigger: o}
	g, err := b.store.Acquire(context.Background(), c)
	if err != nil {
		b.t.Fatal(err)
	}
	return g
}

// unfinished leaves an earlier tick behind, whose run on another host vanished long ago.
func (b *bed) unfinished() (earlier int64) {
	b.t.Helper()
	b.rerun()
	earlier = b.request.Trigger.Tick - 600
	b.another(earlier)
	b.store.DeleteLease("job")
	b.store.Change("job", func(r *backends.Record) { r.Until = 0 })
	return earlier
}

func TestEarlierTickRunsFirst(t *testing.T) {
	virtual(t, func(t *testing.T, b *bed) {
		earlier := b.unfinished()
		b.fails(time.Second, 3, 0)
		result := b.ends(Ran, "0s claim", "0s start", "1s finish failed 3", "1s claim", "1s start", "2s finish done 0")
		if len(result.Before) != 1 {
			t.Fatalf("before: %+v", result.Before)
		}
		first, own := result.Before[0].Grant, result.Grant
		if first.Tick != earlier || first.Attempt != 2 || own.Tick != b.request.Trigger.Tick || own.Attempt != 1 {
			t.Errorf("ran %+v, then %+v", first, own)
		}
		if own.Token <= first.Token || first.Claim.Holder.ID == own.Claim.Holder.ID {
			t.Errorf("tokens %d and %d of holders %v and %v", first.Token, own.Token, first.Claim.Holder, own.Claim.Holder)
		}
		if result.Status.ExitCode() != 0 || result.Before[0].Status.ExitCode() != 3 {
			t.Errorf("the code is not that of our own tick: %v, before %v", result.Status, result.Before[0].Status)
		}
	})
}

// The store forgets the earlier run's token at once, and its clock goes back.
func TestTokenGrowsPastThatOfTheEarlierTick(t *testing.T) {
	virtual(t, func(t *testing.T, b *bed) {
		b.unfinished()
		b.duration = time.Second
		b.request.Floor = 5
		result := b.comesTo(Ran)
		if first := result.Before[0].Grant.Token; b.claims[0].Floor != 5 || b.claims[1].Floor != first {
			t.Errorf("claimed with floors %d and %d, want 5 and %d", b.claims[0].Floor, b.claims[1].Floor, first)
		}
	})
}

func TestTokenThatARefusalShowsIsAFloor(t *testing.T) {
	virtual(t, func(t *testing.T, b *bed) {
		b.request.Wait, b.duration = Forever, time.Second
		b.freeAt(30*time.Second, backends.Refusal{Verdict: backends.Held, Token: 99})
		wantEnding(t, b.run(), Ran)
		if b.claims[1].Floor != 99 {
			t.Errorf("claimed with floor %d", b.claims[1].Floor)
		}
	})
}

// TestTokenOfAnUnwantedAnswerIsAFloor: the next run of this process has it, although this one wants to know nothing any more.
func TestTokenOfAnUnwantedAnswerIsAFloor(t *testing.T) {
	for name, late := range map[string]claimAnswer{
		"grant": {grant: backends.Grant{Token: 9}}, "refusal": {err: &backends.Refusal{Verdict: backends.Held, Token: 9}},
	} {
		plan, err := NewTimeline(DefaultTTL, -1)
		if err != nil {
			t.Fatal(err)
		}
		m := newMachine(Request{Job: "job", Timeline: plan}, backends.Limits{}, "id")
		for _, in := range []input{begin{}, signal{syscall.SIGTERM}, late, releaseAnswer{}} {
			m.step(moment{now: boot, wall: time.Unix(1e9, 0)}, in)
		}
		if r, ok := m.result(); !ok || r.Floor != 9 {
			t.Errorf("%s: %+v, floor %d", name, r.Ending, r.Floor)
		}
	}
}

func TestPatienceBeginsAgainAfterTheEarlierTick(t *testing.T) {
	virtual(t, func(t *testing.T, b *bed) {
		b.unfinished()
		b.request.Wait, b.duration = 10*time.Second, 20*time.Second
		b.finish = func(int) answer { return answer{back: time.Second} } // another host is faster
		time.AfterFunc(20500*time.Millisecond, func() { b.another(b.request.Trigger.Tick) })
		wantEnding(t, b.run(), WaitOver)
		if b.over != 31*time.Second {
			t.Errorf("given up at %v, want 10 s after the earlier run", b.over)
		}
	})
}

func TestEarlierTickThatEndsOtherwiseIsTheResult(t *testing.T) {
	for name, c := range map[string]struct {
		prepare func(b *bed)
		want    Ending
	}{
		"the lease is lost": {func(b *bed) { b.renewal = silent }, LeaseLost},
		"a signal came":     {func(b *bed) { time.AfterFunc(time.Second, func() { b.signals <- syscall.SIGTERM }) }, Ran},
		"a reload was asked for": {func(b *bed) {
			b.ignores, b.duration = true, 3*time.Second
			time.AfterFunc(time.Second, func() { b.signals <- syscall.SIGHUP })
		}, Ran},
		"our caller stops it":           {func(b *bed) { b.cancelled(time.Second) }, Ran},
		"the command cannot be started": {func(b *bed) { b.startErr = errors.New("no such file") }, StartFailed},
		"its guardian dies":             {func(b *bed) { b.loseGuardian(time.Second) }, TreeLost},
		"its end is not recorded":       {func(b *bed) { b.duration, b.finish = time.Second, silent }, Unrecorded},
	} {
		virtualRun(t, name, func(t *testing.T, b *bed) {
			earlier := b.unfinished()
			c.prepare(b)
			result := b.comesTo(c.want)
			if b.counts["claim"] != 1 || result.Grant.Tick != earlier || len(result.Before) != 0 {
				t.Errorf("%q, %+v", b.log, result)
			}
		})
	}
	virtualRun(t, "but not when the timeout ended it", func(t *testing.T, b *bed) {
		b.unfinished()
		b.request.Timeout = time.Second
		b.ends(TimedOut, "0s claim", "0s start", "1s terminated", "1s finish failed 143",
			"1s claim", "1s start", "2s terminated", "2s finish failed 143")
	})
}

func TestProofThatTheRecordedScheduleIsOutOfUse(t *testing.T) {
	for name, c := range map[string]struct {
		asks  bool
		found bool
		age   time.Duration // of the instant that is found
		want  Ending
		log   []string
	}{
		"is accepted":         {true, true, 10 * time.Minute, Ran, []string{"0s claim", "0s claim", "0s start", "1s finish done 0"}},
		"is refused once":     {true, true, time.Second, Refused, []string{"0s claim", "0s claim"}},
		"does not exist":      {true, false, 0, Refused, []string{"0s claim"}},
		"is nobody's to give": {false, false, 0, Refused, []string{"0s claim"}},
	} {
		virtualRun(t, name, func(t *testing.T, b *bed) {
			b.unfinished()
			b.store.Change("job", func(r *backends.Record) {
				*r = backends.Record{
					Job: r.Job, Schedule: backends.Schedule{Fingerprint: "new"}, Former: []backends.Schedule{{Fingerprint: "old"}},
					Tick: backends.Occurrence{Tick: time.Now().Unix() - 3600, State: backends.Done},
				}
			})
			b.request.Trigger.Schedule, b.duration = backends.Schedule{Fingerprint: "old"}, time.Second
			asked := 0
			if c.asks {
				b.request.FindUnclaimed = func(r backends.Refusal) (backends.Unclaimed, bool) {
					if asked++; r.Verdict != backends.Outdated {
						t.Errorf("asked about %v", r)
					}
					return backends.Unclaimed{Fingerprint: "new", Instant: time.Now().Add(-c.age).Unix()}, c.found
				}
			}
			result := b.ends(c.want, c.log...)
			if result.Ending == Refused && result.Refusal.Verdict != backends.Outdated || c.asks && asked != 1 {
				t.Errorf("asked %d times, refused: %v", asked, result.Refusal)
			}
			if result.Ending == Ran && len(b.toldAs(EventNoted)) != 1 {
				t.Errorf("told %v", b.told)
			}
		})
	}
}
