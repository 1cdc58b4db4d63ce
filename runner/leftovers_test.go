package runner

import (
	"fmt"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/leaderrun/leaderrun/backends"
	"github.com/leaderrun/leaderrun/internal/lifeline"
)

// What the command did is known: only what it left behind is killed.
func TestGuardianIsLostAfterTheTimeout(t *testing.T) {
	virtual(t, func(t *testing.T, b *bed) {
		b.ignores, b.request.Timeout, b.request.KillAfter = true, time.Second, time.Second
		b.lingers, b.unguarded = time.Second, true
		b.ends(TimedOut, "0s claim", "0s start", "1s terminated", "2s KILL", "3s finish failed 137")
	})
}

// A command that has ended has its outcome, whatever happens while what it left behind is being ended.
func TestOutcomeStandsWhileLeftoversAreEnded(t *testing.T) {
	for name, disturb := range disturbances {
		for _, code := range []int{0, 3} {
			virtualRun(t, fmt.Sprint(name, code), func(t *testing.T, b *bed) {
				b.duration, b.code, b.lingers = time.Second, code, 3*time.Second
				disturb(b)
				result := b.comesTo(Ran)
				if result.Err != nil || result.Status.ExitCode() != code {
					t.Errorf("%+v", result)
				}
				want := map[int]string{0: "done 0", 3: "failed 3"}[code]
				if last := b.log[len(b.log)-1]; !strings.HasSuffix(last, "finish "+want) || b.starts() != 1 {
					t.Errorf("not recorded as %s: %q", want, b.log)
				}
			})
		}
	}
}

// What ends a run between the end of its command and the death of what that left behind, at 2 s or with a renewal.
var disturbances = map[string]func(b *bed){
	"a timeout":                func(b *bed) { b.request.Timeout = 2 * time.Second },
	"a signal":                 func(b *bed) { time.AfterFunc(2*time.Second, func() { b.signals <- syscall.SIGTERM }) },
	"a hangup":                 func(b *bed) { time.AfterFunc(2*time.Second, func() { b.signals <- syscall.SIGHUP }) },
	"a break":                  func(b *bed) { b.asked, b.lingers = &backends.BreakRequest{Token: 7}, 6*time.Second },
	"our caller":               func(b *bed) { b.cancelled(2 * time.Second) },
	"the loss of the guardian": func(b *bed) { b.unguarded = true },
}

// Where another try was to follow, the run ends as it would in the pause before that, also after a timeout.
func TestRunIsEndedBeforeItsNextTryWhileLeftoversAreEnded(t *testing.T) {
	for name, want := range map[string]struct {
		ending          Ending
		failed, timeout string // how it is recorded after a try that failed with 3, and after one that took too long
	}{
		"a signal":                 {Ran, "stopped 143", "stopped 143"},
		"a hangup":                 {Ran, "stopped 129", "stopped 129"},
		"a break":                  {Broken, "stopped 3", "stopped 143"},
		"our caller":               {Ran, "stopped 3", "stopped 143"},
		"the loss of the guardian": {Ran, "failed 3", "failed 143"},
	} {
		for late, finish := range map[bool]string{false: want.failed, true: want.timeout} {
			virtualRun(t, fmt.Sprintf("%s, timeout: %v", name, late), func(t *testing.T, b *bed) {
				b.request.Retries, b.lingers = 1, 3*time.Second
				ending := want.ending
				if late {
					b.request.Timeout = time.Second
					if b.duration = time.Hour; name == "the loss of the guardian" {
						ending = TimedOut
					}
				} else {
					b.fails(time.Second, 3, 0)
				}
				disturbances[name](b)
				wantEnding(t, b.run(), ending)
				if last := b.log[len(b.log)-1]; !strings.HasSuffix(last, "finish "+finish) || b.starts() != 1 {
					t.Errorf("want %s: %q", finish, b.log)
				}
			})
		}
	}
}

// The lease must outlive all of the run: a command that has ended well is lost if what it left behind has none.
func TestLeaseIsLostWhileLeftoversAreEnded(t *testing.T) {
	for name, lose := range map[string]func(b *bed){
		"by the store's word": func(b *bed) { b.renewal = func(int) answer { b.lease = "somebody else"; return answer{} } },
		"for want of renewal": func(b *bed) { b.renewal = silent },
		"by the guardian's clock": func(b *bed) {
			time.AfterFunc(2*time.Second, func() { b.events <- lifeline.Event{Kind: lifeline.Terminated} })
		},
	} {
		virtualRun(t, name, func(t *testing.T, b *bed) {
			b.duration, b.lingers, b.request.Retries = time.Second, 12*time.Second, 1
			lose(b)
			wantEnding(t, b.run(), LeaseLost)
			if last := b.log[len(b.log)-1]; last != "13s finish lost 0" {
				t.Errorf("%q", b.log)
			}
		})
	}
}

