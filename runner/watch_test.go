package runner

import (
	"slices"
	"testing"
	"time"

	"github.com/leaderrun/leaderrun/backends"
)

// A store that proves death by silence: the standby must know the last beat, and from when on it was the last.
func TestStandbyCountsFromTheLastBeatItWasTold(t *testing.T) {
	virtual(t, func(t *testing.T, b *bed) {
		b.request.Wait, b.duration = Forever, time.Second
		b.news = make(chan backends.News)
		var claims []backends.LastSeen
		b.acquire = func(_ int, c backends.Claim) (backends.Grant, error) {
			claims = append(claims, c.Seen)
			if len(claims) < 4 {
				return backends.Grant{}, &backends.Refusal{
					Verdict: backends.Held, Token: 3, Wait: time.Hour, Seen: backends.LastSeen{Token: 3, Beat: 7},
				}
			}
			return backends.Grant{}, nil
		}
		go func() {
			tell := func(at time.Duration, n backends.News) {
				time.Sleep(at - b.now())
				b.news <- n
			}
			tell(2*time.Second, backends.News{Seen: backends.LastSeen{Token: 3, Beat: 8}})
			tell(5*time.Second, backends.News{Seen: backends.LastSeen{Token: 3, Beat: 8}}) // the same again
			tell(6*time.Second, backends.News{Look: true})
			tell(7*time.Second, backends.News{Seen: backends.LastSeen{Token: 2, Beat: 9}}) // an older one
			tell(9*time.Second, backends.News{Look: true})
			tell(11*time.Second, backends.News{Seen: backends.LastSeen{Token: 4, Beat: 1}, Look: true})
		}()
		wantEnding(t, b.run(), Ran)
		want := []backends.LastSeen{
			{},
			{Token: 3, Beat: 8, For: 4 * time.Second},
			{Token: 2, Beat: 9, For: 2 * time.Second}, // fits no record: nothing is proved
			{Token: 4, Beat: 1},                       // the refusal at 9 s showed beat 7, the news at 11 s another token
		}
		if !slices.Equal(claims, want) {
			t.Errorf("claims with evidence %v, want %v", claims, want)
		}
	})
}

func TestHolderWatchesItsLease(t *testing.T) {
	start := func(b *bed) {
		b.watches, b.news = true, make(chan backends.News, 1)
	}
	virtualRun(t, "and is killed as soon as it is gone", func(t *testing.T, b *bed) {
		start(b)
		time.AfterFunc(7*time.Second, func() {
			b.mu.Lock()
			b.lease = ""
			b.mu.Unlock()
			b.news <- backends.News{Look: true}
		})
		b.ends(LeaseLost, "0s claim", "0s start", "5s renew", "5s extend to 19.7s", "7s renew", "7s KILL at once", "7s finish lost 137")
	})
	virtualRun(t, "from its first second on, and renews for no other news", func(t *testing.T, b *bed) {
		start(b)
		b.duration = 4 * time.Second
		b.news <- backends.News{Look: true}
		time.AfterFunc(3*time.Second, func() { b.news <- backends.News{Seen: backends.LastSeen{Token: 7, Beat: 2}} })
		b.ends(Ran, "0s claim", "0s start", "1s renew", "1s extend to 15.7s", "4s finish done 0")
	})
	virtualRun(t, "and asks again when a renewal was under way", func(t *testing.T, b *bed) {
		start(b)
		b.duration = 9 * time.Second
		b.renewal = func(n int) answer {
			if n == 1 {
				return answer{back: time.Second}
			}
			return answer{}
		}
		time.AfterFunc(5500*time.Millisecond, func() { b.news <- backends.News{Look: true} })
		b.ends(Ran, "0s claim", "0s start", "5s renew", "6s extend to 19.7s", "6s renew", "6s extend to 20.7s", "9s finish done 0")
	})
	virtualRun(t, "but not more often than is good for the store", func(t *testing.T, b *bed) {
		start(b)
		b.duration = 4 * time.Second
		time.AfterFunc(3*time.Second, func() { b.news <- backends.News{Look: true} })
		time.AfterFunc(3*time.Second+10*time.Millisecond, func() { b.news <- backends.News{Look: true} })
		b.ends(Ran, "0s claim", "0s start", "3s renew", "3s extend to 17.7s", "3.1s renew", "3.1s extend to 17.8s", "4s finish done 0")
	})
	virtualRun(t, "and does without where the watch breaks", func(t *testing.T, b *bed) {
		b.watches, b.duration = true, 12*time.Second // there is no watch
		b.ends(Ran, "0s claim", "0s start",
			"5s renew", "5s extend to 19.7s", "10s renew", "10s extend to 24.7s", "12s finish done 0")
	})
}

func TestNewsMergesWhatNobodyHasReceived(t *testing.T) {
	c := make(chan backends.News, 1)
	for _, n := range []backends.News{
		{Look: true}, {Seen: backends.LastSeen{Token: 1, Beat: 1}}, {Seen: backends.LastSeen{Token: 1, Beat: 2}}, {},
	} {
		backends.Tell(c, n)
	}
	if got, want := <-c, (backends.News{Look: true, Seen: backends.LastSeen{Token: 1, Beat: 2}}); got != want {
		t.Errorf("got %+v, want %+v", got, want)
	}
}
