package runner

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/leaderrun/leaderrun/backends"
)

var errEnough = errors.New("enough")

// notWantedAfter makes the bed's run unwanted some time after it began.
func (b *bed) notWantedAfter(d time.Duration) {
	wanted, enough := context.WithCancelCause(b.ctx)
	b.request.Wanted = wanted //nolint:fatcontext // one request, made once
	time.AfterFunc(d, func() { enough(errEnough) })
}

func wantEnough(t *testing.T, r Result) {
	t.Helper()
	wantEnding(t, r, Interrupted)
	if !errors.Is(r.Err, errEnough) {
		t.Errorf("error %v, want %v", r.Err, errEnough)
	}
}

func TestNotWantedEndsAWait(t *testing.T) {
	virtual(t, func(t *testing.T, b *bed) {
		b.rerun()
		b.another(b.request.Trigger.Tick)
		b.notWantedAfter(3 * time.Second)
		wantEnough(t, b.run())
		b.expect("0s claim")
	})
}

func TestNotWantedLeavesACommandAlone(t *testing.T) {
	virtual(t, func(t *testing.T, b *bed) {
		b.request.Retries = 1
		b.fails(time.Second, 3, 0)
		b.notWantedAfter(500 * time.Millisecond)
		b.ends(Ran, "0s claim", "0s start", "1s start", "2s finish done 0")
	})
}

// Hazard: a daemon that drains starts the command, only to stop it, and the tick counts as stopped.
func TestNotWantedBetweenClaimAndStart(t *testing.T) {
	virtual(t, func(t *testing.T, b *bed) {
		b.duration = time.Second
		wanted, enough := context.WithCancelCause(b.ctx)
		b.request.Wanted = wanted //nolint:fatcontext // one request, made once
		b.on = func(event string) {
			if event == EventAcquired {
				enough(errEnough)
			}
		}
		wantEnough(t, b.run())
		b.expect("0s claim", "0s abandon")
	})
}

// Hazard: a daemon that drains claims a tick, only to give it back, and another host passes it over because it is held.
func TestNotWantedFromTheBeginningClaimsNothing(t *testing.T) {
	virtual(t, func(t *testing.T, b *bed) {
		b.notWantedAfter(0)
		time.Sleep(time.Second)
		wantEnough(t, b.run())
		b.expect()
	})
	virtual(t, func(t *testing.T, b *bed) {
		ctx, cancel := context.WithCancelCause(b.ctx)
		cancel(errEnough)
		b.ctx = ctx
		wantEnough(t, b.run())
		b.expect()
	})
}

// The same where the pause before the next claim is over when that is heard of.
func TestNotWantedAtTheEndOfAPauseClaimsNothing(t *testing.T) {
	for range 20 { // which of the two is looked at first must not be left to chance
		virtual(t, func(t *testing.T, b *bed) {
			b.request.Wait = Forever
			b.freeAt(2*time.Second, backends.Refusal{Verdict: backends.Held, Token: 6})
			b.notWantedAfter(3 * time.Second)
			b.on = func(name string) {
				if name == EventStandby { // this process was stopped
					time.Sleep(time.Hour)
				}
			}
			wantEnough(t, b.run())
			b.expect("0s claim")
		})
	}
}
