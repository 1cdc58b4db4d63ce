package runner

import (
	"testing"
	"time"

	"github.com/leaderrun/leaderrun/backends"
)

// A job that is kept for another host is as good as run by it: it is waited for by --wait alone, as long as that lasts.
func TestReservedIsWaitedForByWaitAlone(t *testing.T) {
	reserved := backends.Refusal{Verdict: backends.Reserved, Token: 3, Holder: backends.Holder{Host: "web1"}}
	virtual(t, func(t *testing.T, b *bed) {
		b.freeAt(time.Hour, reserved)
		result := b.run()
		wantEnding(t, result, Refused)
		b.expect("0s claim")
	})
	virtual(t, func(t *testing.T, b *bed) {
		b.request.Wait = 10 * time.Second
		b.freeAt(time.Hour, reserved)
		wantEnding(t, b.run(), WaitOver)
		b.expect("0s claim", "10s claim")
	})
	virtual(t, func(t *testing.T, b *bed) {
		b.request.Wait, b.duration = Forever, time.Second
		b.freeAt(time.Hour, reserved)
		wantEnding(t, b.run(), Ran)
		b.expect("0s claim", "1h0m0s claim", "1h0m0s start", "1h0m1s finish done 0")
	})
	virtual(t, func(t *testing.T, b *bed) { // an operator gave it free
		b.request.Wait, b.duration = Forever, time.Second
		b.news = make(chan backends.News)
		b.freeAt(7*time.Second, backends.Refusal{Verdict: backends.Reserved, Token: 3})
		acquire := b.acquire
		b.acquire = func(n int, c backends.Claim) (backends.Grant, error) {
			g, err := acquire(n, c)
			if r, ok := err.(*backends.Refusal); ok { //nolint:errorlint // it is never wrapped here
				r.Wait = time.Hour
			}
			return g, err
		}
		time.AfterFunc(7*time.Second, func() { b.news <- backends.News{Look: true} })
		wantEnding(t, b.run(), Ran)
		b.expect("0s claim", "7s claim", "7s start", "8s finish done 0")
	})
}

func TestTheClaimSaysForHowLongTheJobIsKept(t *testing.T) {
	virtual(t, func(t *testing.T, b *bed) {
		b.request.MinHold, b.duration = time.Minute, time.Second
		wantEnding(t, b.run(), Ran)
		if got := b.claims[0].MinHold; got != time.Minute {
			t.Errorf("the claim asks for %v", got)
		}
	})
}

// Who is not to be preferred comes a moment later, to whatever makes a job free, but not later than its patience.
func TestYield(t *testing.T) {
	held := backends.Refusal{Verdict: backends.Held, Token: 3}
	yields := func(b *bed) { b.request.Wait, b.request.Yield, b.duration = Forever, time.Second, time.Second }
	t.Run("a free job", func(t *testing.T) {
		virtual(t, func(t *testing.T, b *bed) {
			yields(b)
			b.request.Wait = 0
			wantEnding(t, b.run(), Ran)
			b.expect("1s claim", "1s start", "2s finish done 0")
		})
	})
	t.Run("a lease that runs out", func(t *testing.T) {
		virtual(t, func(t *testing.T, b *bed) {
			yields(b)
			b.freeAt(30*time.Second, held)
			wantEnding(t, b.run(), Ran)
			b.expect("1s claim", "31s claim", "31s start", "32s finish done 0")
		})
	})
	t.Run("a lease that is released", func(t *testing.T) {
		virtual(t, func(t *testing.T, b *bed) {
			yields(b)
			b.news = make(chan backends.News)
			b.freeAt(7*time.Second, held)
			acquire := b.acquire
			b.acquire = func(n int, c backends.Claim) (backends.Grant, error) {
				g, err := acquire(n, c)
				if r, ok := err.(*backends.Refusal); ok { //nolint:errorlint // it is never wrapped here
					r.Wait = time.Hour
				}
				return g, err
			}
			time.AfterFunc(7*time.Second, func() { b.news <- backends.News{Look: true} })
			time.AfterFunc(7500*time.Millisecond, func() { b.news <- backends.News{Look: true} }) // more news put nothing off
			wantEnding(t, b.run(), Ran)
			b.expect("1s claim", "8s claim", "8s start", "9s finish done 0")
		})
	})
	t.Run("a holder that vanished", func(t *testing.T) {
		virtual(t, func(t *testing.T, b *bed) {
			yields(b)
			b.request.Wait = 0
			b.freeAt(30*time.Second, backends.Refusal{Verdict: backends.Vanished, Token: 3})
			wantEnding(t, b.run(), Ran)
			b.expect("1s claim", "31s claim", "31s start", "32s finish done 0")
		})
	})
	t.Run("and patience", func(t *testing.T) {
		virtual(t, func(t *testing.T, b *bed) {
			yields(b)
			b.request.Wait = 10 * time.Second
			b.freeAt(time.Hour, held)
			wantEnding(t, b.run(), WaitOver)
			b.expect("1s claim", "11s claim")
		})
	})
}
