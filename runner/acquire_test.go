package runner

import (
	"context"
	"errors"
	"os"
	"slices"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/leaderrun/leaderrun/backends"
)

// cancelled has the caller end the run some time from now.
func (b *bed) cancelled(after time.Duration) {
	var cancel context.CancelFunc
	b.ctx, cancel = context.WithCancel(b.ctx)
	time.AfterFunc(after, cancel)
}

// mute never answers a claim.
type mute struct{ *bed }

func (d *mute) Acquire(ctx context.Context, _ backends.Claim) (backends.Grant, error) {
	<-ctx.Done()
	return backends.Grant{}, ctx.Err()
}

// slow answers after most of a second that the tick is too late.
type slow struct{ *bed }

func (d *slow) Acquire(ctx context.Context, _ backends.Claim) (backends.Grant, error) {
	select {
	case <-ctx.Done():
		return backends.Grant{}, ctx.Err()
	case <-time.After(900 * time.Millisecond):
		return backends.Grant{}, &backends.Refusal{Verdict: backends.Late}
	}
}

var errRefused = errors.New("connection refused")

// freeAt holds the job for somebody else until a time.
func (b *bed) freeAt(d time.Duration, r backends.Refusal) {
	b.acquire = func(int, backends.Claim) (backends.Grant, error) {
		if left := d - b.now(); left > 0 {
			r := r
			r.Wait = left
			return backends.Grant{}, &r
		}
		return backends.Grant{}, nil
	}
}

func TestStandby(t *testing.T) {
	virtualRun(t, "takes over at the expiry it saw", func(t *testing.T, b *bed) {
		b.request.Wait, b.duration = Forever, time.Second
		b.freeAt(30*time.Second, backends.Refusal{Verdict: backends.Held, Token: 3})
		b.ends(Ran, "0s claim", "30s claim", "30s start", "31s finish done 0")
	})
	virtualRun(t, "is woken by a notification", func(t *testing.T, b *bed) {
		b.request.Wait, b.duration = Forever, time.Second
		b.news = make(chan backends.News)
		var free atomic.Bool
		b.acquire = func(int, backends.Claim) (backends.Grant, error) {
			if !free.Load() {
				return backends.Grant{}, &backends.Refusal{Verdict: backends.Held, Token: 3, Wait: time.Hour}
			}
			return backends.Grant{}, nil
		}
		time.AfterFunc(7*time.Second, func() { free.Store(true); b.news <- backends.News{Look: true} })
		b.ends(Ran, "0s claim", "7s claim", "7s start", "8s finish done 0")
	})
	virtualRun(t, "gives up when its wait is over", func(t *testing.T, b *bed) {
		b.request.Wait = 10 * time.Second
		b.freeAt(time.Hour, backends.Refusal{Verdict: backends.Held, Token: 3})
		b.ends(WaitOver, "0s claim", "10s claim")
	})
	virtualRun(t, "stops at once on a signal", func(t *testing.T, b *bed) {
		b.request.Wait = Forever
		b.freeAt(time.Hour, backends.Refusal{Verdict: backends.Held, Token: 3})
		time.AfterFunc(3*time.Second, func() { b.signals <- syscall.SIGTERM })
		result := b.comesTo(Interrupted)
		if result.Signal != syscall.SIGTERM || b.over != 3*time.Second {
			t.Errorf("signal %v at %v", result.Signal, b.over)
		}
		b.expect("0s claim") // nothing unclear: nothing to abandon
	})
}

// A lease that vanished and a quarantine are waited out whatever --wait says: neither held nor unreachable.
func TestVanishedAndQuarantinedAreWaitedOut(t *testing.T) {
	for _, verdict := range []backends.Verdict{backends.Vanished, backends.Quarantined} {
		virtualRun(t, string(verdict), func(t *testing.T, b *bed) {
			b.duration, b.request.BackendWait = time.Second, time.Second
			b.freeAt(14*time.Second, backends.Refusal{Verdict: verdict, Token: 3})
			b.ends(Ran, "0s claim", "14s claim", "14s start", "15s finish done 0")
		})
	}
}

