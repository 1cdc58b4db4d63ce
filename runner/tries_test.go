package runner

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/leaderrun/leaderrun/backends"
	"github.com/leaderrun/leaderrun/internal/lifeline"
)

// fails makes every start of the command end with one code after another, the last one again and again.
func (b *bed) fails(after time.Duration, codes ...int) {
	b.each = func(n int) {
		b.duration, b.code = after, codes[min(n, len(codes))-1]
	}
}

// starts returns how often the command was started.
func (b *bed) starts() int {
	b.mu.Lock()
	defer b.mu.Unlock()
	n := 0
	for _, entry := range b.log {
		var at string
		if _, err := fmt.Sscanf(entry, "%s start", &at); err == nil {
			n++
		}
	}
	return n
}

func TestFailedCommandRunsAgainUnderTheSameLease(t *testing.T) {
	virtual(t, func(t *testing.T, b *bed) {
		b.request.Retries, b.request.RetryDelay = 5, 3*time.Second
		var tokens []int64
		b.request.Env = func(g backends.Grant) []string { tokens = append(tokens, g.Token); return nil }
		b.fails(1500*time.Millisecond, 3, 4, 0)
		result := b.ends(Ran, "0s claim", "0s start", "4.5s start", "5s renew", "5s extend to 19.7s", "9s start",
			"10s renew", "10s extend to 24.7s", "10.5s finish done 0")
		if !slices.Equal(tokens, []int64{7, 7, 7}) || result.Status.ExitCode() != 0 {
			t.Errorf("tokens %v, status %v", tokens, result.Status)
		}
		told := b.toldAs(EventRetrying)
		if len(told) != 2 || told[1].Fields[0].Value.Int64() != 3 {
			t.Errorf("told of the tries: %v", told)
		}
	})
}

func TestTimeoutIsOfEachTry(t *testing.T) {
	virtual(t, func(t *testing.T, b *bed) {
		b.ignores = true
		b.request.Retries, b.request.RetryDelay = 1, time.Second
		b.request.Timeout, b.request.KillAfter = 2*time.Second, time.Second
		b.ends(TimedOut, "0s claim", "0s start", "2s terminated", "3s KILL", "4s start", "5s renew", "5s extend to 19.7s",
			"6s terminated", "7s KILL", "7s finish failed 137")
		// Whoever hears that the run is being stopped may think that nothing follows.
		if len(b.toldAs(EventTimedOut)) != 1 || len(b.toldAs(EventStopping)) != 1 {
			t.Errorf("told %v", b.told)
		}
	})
	virtualRun(t, "and a try in time makes up for it", func(t *testing.T, b *bed) {
		b.request.Retries, b.request.Timeout = 1, 2*time.Second
		b.each = func(n int) { b.duration = time.Duration(3-n) * 1500 * time.Millisecond }
		b.ends(Ran, "0s claim", "0s start", "2s terminated", "2s start", "3.5s finish done 0")
	})
}

func TestDeathByASignalOfItsOwnIsAFailure(t *testing.T) {
	virtual(t, func(t *testing.T, b *bed) {
		b.request.Retries = 1
		time.AfterFunc(time.Second, func() { b.die(lifeline.Status{Known: true, Signal: syscall.SIGSEGV}) })
		b.each = func(n int) { b.duration = time.Duration(n-1) * time.Second }
		b.ends(Ran, "0s claim", "0s start", "1s start", "2s finish done 0")
	})
}

// What the command left behind may still write: it is dead before the next try begins.
func TestNoTryBeginsBeforeTheTreeIsDead(t *testing.T) {
	virtual(t, func(t *testing.T, b *bed) {
		b.request.Retries, b.lingers = 1, 2*time.Second
		b.fails(time.Second, 1, 0)
		b.ends(Ran, "0s claim", "0s start", "3s start", "4s finish done 0")
	})
}

