package supervise

import (
	"time"

	"github.com/leaderrun/leaderrun/internal/boottime"
	"github.com/leaderrun/leaderrun/internal/panics"
)

// Pending is a guardian that is being started. It may be used by several goroutines.
type Pending struct {
	guard *Guard
	ready chan struct{} // closed when guard waits for Start, or err is set
	err   error
}

// Begin begins to start a guardian, and returns at once: a file system that does not answer may hold up the start for ever. The
// guardian warms up while a claim is in flight. This process becomes the parent of every orphan below it (PR_SET_CHILD_SUBREAPER).
func Begin(options Options) *Pending {
	p := &Pending{guard: newGuard(options), ready: make(chan struct{})}
	panics.Go(func() {
		defer close(p.ready)
		p.err = p.guard.prepare()
		if options.Forked != nil {
			options.Forked()
		}
	})
	return p
}

// By waits for the guardian until an instant. It returns the guardian, which the caller must Close, or why there is none. One that
// does not come in time is given up for good (ErrTooLate): if it is being forked it is killed, and if it comes later it is sent away.
func (p *Pending) By(end boottime.Instant) (*Guard, error) {
	if p.guard.givenUp.Load() {
		return nil, ErrTooLate
	}
	select {
	case <-p.ready:
		return p.result()
	default:
	}
	timer, err := boottime.NewTimer()
	if err != nil {
		p.giveUp()
		return nil, err
	}
	defer timer.Stop()
	timer.Set(end)
	for {
		select {
		case <-p.ready:
			return p.result()
		case <-timer.C():
			if boottime.Now() >= end {
				p.giveUp()
				return nil, ErrTooLate
			}
		}
	}
}

func (p *Pending) result() (*Guard, error) {
	if p.err != nil {
		return nil, p.err
	}
	return p.guard, nil
}

// killAgain is how soon a start that was given up is looked at again.
const killAgain = 100 * time.Millisecond

func (p *Pending) giveUp() {
	guards.giveUp(p.guard)
	panics.Go(func() {
		again := time.NewTicker(killAgain)
		defer again.Stop()
		for {
			select {
			case <-again.C: // it may have been about to be forked
				guards.giveUp(p.guard)
			case <-p.ready:
				if p.err == nil {
					_ = p.guard.Close()
				}
				return
			}
		}
	})
}
