package s3fence

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/leaderrun/leaderrun/fence"
	"github.com/leaderrun/leaderrun/internal/remedy"
)

const (
	// tries is how often a request is sent that gets no answer: for about five seconds if the failures are quick.
	tries = 8
	// collisions is how often the write of another may be the first: each time somebody gets on, if not we.
	collisions = 50
	// deciding is how long all requests for the pointer may take that belong to one call. Without it a server that is silent
	// would be given its minute of silence with each try.
	deciding = 2 * time.Minute
)

// swap replaces the pointer in one step, which fails if it is another one by then than was seen.
//
// After every failure the pointer is looked at before anything is sent again: what failed may have been carried out, or be under way.
// That goes for a refusal, too: a proxy may have sent the request twice.
type swap struct {
	object *Object
	run    fence.Run
	data   pointer // that is to be named; the zero value: the fence is only raised
	seen   state   // what is to be replaced

	sent    int  // how often it was sent to replace what was seen
	unclear bool // and once at least no answer came
	met     int  // how often the write of another came first
	spent   bool // the data may have been named, and be deleted by now: it must not be named again
}

// outcome is what a swap has led to.
type outcome struct {
	replaced pointer // that was there before, where the swap was done
	// unnamed says that no pointer names the data of the swap and none ever will. Only what was seen proves it, never an error.
	unnamed bool
}

// errSpent says that another write was first, and that the data has to be uploaded again under another key.
var errSpent = errors.New("others of this run write all the time")

func (s *swap) do(ctx context.Context) (outcome, error) {
	for {
		if err := s.mayWrite(); err != nil {
			return outcome{unnamed: true}, err
		}
		if err := pause(ctx, max(s.sent, s.met)); err != nil {
			return outcome{unnamed: s.sent == 0}, s.failed(err)
		}
		content, err := s.next().content(s.object.Key)
		if err != nil {
			return outcome{unnamed: s.sent == 0}, err
		}
		err = s.object.Store.Put(ctx, s.object.Key, content, s.seen.condition())
		if err == nil {
			return outcome{replaced: s.seen.pointer}, nil
		}
		s.sent++
		s.unclear = s.unclear || !isRefusal(err)
		if isSetup(err) && !s.unclear {
			return outcome{}, err
		}
		found, lookErr := s.object.look(ctx)
		if lookErr != nil {
			return outcome{}, s.notKnown(lookErr)
		}
		if end, over, err := s.judge(found, err); over {
			return end, err
		}
	}
}

// mayWrite says whether what was seen may be replaced, and is asked before each write. What it refuses is new: nothing that was sent waits
// for it.
func (s *swap) mayWrite() error {
	if err := s.object.overtaken(s.run, s.seen); err != nil {
		return err
	}
	switch {
	case !s.seen.exists && !s.raises():
		return errVanished()
	case s.spent:
		return errSpent
	case s.met > collisions:
		return errors.New("others write all the time")
	}
	return nil
}

// next is the pointer that is to be written. The nonce makes it another one than all others.
func (s *swap) next() pointer {
	p := s.data
	p.Previous = s.seen.pointer.Data
	if s.raises() {
		p = s.seen.pointer
	}
	p.Format, p.Nonce, p.Resource = pointerFormat, newNonce(), s.object.Resource
	p.Token, p.Job, p.Tick, p.Once = s.run.Token, s.run.Job, s.run.Tick, s.run.Once
	return p
}

func (s *swap) raises() bool { return s.data.Data == "" }

// judge decides what comes after a write that has failed.
func (s *swap) judge(found state, err error) (end outcome, over bool, _ error) {
	switch fateOf(s.seen, found, s.run, s.data.Data) {
	case done:
		return outcome{replaced: s.seen.pointer}, true, nil
	case mayCome:
		return outcome{}, s.sent == tries, s.failed(err)
	case mayHaveCome:
		switch {
		case s.unclear && !found.exists: // it may be brought back, and name our data
			return outcome{}, true, s.notKnown(errVanished())
		case s.unclear:
			return outcome{unnamed: true}, true, s.notKnown(errors.New("others have written since"))
		}
		s.spent = true
	case never:
	}
	s.seen, s.sent, s.unclear = found, 0, false
	s.met++
	return outcome{}, false, nil
}

// failed is the error of a swap that is given up while nobody has changed what was seen.
func (s *swap) failed(err error) error {
	switch {
	case s.unclear:
		return s.notKnown(err)
	case errors.Is(err, ErrCondition):
		return unchecked("what the server tells of the object is not what it compares")
	}
	return err
}

// ErrUnclear is among the errors after which it is not known whether it was written: it was sent, and no answer came.
var ErrUnclear = errors.New("it is not known whether it was written")

// notKnown is the error of a write that may have been done, or may be done yet. It is no SetupError: that says that nothing was written.
// A fence that may have been raised is only raised again.
func (s *swap) notKnown(err error) error {
	switch {
	case s.raises():
		return err
	case isSetup(err):
		return fmt.Errorf("%w: %s", ErrUnclear, err.Error())
	}
	return fmt.Errorf("%w: %w", ErrUnclear, err)
}

func errVanished() error {
	return remedy.Misconfigured("the key holds the fence: let nobody delete it", "somebody has deleted the key since this run raised the fence")
}

// limited is a context for the requests of one call that are about the pointer.
func limited(ctx context.Context) (context.Context, context.CancelFunc) {
	return context.WithTimeoutCause(ctx, deciding, fmt.Errorf("the server was too slow: %v for a few small requests", deciding))
}

// again does something that does no harm if it is done twice, until it is clear what became of it.
func again(ctx context.Context, do func() error) (err error) {
	for try := range tries {
		if err := pause(ctx, try); err != nil {
			return err
		}
		err = do()
		final := errors.Is(err, ErrNotFound) || errors.Is(err, ErrCondition)
		if err == nil || final || isSetup(err) || ctx.Err() != nil {
			return err
		}
	}
	return err
}

func isSetup(err error) bool {
	_, ok := errors.AsType[*fence.SetupError](err)
	return ok
}

// pause is before a try: none before the first, and longer each time, so that many who collide do not go on colliding.
func pause(ctx context.Context, try int) error {
	if try < 1 || ctx.Err() != nil {
		return context.Cause(ctx)
	}
	longest := min(50*time.Millisecond<<min(try, 6), 2*time.Second)
	timer := time.NewTimer(longest/2 + rand.N(longest/2))
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-timer.C:
		return nil
	}
}