// A run that was ended from outside is over, whatever code its command ended with.
func TestRunThatWasEndedIsNotTriedAgain(t *testing.T) {
	for name, c := range map[string]struct {
		prepare func(b *bed)
		want    Ending
	}{
		"by a signal": {func(b *bed) { time.AfterFunc(time.Second, func() { b.signals <- syscall.SIGTERM }) }, Ran},
		"by a hangup": {func(b *bed) { time.AfterFunc(time.Second, func() { b.signals <- syscall.SIGHUP }) }, Ran},
		"by the loss of its lease": {func(b *bed) {
			b.renewal = func(int) answer { b.lease = "somebody else"; return answer{} }
		}, LeaseLost},
		"for want of renewal":         {func(b *bed) { b.renewal = silent }, LeaseLost},
		"by an operator":              {func(b *bed) { b.asked = &backends.BreakRequest{Token: 7} }, Broken},
		"by the loss of its guardian": {func(b *bed) { b.loseGuardian(time.Second) }, TreeLost},
		"by our caller":               {func(b *bed) { b.cancelled(time.Second) }, Ran},
		"by an operator, in the pause": {func(b *bed) {
			b.fails(time.Second, 3)
			b.asked = &backends.BreakRequest{Token: 7}
		}, Broken},
		"by our caller, in the pause": {func(b *bed) {
			b.fails(time.Second, 3)
			b.cancelled(2 * time.Second)
		}, Ran},
		"by our caller, while the timeout ends it": {func(b *bed) {
			b.ignores, b.request.Timeout, b.request.KillAfter = true, time.Second, 2*time.Second
			b.cancelled(2 * time.Second)
		}, TimedOut},
		"by an operator, while the timeout ends it": {func(b *bed) {
			b.asked = &backends.BreakRequest{Token: 7}
			b.ignores, b.request.Timeout, b.request.KillAfter = true, 4*time.Second, 2*time.Second
		}, TimedOut},
	} {
		virtualRun(t, name, func(t *testing.T, b *bed) {
			b.request.Retries = 9
			if strings.HasSuffix(name, "in the pause") {
				b.request.RetryDelay = time.Minute
			}
			c.prepare(b)
			wantEnding(t, b.run(), c.want)
			if n := b.starts(); n != 1 {
				t.Errorf("%d starts: %q", n, b.log)
			}
		})
	}
}

func TestLossInThePause(t *testing.T) {
	for name, c := range map[string]struct {
		prepare func(b *bed)
		at      time.Duration
	}{
		"by the store's word":  {func(b *bed) { b.renewal = func(int) answer { b.lease = "another"; return answer{} } }, 5 * time.Second},
		"for want of renewal":  {func(b *bed) { b.renewal = func(int) answer { return answer{err: errRefused} } }, 11 * time.Second},
		"in a machine's sleep": {func(b *bed) { time.AfterFunc(2*time.Second, func() { b.clock.suspend(time.Minute) }) }, 62 * time.Second},
	} {
		virtualRun(t, name, func(t *testing.T, b *bed) {
			b.request.Retries, b.request.RetryDelay = 1, 30*time.Second
			b.fails(time.Second, 3)
			c.prepare(b)
			wantEnding(t, b.run(), LeaseLost)
			if last := b.log[len(b.log)-1]; last != fmt.Sprintf("%v finish lost 3", c.at) || b.starts() != 1 {
				t.Errorf("ended with %q: %q", last, b.log)
			}
		})
	}
}

// The pause is over at a time when the lease is about to run out: it is renewed first.
func TestNextTryNeedsAFreshLease(t *testing.T) {
	virtual(t, func(t *testing.T, b *bed) {
		b.request.Retries, b.request.RetryDelay = 1, 8*time.Second
		b.fails(time.Second, 1, 0)
		b.renewal = func(int) answer {
			if b.now() < 9400*time.Millisecond {
				return answer{err: errRefused}
			}
			return answer{}
		}
		wantEnding(t, b.run(), Ran)
		i := slices.Index(b.log, "9.75s extend to 24.45s")
		if i < 0 || b.log[i+1] != "9.75s start" || b.starts() != 2 {
			t.Errorf("%q", b.log)
		}
	})
}

