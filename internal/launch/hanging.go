package launch

import (
	"context"
	"errors"
	"runtime"
	"sync"
	"time"

	"github.com/leaderrun/leaderrun/internal/cli"
	"github.com/leaderrun/leaderrun/internal/panics"
	"github.com/leaderrun/leaderrun/internal/supervise"
)

var errSilent = errors.New("the file system does not answer")

// aside calls f on another thread than the first one of the process. If a signal comes for a process, Linux wakes the first thread, even
// if that is held up in a call that a signal does not interrupt (complete_signal in kernel/signal.c). Then no other thread sees the signal.
func aside(f func()) {
	runtime.LockOSThread() // else f may go on here after its first call
	defer runtime.UnlockOSThread()
	if !isFirstThread() {
		f()
		return
	}
	done := make(chan struct{})
	panics.Go(func() {
		defer close(done)
		aside(f)
	})
	<-done
}

// beside begins to call f on another thread, and returns what its result comes through.
func beside(f func() error) <-chan error {
	done := make(chan error, 1)
	panics.Go(func() { aside(func() { done <- f() }) })
	return done
}

// within calls f beside, and returns errSilent if that takes longer than the limit. Then nothing of what f sets may be used.
func within(limit time.Duration, f func() error) error {
	done := beside(f)
	timer := time.NewTimer(limit)
	defer timer.Stop()
	select {
	case err := <-done:
		return err
	case <-timer.C:
		return errSilent
	}
}

// Beforehand calls f before anybody listens to signals. If one that ends a program comes before f has returned, it returns errSilent: the
// command, a certificate or the file of jobs may lie where no answer comes. After an error nothing of what f sets may be used.
func Beforehand(c *cli.Call, f func() error) error {
	done := beside(f)
	for {
		select {
		case err := <-done:
			return err
		case sig := <-c.Signals:
			if supervise.EndsRun(sig) {
				c.Interrupt(sig)
				return errSilent
			}
		}
	}
}

// EndedAtOnce makes a command end with the first signal that ends a program, whatever it reads or works on: for one that leaves nothing
// half done when it is killed.
func EndedAtOnce(run func(*cli.Call) (cli.ExitStatus, error)) func(*cli.Call) (cli.ExitStatus, error) {
	return func(c *cli.Call) (cli.ExitStatus, error) {
		var end cli.ExitStatus
		err := Beforehand(c, func() (err error) {
			end, err = run(c)
			return err
		})
		if c.Interrupted() != 0 {
			return cli.ExitStatus{}, err
		}
		return end, err
	}
}

// hangable makes calls that a file system may hold up for ever, as one of a server that is gone. Each such call keeps a thread, so
// there is one at a time for each thing that is asked about, however often it is asked. The zero value is ready.
type hangable struct {
	mu    sync.Mutex
	under map[any]chan struct{} // calls under way, by what they are about; closed at their end
}

// Call calls f, after an earlier call about the same has returned. It returns errSilent when the limit is over, or why ctx has ended:
// then f may still be running, or is never called. what is comparable.
func (h *hangable) Call(ctx context.Context, limit time.Duration, what any, f func()) error {
	ctx, cancel := context.WithTimeoutCause(ctx, limit, errSilent)
	defer cancel()
	for {
		over, mine := h.begin(what)
		if mine {
			panics.Go(func() {
				defer h.end(what)
				aside(f)
			})
		}
		select {
		case <-over:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
		if mine {
			return nil
		}
	}
}

// begin returns what is closed at the end of the call about something, and whether the caller is to make that call.
func (h *hangable) begin(what any) (over chan struct{}, mine bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if over = h.under[what]; over != nil {
		return over, false
	}
	if h.under == nil {
		h.under = map[any]chan struct{}{}
	}
	over = make(chan struct{})
	h.under[what] = over
	return over, true
}

func (h *hangable) end(what any) {
	h.mu.Lock()
	defer h.mu.Unlock()
	close(h.under[what])
	delete(h.under, what)
}
