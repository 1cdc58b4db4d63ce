package runner

import (
	"context"
	"fmt"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/leaderrun/leaderrun/backends"
)

func TestLeaseIsKeptUntilWhatTheCommandLeftBehindIsDead(t *testing.T) {
	virtual(t, func(t *testing.T, b *bed) {
		b.duration, b.lingers = 4*time.Second, 3*time.Second
		wantEnding(t, b.run(), Ran)
		b.expect("0s claim", "0s start", "5s renew", "5s extend to 19.7s", "7s finish done 0")
	})
}

// What the command did is known: only what it left behind is killed.
func TestGuardianIsLostAfterTheTimeout(t *testing.T) {
	virtual(t, func(t *testing.T, b *bed) {
		b.ignores, b.request.Timeout, b.request.KillAfter = true, time.Second, time.Second
		b.lingers, b.unguarded = time.Second, true
		wantEnding(t, b.run(), TimedOut)
		b.expect("0s claim", "0s start", "1s terminated", "2s KILL", "3s finish failed 137")
	})
}

// A command that has ended has its outcome, whatever happens while what it left behind is being ended.
func TestOutcomeStandsWhileLeftoversAreEnded(t *testing.T) {
	for name, disturb := range map[string]func(b *bed){
		"a timeout": func(b *bed) { b.request.Timeout = 2 * time.Second },
		"a signal":  func(b *bed) { time.AfterFunc(2*time.Second, func() { b.signals <- syscall.SIGTERM }) },
		"a break":   func(b *bed) { b.asked, b.lingers = &backends.BreakRequest{Token: 7}, 6*time.Second },
		"our caller": func(b *bed) {
			var cancel context.CancelFunc
			b.ctx, cancel = context.WithCancel(b.ctx)
			time.AfterFunc(2*time.Second, cancel)
		},
		"the loss of the guardian": func(b *bed) { b.unguarded = true },
	} {
		for _, code := range []int{0, 3} {
			t.Run(fmt.Sprint(name, code), func(t *testing.T) {
				virtual(t, func(t *testing.T, b *bed) {
					b.duration, b.code, b.lingers = time.Second, code, 3*time.Second
					disturb(b)
					result := b.run()
					wantEnding(t, result, Ran)
					if result.Err != nil || result.Status.ExitCode() != code {
						t.Errorf("%+v", result)
					}
					want := map[int]string{0: "done 0", 3: "failed 3"}[code]
					if last := b.log[len(b.log)-1]; !strings.HasSuffix(last, "finish "+want) || b.starts() != 1 {
						t.Errorf("not recorded as %s: %q", want, b.log)
					}
				})
			})
		}
	}
}

// Where another try was to follow, the run ends as it would in the pause before that.
func TestRunIsEndedBeforeItsNextTryWhileLeftoversAreEnded(t *testing.T) {
	for name, test := range map[string]struct {
		disturb func(b *bed)
		want    Ending
	}{
		"by a signal":    {func(b *bed) { time.AfterFunc(2*time.Second, func() { b.signals <- syscall.SIGTERM }) }, Ran},
		"by an operator": {func(b *bed) { b.asked, b.lingers = &backends.BreakRequest{Token: 7}, 6*time.Second }, Broken},
		"by our caller": {func(b *bed) {
			var cancel context.CancelFunc
			b.ctx, cancel = context.WithCancel(b.ctx)
			time.AfterFunc(2*time.Second, cancel)
		}, Ran},
	} {
		t.Run(name, func(t *testing.T) {
			virtual(t, func(t *testing.T, b *bed) {
				b.request.Retries, b.lingers = 1, 3*time.Second
				b.fails(time.Second, 3, 0)
				test.disturb(b)
				wantEnding(t, b.run(), test.want)
				if last := b.log[len(b.log)-1]; !strings.HasSuffix(last, "finish stopped 3") || b.starts() != 1 {
					t.Errorf("%q", b.log)
				}
			})
		})
	}
}