// A signal that reaches command and wrapper at the same time comes before the end that it brings.
func TestSignalThatArrivesWithTheEndStopsTheRun(t *testing.T) {
	for range 20 { // what of all that has arrived is looked at first is left to chance
		virtual(t, func(t *testing.T, b *bed) {
			b.on = func(event string) {
				if event == EventRenewed { // the runner looks at neither before both are there
					b.die(lifeline.Status{Known: true, Code: 130})
					b.signals <- syscall.SIGTERM
				}
			}
			result := b.comesTo(Ran)
			if result.Status.Code != 130 || b.finished[0].State != backends.Stopped {
				t.Fatalf("%+v: %q", result, b.log)
			}
		})
	}
}

// A command that heeds SIGTERM and ends with 0 has failed all the same where the timeout had sent it.
func TestTimedOutTryThatEndsWellIsTriedAgain(t *testing.T) {
	for _, lingers := range []time.Duration{0, 2 * time.Second} {
		virtual(t, func(t *testing.T, b *bed) {
			b.traps, b.request.Timeout, b.request.Retries, b.lingers = true, time.Second, 1, lingers
			wantEnding(t, b.run(), TimedOut)
			if last := b.log[len(b.log)-1]; !strings.HasSuffix(last, "finish failed 0") || b.starts() != 2 {
				t.Errorf("%q", b.log)
			}
		})
	}
}

// Signals after the one that has ended the run change nothing but how soon it is over: the second SIGTERM or SIGINT kills.
func TestSignalsWhileLeftoversAreEnded(t *testing.T) {
	for _, test := range []struct {
		signals []syscall.Signal
		kills   bool
	}{
		{[]syscall.Signal{syscall.SIGTERM, syscall.SIGHUP}, false},
		{[]syscall.Signal{syscall.SIGHUP, syscall.SIGTERM}, false},
		{[]syscall.Signal{syscall.SIGTERM, syscall.SIGTERM}, true},
		{[]syscall.Signal{syscall.SIGINT, syscall.SIGTERM}, true},
	} {
		virtualRun(t, fmt.Sprint(test.signals), func(t *testing.T, b *bed) {
			b.request.Retries, b.lingers = 1, 3*time.Second
			b.fails(time.Second, 3, 0)
			time.AfterFunc(2*time.Second, func() {
				for _, sig := range test.signals {
					b.signals <- sig
				}
			})
			result := b.comesTo(Ran)
			first := test.signals[0]
			if result.Signal != first || result.Status.Signal != first || b.finished[0].State != backends.Stopped {
				t.Errorf("%+v: %q", result, b.log)
			}
			if killed := slices.Contains(b.log, "2s KILL"); killed != test.kills {
				t.Errorf("%q", b.log)
			}
		})
	}
}

// Which signal a run ended by does not hang on what else has come, before or after.
func TestSignalThatEndedTheRun(t *testing.T) {
	virtualRun(t, "after one that was for a reload", func(t *testing.T, b *bed) {
		b.lingers = 3 * time.Second
		b.on = func(event string) {
			switch event {
			case EventRenewed:
				b.die(lifeline.Status{Known: true, Signal: syscall.SIGTERM})
			case EventExited: // the wrapper hears of it a moment later
				b.signals <- syscall.SIGTERM
			}
		}
		b.ignores = true
		time.AfterFunc(time.Second, func() { b.signals <- syscall.SIGHUP })
		result := b.comesTo(Ran)
		if result.Signal != syscall.SIGTERM || b.finished[0].State != backends.Stopped {
			t.Errorf("%+v: %q", result, b.log)
		}
	})
	virtualRun(t, "in the grace of a timeout", func(t *testing.T, b *bed) {
		b.request.Timeout, b.request.Retries, b.ignores = time.Second, 1, true
		time.AfterFunc(2*time.Second, func() {
			b.signals <- syscall.SIGHUP
			time.Sleep(time.Millisecond)
			b.die(lifeline.Status{Known: true, Signal: syscall.SIGHUP})
		})
		result := b.comesTo(Ran)
		if result.Signal != syscall.SIGHUP || b.starts() != 1 || b.finished[0].State != backends.Stopped {
			t.Errorf("%+v: %q", result, b.log)
		}
	})
}

// Hazard: the guardian kills what the command left behind, by itself and ahead of the deadline, so that its wrapper is patient
// with it; then the store says that somebody else may have the lease.
func TestLossIsToldToAGuardianThatKills(t *testing.T) {
	virtual(t, func(t *testing.T, b *bed) {
		b.duration, b.lingers = time.Second, 6*time.Second
		time.AfterFunc(3*time.Second, func() {
			b.mu.Lock()
			defer b.mu.Unlock()
			b.events <- lifeline.Event{Kind: lifeline.Unconfirmed, Count: 1}
			b.lease = "somebody else"
		})
		b.ends(LeaseLost, "0s claim", "0s start", "5s renew", "5s KILL at once", "7s finish lost 0")
	})
}
