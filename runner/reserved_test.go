package runner

import (
	"testing"
	"time"

	"github.com/leaderrun/leaderrun/backends"
)

// A job that is kept for another host is as good as run by it: it is waited for by --wait alone, as long as that lasts.
func TestReservedIsWaitedForByWaitAlone(t *testing.T) {
	for wait, want := range map[time.Duration][]string{
		0:       {"0s claim"},
		Forever: {"0s claim", "1h0m0s claim", "1h0m0s start", "1h0m1s finish done 0"},
	} {
		virtual(t, func(t *testing.T, b *bed) {
			b.request.Wait, b.duration = wait, time.Second
			b.freeAt(time.Hour, backends.Refusal{Verdict: backends.Reserved, Token: 3, Holder: backends.Holder{Host: "web1"}})
			b.ends(map[time.Duration]Ending{0: Refused, Forever: Ran}[wait], want...)
		})
	}
}

// Who is not to be preferred comes a moment later, to whatever makes a job free, but not later than its patience.
func TestYield(t *testing.T) {
	for name, c := range map[string]struct {
		wait, free time.Duration
		verdict    backends.Verdict
		want       Ending
		log        []string
	}{
		"a free job":             {0, 0, "", Ran, []string{"1s claim", "1s start", "2s finish done 0"}},
		"a lease that runs out":  {Forever, 30 * time.Second, backends.Held, Ran, []string{"1s claim", "31s claim", "31s start", "32s finish done 0"}},
		"a holder that vanished": {0, 30 * time.Second, backends.Vanished, Ran, []string{"1s claim", "31s claim", "31s start", "32s finish done 0"}},
		"and patience":           {10 * time.Second, time.Hour, backends.Held, WaitOver, []string{"1s claim", "11s claim"}},
	} {
		virtualRun(t, name, func(t *testing.T, b *bed) {
			b.request.Wait, b.request.Yield, b.duration = c.wait, time.Second, time.Second
			b.freeAt(c.free, backends.Refusal{Verdict: c.verdict, Token: 3})
			b.ends(c.want, c.log...)
		})
	}
	virtualRun(t, "a lease that is released", func(t *testing.T, b *bed) {
		b.request.Wait, b.request.Yield, b.duration = Forever, time.Second, time.Second
		b.news = make(chan backends.News)
		b.acquire = func(int, backends.Claim) (backends.Grant, error) {
			if b.now() < 7*time.Second {
				return backends.Grant{}, &backends.Refusal{Verdict: backends.Held, Token: 3, Wait: time.Hour}
			}
			return backends.Grant{}, nil
		}
		time.AfterFunc(7*time.Second, func() { b.news <- backends.News{Look: true} })
		time.AfterFunc(7500*time.Millisecond, func() { b.news <- backends.News{Look: true} }) // more news put nothing off
		b.ends(Ran, "1s claim", "8s claim", "8s start", "9s finish done 0")
	})
}