// A slow store gets a fair try after a wait that the options have no say in.
func TestPatienceBeginsAgainAfterASilentWait(t *testing.T) {
	virtual(t, func(t *testing.T, b *bed) {
		b.duration, b.request.BackendWait = time.Second, time.Second
		b.acquire = func(n int, _ backends.Claim) (backends.Grant, error) {
			switch n {
			case 1:
				return backends.Grant{}, &backends.Refusal{Verdict: backends.Quarantined, Wait: 15 * time.Second}
			case 2:
				return backends.Grant{}, errRefused
			}
			time.Sleep(900 * time.Millisecond)
			return backends.Grant{}, nil
		}
		b.ends(Ran, "0s claim", "15s claim", "15s claim", "15.9s start", "16.9s finish done 0")
	})
}

func TestStandbyPastItsStartDeadline(t *testing.T) {
	for name, c := range map[string]struct {
		held int64 // the tick of the run that holds the job
		want string
	}{
		"gives up its tick":                    {1, "1m0s"},
		"waits on for the same tick to be run": {time.Date(2000, 1, 1, 0, 0, 0, 0, time.UTC).Unix(), "10m0s"},
	} {
		virtualRun(t, name, func(t *testing.T, b *bed) { // which begins on 1 January 2000
			b.request.Wait = 10 * time.Minute
			b.request.Trigger = backends.Trigger{Tick: time.Now().Unix(), StartDeadline: time.Minute}
			b.freeAt(time.Hour, backends.Refusal{Verdict: backends.Held, Token: 3, Tick: c.held})
			b.run()
			if got := b.over.String(); got != c.want || len(b.log) > 4 {
				t.Errorf("ended after %s, want %s: %q", got, c.want, b.log)
			}
		})
	}
}

func TestStartDeadlineEndsTheSilentWait(t *testing.T) {
	virtual(t, func(t *testing.T, b *bed) {
		b.request.Trigger = backends.Trigger{Tick: time.Now().Unix(), StartDeadline: 5 * time.Second}
		b.freeAt(14*time.Second, backends.Refusal{Verdict: backends.Vanished, Token: 3})
		wantVerdict(t, b.run(), backends.Late)
	})
}

func TestUnreachableBackend(t *testing.T) {
	for name, c := range map[string]struct{ wait, deadline, over time.Duration }{
		"without a wait ends after the backend wait": {over: 5 * time.Second},
		"when the wait runs out is unreachable":      {wait: 8 * time.Second, over: 8 * time.Second},
		"never past the start deadline":              {deadline: 2 * time.Second, over: 2 * time.Second},
	} {
		virtualRun(t, name, func(t *testing.T, b *bed) {
			b.request.Wait = c.wait
			if c.deadline > 0 {
				b.request.Trigger = backends.Trigger{Tick: time.Now().Unix(), StartDeadline: c.deadline}
			}
			b.acquire = func(int, backends.Claim) (backends.Grant, error) { return backends.Grant{}, errRefused }
			result := b.comesTo(Unreachable)
			if b.over != c.over || !errors.Is(result.Err, errRefused) || b.abandoned != 1 { // a claim may still be in flight
				t.Errorf("given up at %v: %v, abandoned %d times", b.over, result.Err, b.abandoned)
			}
		})
	}
	virtualRun(t, "does not end a wait", func(t *testing.T, b *bed) {
		b.request.Wait, b.duration = Forever, time.Second
		b.acquire = func(int, backends.Claim) (backends.Grant, error) {
			if b.now() < time.Hour {
				return backends.Grant{}, errRefused
			}
			return backends.Grant{}, nil
		}
		wantEnding(t, b.run(), Ran)
	})
	virtualRun(t, "a silent one never past the start deadline", func(t *testing.T, b *bed) {
		b.request.Trigger = backends.Trigger{Tick: time.Now().Unix(), StartDeadline: 2600 * time.Millisecond}
		b.driver = &mute{b}
		wantEnding(t, b.run(), Unreachable)
		if b.over > 2600*time.Millisecond+minLook {
			t.Errorf("given up at %v", b.over)
		}
	})
	virtualRun(t, "a slow one is not silent, however late the tick is", func(t *testing.T, b *bed) {
		b.request.Trigger = backends.Trigger{Tick: time.Now().Add(-time.Hour).Unix(), StartDeadline: 10 * time.Minute}
		b.driver = &slow{b}
		wantVerdict(t, b.run(), backends.Late)
	})
}