func TestSignalInThePause(t *testing.T) {
	for _, sig := range []syscall.Signal{syscall.SIGTERM, syscall.SIGINT, syscall.SIGHUP, syscall.SIGQUIT} {
		virtualRun(t, "ends the run as if the next try had died of "+sig.String(), func(t *testing.T, b *bed) {
			b.request.Retries, b.request.RetryDelay = 1, time.Minute
			b.fails(time.Second, 3)
			time.AfterFunc(2*time.Second, func() { b.signals <- syscall.SIGUSR1; b.signals <- sig })
			result := b.comesTo(Ran)
			if result.Signal != sig || result.Status.Signal != sig {
				t.Errorf("signal %v, status %v", result.Signal, result.Status)
			}
			b.expect("0s claim", "0s start", fmt.Sprintf("2s finish stopped %d", 128+int(sig)))
		})
	}
	t.Run("is not lost at its end", func(t *testing.T) {
		for range 20 { // what of all that has arrived is looked at first is left to chance
			virtual(t, func(t *testing.T, b *bed) {
				b.request.Retries = 1
				b.fails(time.Second, 3)
				b.on = func(event string) {
					if event == EventExited {
						b.mu.Lock() // its death is told, too
						defer b.mu.Unlock()
						b.signals <- syscall.SIGTERM
					}
				}
				wantEnding(t, b.run(), Ran)
				if b.starts() != 1 || b.finished[0].State != backends.Stopped {
					t.Fatalf("%q", b.log)
				}
			})
		}
	})
	virtualRun(t, "that is for the command alone does not end it", func(t *testing.T, b *bed) {
		b.request.Retries, b.request.RetryDelay = 1, 2*time.Second
		b.fails(time.Second, 3, 0)
		time.AfterFunc(2*time.Second, func() { b.signals <- syscall.SIGUSR1 })
		b.ends(Ran, "0s claim", "0s start", "3s start", "4s finish done 0")
	})
}

// coded is an error that knows the exit code.
type coded int

func (c coded) Error() string { return fmt.Sprintf("code %d", int(c)) }
func (c coded) ExitCode() int { return int(c) }

// A tick whose command has run is not open for others, although its next try could not be started.
func TestTryThatCannotBeStartedIsAnOutcome(t *testing.T) {
	for err, want := range map[error]string{
		fmt.Errorf("start: %w", coded(127)): "1s finish failed 127",
		errors.New("no memory"):             "1s finish failed 126",
	} {
		virtualRun(t, want, func(t *testing.T, b *bed) {
			b.request.Retries, b.request.Trigger = 3, backends.Trigger{Tick: 1000}
			b.each = func(n int) {
				b.duration, b.code = time.Second, 3
				if n == 2 {
					b.startErr = err
				}
			}
			result := b.comesTo(StartFailed)
			if !errors.Is(result.Err, err) || !result.Status.Known {
				t.Errorf("error %v, status %v", result.Err, result.Status)
			}
			b.expect("0s claim", "0s start", want)
		})
	}
	virtualRun(t, "unless the lease was too old for it", func(t *testing.T, b *bed) {
		b.request.Retries = 3
		b.each = func(n int) {
			b.duration, b.code = time.Second, 3
			if n == 2 {
				b.clock.suspend(12 * time.Second)
				b.startErr = errors.New("too late")
			}
		}
		b.ends(LeaseLost, "0s claim", "0s start", "13s finish lost 3")
	})
}

func TestEventsTellHowLongItTook(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBed(t)
		b.duration = 7 * time.Second
		b.acquire = func(n int, _ backends.Claim) (backends.Grant, error) {
			time.Sleep(time.Second)
			if n == 1 {
				return backends.Grant{}, errRefused
			}
			return backends.Grant{}, nil
		}
		b.renewal = func(int) answer { return answer{back: 500 * time.Millisecond} }
		wantEnding(t, b.run(), Ran)
		for name, want := range map[string]Event{
			EventAcquired: {Took: 2 * time.Second},
			EventRenewed:  {Took: 500 * time.Millisecond, Left: 14700*time.Millisecond - 5500*time.Millisecond},
			EventExited:   {Took: 7 * time.Second},
		} {
			told := b.toldAs(name)
			if len(told) != 1 || told[0].Took != want.Took || told[0].Left != want.Left {
				t.Errorf("%s: %+v, want %v and %v", name, told, want.Took, want.Left)
			}
		}
	})
}
