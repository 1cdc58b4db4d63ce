package runner

import (
	"errors"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/leaderrun/leaderrun/backends"
)

// asker asks whether the run leads, and keeps the answers.
type asker struct {
	*bed
	checks  chan Check
	wg      sync.WaitGroup
	mu      sync.Mutex
	answers []answered
}

// answered is an answer, and when it came.
type answered struct {
	Standing
	at time.Duration
}

func (b *bed) asks() *asker {
	a := &asker{bed: b, checks: make(chan Check)}
	b.request.Checks = a.checks
	return a
}

// after asks once, some time from now.
func (a *asker) after(d time.Duration) {
	a.wg.Go(func() {
		time.Sleep(d)
		c := make(chan Standing, 1)
		a.checks <- Check{Answer: c}
		standing := <-c
		a.mu.Lock()
		defer a.mu.Unlock()
		a.answers = append(a.answers, answered{standing, a.now()})
	})
}

// run returns when everybody has an answer: who has none when the run is over hangs, and the test fails.
func (a *asker) run() Result {
	result := a.bed.run()
	a.wg.Wait()
	return result
}

func (a *asker) expect(want ...answered) {
	a.t.Helper()
	if len(a.answers) != len(want) {
		a.t.Fatalf("answers %v, want %v", a.answers, want)
	}
	for i, w := range want {
		got := a.answers[i]
		if got.Leading != w.Leading || got.Left != w.Left || got.at != w.at || !errors.Is(got.Err, w.Err) {
			a.t.Errorf("answer %d: %+v, want %+v", i, got, w)
		}
	}
}

func yes(at, left time.Duration) answered { return answered{Standing{Leading: true, Left: left}, at} }

func no(at time.Duration, err error) answered {
	return answered{Standing{Err: err}, at}
}

const whole = 14700 * time.Millisecond // the validity of a lease of 15 s

// The answer to a request that was under way when somebody asked may be older than the question.
func TestCheckIsNotAnsweredByAnEarlierRenewal(t *testing.T) {
	virtual(t, func(t *testing.T, b *bed) {
		a := b.asks()
		b.duration = 9 * time.Second
		b.renewal = func(n int) answer { return answer{back: time.Second + time.Duration(n-1)*200*time.Millisecond} }
		a.after(5500 * time.Millisecond)
		wantEnding(t, a.run(), Ran)
		b.expect("0s claim", "0s start", "5s renew", "5.5s renew", "6s extend to 19.7s", "6.7s extend to 20.2s", "9s finish done 0")
		a.expect(yes(6700*time.Millisecond, 5500*time.Millisecond+whole-6700*time.Millisecond))
	})
}

func TestManyChecksShareARenewal(t *testing.T) {
	virtual(t, func(t *testing.T, b *bed) {
		a := b.asks()
		b.duration = 4 * time.Second
		for i := range 100 {
			a.after(2*time.Second + time.Duration(i)*time.Millisecond)
		}
		wantEnding(t, a.run(), Ran)
		b.expect("0s claim", "0s start", "2s renew", "2s extend to 16.7s", "2.1s renew", "2.1s extend to 16.8s", "4s finish done 0")
		if len(a.answers) != 100 || slices.ContainsFunc(a.answers, func(x answered) bool { return !x.Leading }) {
			t.Errorf("answers %v", a.answers)
		}
	})
}

func TestCheckLearnsOfALoss(t *testing.T) {
	virtual(t, func(t *testing.T, b *bed) {
		a := b.asks()
		b.ignores = true
		b.renewal = func(int) answer { b.lease = "somebody else"; return answer{} }
		a.after(2 * time.Second)
		wantEnding(t, a.run(), LeaseLost)
		b.expect("0s claim", "0s start", "2s renew", "2s KILL at once", "2s finish lost 137")
		a.expect(no(2*time.Second, backends.ErrLost))
	})
}

func TestCheckWithoutAnAnswer(t *testing.T) {
	virtual(t, func(t *testing.T, b *bed) {
		a := b.asks()
		b.duration = 5500 * time.Millisecond
		b.renewal = func(int) answer { return answer{dropRequest: b.now() < 4900*time.Millisecond} }
		a.after(2 * time.Second)
		wantEnding(t, a.run(), Ran)
		// A second one goes out beside the silent one. The renewal that is due at 5 s is not put off.
		b.expect("0s claim", "0s start", "2s renew", "3.25s renew", "4.5s renew", "5.5s finish done 0")
		if len(a.answers) != 1 || a.answers[0].Leading || a.answers[0].at != 4500*time.Millisecond {
			t.Errorf("answers %v", a.answers)
		}
	})
}