func TestPermanentErrorIsNotRetried(t *testing.T) {
	virtual(t, func(t *testing.T, b *bed) {
		b.request.Wait = Forever
		b.acquire = func(int, backends.Claim) (backends.Grant, error) {
			return backends.Grant{}, backends.Denied("", errors.New("wrong password"))
		}
		b.ends(Permanent, "0s claim")
	})
}

func TestSignalDuringTheClaimAbandonsIt(t *testing.T) {
	virtual(t, func(t *testing.T, b *bed) {
		b.acquire = func(int, backends.Claim) (backends.Grant, error) {
			time.Sleep(time.Second)
			return backends.Grant{}, nil
		}
		b.signals <- syscall.SIGTERM
		b.ends(Interrupted, "0s claim", "1s abandon")
	})
}

func TestShortLeaseIsRenewedBeforeTheStart(t *testing.T) {
	virtual(t, func(t *testing.T, b *bed) {
		b.duration = time.Second
		b.on = func(event string) {
			if event == EventAcquired {
				b.clock.suspend(8 * time.Second)
			}
		}
		b.ends(Ran, "0s claim", "8s renew", "8s start", "9s finish done 0")
	})
}

func TestStartThatFailsReopensTheTick(t *testing.T) {
	virtual(t, func(t *testing.T, b *bed) {
		b.startErr = os.ErrPermission
		result := b.comesTo(StartFailed)
		if !errors.Is(result.Err, os.ErrPermission) {
			t.Errorf("error %v", result.Err)
		}
		b.expect("0s claim", "0s abandon")
	})
}

// The host sleeps, or a guardian does not get ready, in the moment of the start: that is no fault of the command, and whoever has
// the tick may claim it again.
func TestStartThatIsTooLateIsNoFailure(t *testing.T) {
	virtual(t, func(t *testing.T, b *bed) {
		b.each = func(int) { b.clock.suspend(12 * time.Second) }
		b.startErr = errors.New("too late")
		result := b.comesTo(NotStarted)
		if !errors.Is(result.Err, b.startErr) {
			t.Errorf("error %v", result.Err)
		}
		b.expect("0s claim", "12s abandon")
	})
}

func TestGrantedTTLIsCheckedAgain(t *testing.T) {
	virtualRun(t, "longer moves the timeline", func(t *testing.T, b *bed) {
		b.ttl, b.duration = 30*time.Second, 11*time.Second
		b.ends(Ran, "0s claim", "0s start", "10s renew", "10s extend to 39.4s", "11s finish done 0")
	})
	virtualRun(t, "too short is refused", func(t *testing.T, b *bed) {
		b.ttl = 6 * time.Second
		b.ends(Permanent, "0s claim", "0s abandon")
	})
}

// The life of another counts from after the reply that showed it first.
func TestLastSeenCountsFromTheReply(t *testing.T) {
	virtual(t, func(t *testing.T, b *bed) {
		b.duration = time.Second
		var seen []time.Duration
		b.acquire = func(n int, c backends.Claim) (backends.Grant, error) {
			seen = append(seen, c.Seen.For)
			if n == 3 {
				return backends.Grant{}, nil
			}
			time.Sleep(time.Second)
			return backends.Grant{}, &backends.Refusal{
				Verdict: backends.Vanished, Token: 3, Wait: 4 * time.Second, Seen: backends.LastSeen{Token: 3, Beat: 9},
			}
		}
		wantEnding(t, b.run(), Ran)
		if want := []time.Duration{0, 4 * time.Second, 9 * time.Second}; !slices.Equal(seen, want) {
			t.Errorf("evidence of %v, want %v", seen, want)
		}
	})
}
