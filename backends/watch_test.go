package backends

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"
)

// breaks is a store whose watches stand and break after a while, as often as it is asked.
type breaks struct {
	lasts func(n int) time.Duration // of the n-th watch, from 1 on
	fails func(n int) error         // what it breaks with
	began []time.Time
	ended []time.Time
}

func (b *breaks) follow(ctx context.Context, tell func(News)) error {
	b.began = append(b.began, time.Now())
	tell(News{Look: true})
	n := len(b.began)
	if b.lasts != nil {
		select {
		case <-time.After(b.lasts(n)):
		case <-ctx.Done():
		}
	}
	b.ended = append(b.ended, time.Now())
	if b.fails != nil {
		return b.fails(n)
	}
	return errors.New("connection lost")
}

// drained counts what is told until the channel is closed.
func drained(ch <-chan News) <-chan int {
	looks := make(chan int)
	go func() {
		n := 0
		for range ch {
			n++
		}
		looks <- n
	}()
	return looks
}

func rewatch(t *testing.T, ctx, life context.Context, b *breaks) <-chan int { //nolint:revive // the test is first everywhere
	t.Helper()
	ch, err := Rewatch(ctx, life, b.follow)
	if err != nil {
		t.Fatal(err)
	}
	return drained(ch)
}

// TestRewatchPausesLonger: a proxy that lets a watch stand and hangs up at once must not make each waiter claim
// several times a second, without end.
func TestRewatchPausesLonger(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		const an = time.Minute
		ctx, cancel := context.WithTimeout(t.Context(), an)
		defer cancel()
		b := &breaks{lasts: func(int) time.Duration { return 10 * time.Millisecond }}
		looks := <-rewatch(t, ctx, t.Context(), b)
		// Five pauses up to 3.2 s, of which each is at least half as long, and then some of 5 s, of which the same holds.
		if most := 2 + 5 + int(an/(longPause/2)); looks > most || looks < int(an/longPause) {
			t.Errorf("told %d times in %v, want up to %d", looks, an, most)
		}
		for i := 1; i < len(b.began); i++ {
			pause := min(shortPause<<(i-1), longPause)
			if got := b.began[i].Sub(b.ended[i-1]); got < pause/2 || got >= pause {
				t.Errorf("pause %d lasts %v, want %v to %v", i, got, pause/2, pause)
			}
		}
	})
}

// TestRewatchEnds: where no retry helps, and with its context or its driver, in the middle of a watch or of a pause.
func TestRewatchEnds(t *testing.T) {
	t.Parallel()
	forever := func(int) time.Duration { return 1000 * time.Hour }
	for name, c := range map[string]struct {
		store   breaks
		cancel  bool // the context ends
		close   bool // the driver is closed
		watches int
	}{
		"a permanent error": {breaks{fails: func(n int) error {
			if n < 3 {
				return errors.New("connection lost")
			}
			return errors.Join(errors.New("watch"), &PermanentError{Kind: Credentials, Err: errors.New("no right")})
		}}, false, false, 3},
		"its context, during a watch":  {breaks{lasts: forever}, true, false, 1},
		"its context, during a pause":  {breaks{}, true, false, 2},
		"its driver, during a watch":   {breaks{lasts: forever}, false, true, 1},
		"its driver, during a pause":   {breaks{}, false, true, 2},
		"both, the watch says nothing": {breaks{lasts: forever, fails: func(int) error { return nil }}, true, true, 1},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
				defer cancel()
				life, end := context.WithCancel(t.Context())
				defer end()
				looks := rewatch(t, ctx, life, &c.store)
				synctest.Wait()
				if c.cancel || c.close {
					time.Sleep(shortPause + 1) // the second watch has begun, and its pause not ended
					synctest.Wait()
				}
				if c.cancel {
					cancel()
				}
				if c.close {
					end()
				}
				began := time.Now()
				<-looks
				if (c.cancel || c.close) && time.Since(began) != 0 {
					t.Errorf("ends after %v", time.Since(began))
				}
				if got := len(c.store.began); got != c.watches {
					t.Errorf("%d watches, want %d", got, c.watches)
				}
			})
		})
	}
}

// TestRewatchTooLate: nobody begins with a context that has ended, and says why.
func TestRewatchTooLate(t *testing.T) {
	t.Parallel()
	why := errors.New("why")
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(why)
	b := &breaks{}
	if ch, err := Rewatch(ctx, t.Context(), b.follow); ch != nil || !errors.Is(err, why) || len(b.began) != 0 {
		t.Errorf("%v, %v, %d watches", ch, err, len(b.began))
	}
	life, end := context.WithCancel(t.Context())
	end()
	ch, err := Rewatch(t.Context(), life, b.follow)
	if err != nil {
		t.Fatal(err)
	}
	if n := <-drained(ch); n != 0 || len(b.began) != 0 {
		t.Errorf("the driver is closed: told %d times, %d watches", n, len(b.began))
	}
}

// TestDuring: what is on its way ends with its caller's context, or with the driver, and leaves nothing behind in it.
func TestDuring(t *testing.T) {
	t.Parallel()
	for name, ends := range map[string]func(cancel, end, done context.CancelFunc){
		"the caller":  func(cancel, _, _ context.CancelFunc) { cancel() },
		"the driver":  func(_, end, _ context.CancelFunc) { end() },
		"the request": func(_, _, done context.CancelFunc) { done() },
	} {
		synctest.Test(t, func(t *testing.T) {
			caller, cancel := context.WithCancel(t.Context())
			defer cancel()
			life, end := context.WithCancel(t.Context())
			defer end()
			ctx, done := During(caller, life)
			defer done()
			synctest.Wait()
			if ctx.Err() != nil {
				t.Errorf("%s: it has ended before", name)
			}
			ends(cancel, end, done)
			synctest.Wait()
			if ctx.Err() == nil {
				t.Errorf("%s: it has not ended", name)
			}
			if name == "the request" && (caller.Err() != nil || life.Err() != nil) {
				t.Errorf("it took its caller with it (%v), or the driver (%v)", caller.Err(), life.Err())
			}
		})
	}
	life, end := context.WithCancel(t.Context())
	end()
	ctx, done := During(t.Context(), life)
	defer done()
	if ctx.Err() == nil {
		t.Error("a request of a driver that was closed goes out")
	}
}