func TestCheckWhileTheRunIsBeingStopped(t *testing.T) {
	virtualRun(t, "for want of renewal is no", func(t *testing.T, b *bed) {
		a := b.asks()
		b.ignores = true
		b.renewal = func(int) answer { return answer{dropRequest: b.now() < 11*time.Second} }
		a.after(12 * time.Second)
		wantEnding(t, a.run(), LeaseLost)
		a.expect(no(12*time.Second, errGivenUp))
	})
	virtualRun(t, "for another reason is yes: the lease is ours until the end", func(t *testing.T, b *bed) {
		a := b.asks()
		b.ignores, b.duration = true, 4*time.Second
		time.AfterFunc(time.Second, func() { b.signals <- syscall.SIGTERM })
		a.after(2 * time.Second)
		wantEnding(t, a.run(), Ran)
		a.expect(yes(2*time.Second, whole))
	})
}

func TestNoAskerIsLeftWaiting(t *testing.T) {
	virtualRun(t, "when the run ends", func(t *testing.T, b *bed) {
		a := b.asks()
		b.duration, b.renewal = 3*time.Second, silent
		a.after(2 * time.Second)
		wantEnding(t, a.run(), Ran)
		a.expect(no(3*time.Second, errOver))
	})
	virtualRun(t, "while the end is recorded", func(t *testing.T, b *bed) {
		a := b.asks()
		b.duration = time.Second
		b.finish = func(int) answer { return answer{back: 2 * time.Second} }
		a.after(2 * time.Second)
		wantEnding(t, a.run(), Ran)
		a.expect(no(2*time.Second, errOver))
	})
	virtualRun(t, "before there is a run", func(t *testing.T, b *bed) {
		a := b.asks()
		b.request.Wait, b.duration = Forever, time.Second
		b.freeAt(30*time.Second, backends.Refusal{Verdict: backends.Held, Token: 3})
		a.after(2 * time.Second)
		wantEnding(t, a.run(), Ran)
		a.expect(no(2*time.Second, errNotHeld))
	})
	virtualRun(t, "when nobody asks any more", func(t *testing.T, b *bed) {
		a := b.asks()
		b.duration = time.Second
		close(a.checks)
		wantEnding(t, a.run(), Ran)
		b.expect("0s claim", "0s start", "1s finish done 0")
	})
}

func TestCheckInThePause(t *testing.T) {
	virtual(t, func(t *testing.T, b *bed) {
		a := b.asks()
		b.request.Retries, b.request.RetryDelay = 1, 3*time.Second
		b.fails(time.Second, 1, 0)
		a.after(2 * time.Second)
		wantEnding(t, a.run(), Ran)
		b.expect("0s claim", "0s start", "2s renew", "2s extend to 16.7s", "4s start", "5s finish done 0")
		a.expect(yes(2*time.Second, whole))
	})
}

// Hazard: who asks is told where the backend is and what it says, and may be another user than the one whose run it is.
func TestAnswersDoNotTellWhatTheBackendSays(t *testing.T) {
	said := errors.New("dial tcp 10.9.8.7:6379: WRONGPASS of user leaderrun")
	for name, failure := range map[string]error{"silent": said, "refuses": backends.Denied("", said)} {
		virtualRun(t, name, func(t *testing.T, b *bed) {
			a := b.asks()
			b.duration = 5500 * time.Millisecond
			b.renewal = func(int) answer { return answer{err: failure} }
			a.after(2 * time.Second)
			a.run()
			if len(a.answers) != 1 || a.answers[0].Leading || !errors.Is(a.answers[0].Cause, said) {
				t.Fatalf("answers %v", a.answers)
			}
			if why := a.answers[0].Err; why == nil || strings.Contains(why.Error(), "10.9.8.7") || strings.Contains(why.Error(), "WRONGPASS") {
				t.Errorf("the answer says %v", why)
			}
		})
	}
}
