package runner

import (
	"context"
	"os"
	"syscall"
	"testing"
	"time"

	"github.com/leaderrun/leaderrun/backends"
)

// Hazard: what has to be made ready for the command hangs, as on a disk that does not answer. The lease is not renewed
// meanwhile, and the command must not start when it comes back.
func TestWhatHangsBeforeTheStartEndsWithTheLease(t *testing.T) {
	virtual(t, func(t *testing.T, b *bed) {
		term := b.request.Timeline.Deadline(boot).Term
		b.request.Env = func(backends.Grant) []string {
			time.Sleep(10 * time.Minute)
			return nil
		}
		if r := b.run(); r.Ending != NotStarted {
			t.Errorf("%+v", r)
		}
		if b.over != term.Sub(boot) {
			t.Errorf("given up at %v, want %v", b.over, term.Sub(boot))
		}
		b.expect("0s claim", b.over.String()+" abandon")
	})
}

// The same between two tries: what the first one came to is recorded once the lease is given up.
func TestWhatHangsBeforeATryEndsWithTheLease(t *testing.T) {
	virtual(t, func(t *testing.T, b *bed) {
		b.request.Retries, b.request.RetryDelay = 1, 0
		b.duration, b.code = time.Second, 1
		starts := 0
		b.request.Env = func(backends.Grant) []string {
			if starts++; starts > 1 {
				time.Sleep(10 * time.Minute)
			}
			return nil
		}
		if r := b.run(); r.Ending != LeaseLost {
			t.Errorf("%+v", r)
		}
		if limit := b.request.Timeline.Deadline(boot.Add(time.Second)).End.Sub(boot); b.over > limit {
			t.Errorf("it took %v, want %v at most", b.over, limit)
		}
	})
}

// Whoever has asked for the end by then has nothing made ready for a start that does not come.
func TestNothingIsMadeReadyAfterASignal(t *testing.T) {
	for event, starts := range map[string]int{EventAcquired: 0, EventRetrying: 1} {
		virtualRun(t, event, func(t *testing.T, b *bed) {
			b.request.Retries = 1
			b.fails(time.Second, 3)
			b.on = func(name string) {
				if name == event {
					b.signals <- syscall.SIGTERM
				}
			}
			if r := b.run(); r.Signal != syscall.SIGTERM || len(b.trees) != starts {
				t.Errorf("%+v: %d trees were made, want %d", r, len(b.trees), starts)
			}
		})
	}
}

// toldTree knows the last deadline that its guardian was told, and when that was sent away.
type toldTree struct {
	*bedTree
	end, gone Instant
}

func (t *toldTree) Start(env []string, hold, inherit []*os.File, d Deadline) error {
	t.end = d.End
	return t.bedTree.Start(env, hold, inherit, d)
}

func (t *toldTree) Extend(d Deadline) {
	t.end = d.End
	t.bedTree.Extend(d)
}

func (t *toldTree) Close() {
	if t.gone == 0 {
		t.gone = t.clock.Now()
	}
	t.bedTree.Close()
}

// Hazard: a renewal is answered while all is made ready for the next try, so that there is more time for it; but the guardian
// before, which is being sent away, does not hear of that, and unlocks at its own last deadline what the next run shares with it.
func TestTheGuardianBeforeIsGoneBeforeItUnlocks(t *testing.T) {
	for ready, starts := range map[time.Duration]int{4 * time.Second: 2, 9 * time.Second: 1} {
		virtual(t, func(t *testing.T, b *bed) {
			b.request.Retries = 1
			b.fails(6500*time.Millisecond, 3, 0)
			b.renewal = func(int) answer { return answer{back: 2 * time.Second} } // sent at 5 s, answered at 7 s
			b.request.Env = func(backends.Grant) []string {
				if b.starts() > 0 {
					time.Sleep(ready)
				}
				return nil
			}
			var trees []*toldTree
			b.request.Tree = func() Tree {
				tree := &toldTree{bedTree: b.newTree().(*bedTree)} //nolint:forcetypeassert // the bed has no others
				trees = append(trees, tree)
				return tree
			}
			b.run()
			if before := trees[0]; b.starts() != starts || starts > 1 && before.gone >= before.end {
				t.Errorf("the guardian was told of %v and was there until %v: %q", before.end.Sub(boot), before.gone.Sub(boot), b.log)
			}
		})
	}
}

// deafBed is a store of which a driver's call does not return when its context ends.
type deafBed struct {
	*bed
	deafTo string
}

func (d *deafBed) Acquire(ctx context.Context, c backends.Claim) (backends.Grant, error) {
	if d.deafTo == "claim" {
		time.Sleep(30 * time.Minute)
	}
	return d.bed.Acquire(ctx, c)
}

func (d *deafBed) Renew(ctx context.Context, g backends.Grant) (backends.RenewAnswer, error) {
	if d.deafTo == "renewal" && d.count("deaf renewal") == 1 {
		time.Sleep(30 * time.Minute)
	}
	return d.bed.Renew(ctx, g)
}

func (d *deafBed) Finish(ctx context.Context, g backends.Grant, o backends.Outcome) error {
	if d.deafTo == "finish" {
		time.Sleep(30 * time.Minute)
	}
	return d.bed.Finish(ctx, g, o)
}

func (d *deafBed) Abandon(ctx context.Context, c backends.Claim) error {
	if d.deafTo == "claim" {
		time.Sleep(30 * time.Minute)
	}
	return d.bed.Abandon(ctx, c)
}

// Hazard: a client library does not return when it is told to. Neither the wait nor the end of a run may hang on it, nor be
// deaf to a signal.
func TestADriverThatDoesNotReturnIsLeftBehind(t *testing.T) {
	virtual(t, func(t *testing.T, b *bed) {
		b.driver = &deafBed{b, "claim"}
		if r := b.run(); r.Ending != Unreachable || b.over > b.request.BackendWait+b.request.Timeline.requestLimit()+withdrawalTime+returnTime+lastPause {
			t.Errorf("%v after %v: %v", r.Ending, b.over, r.Err)
		}
	})
	virtual(t, func(t *testing.T, b *bed) {
		b.driver = &deafBed{b, "claim"}
		time.AfterFunc(time.Second, func() { b.signals <- syscall.SIGTERM })
		if r := b.run(); r.Ending != Interrupted || b.over > time.Second+b.request.Timeline.requestLimit()+withdrawalTime+returnTime {
			t.Errorf("%v after %v: %v", r.Ending, b.over, r.Err)
		}
	})
	virtual(t, func(t *testing.T, b *bed) {
		b.driver = &deafBed{b, "finish"}
		b.duration = time.Second
		r := b.run()
		if limit := b.request.Timeline.TTL + b.request.Timeline.requestLimit() + returnTime; r.Ending != Ran || b.over > limit {
			t.Errorf("%v after %v: %v", r.Ending, b.over, r.Err)
		}
	})
	virtual(t, func(t *testing.T, b *bed) { // the store answers all but one renewal
		b.driver = &deafBed{b, "renewal"}
		b.duration = time.Minute
		if r := b.run(); r.Ending != Ran || b.over != b.duration {
			t.Errorf("%v after %v: %v, %q", r.Ending, b.over, r.Err, b.log)
		}
	})
}
