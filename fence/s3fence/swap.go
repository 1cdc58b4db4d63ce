package s3fence

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/leaderrun/leaderrun/fence"
)

// tries is how often a request is sent, or a pointer written, before it is given up: for about five seconds.
const tries = 8

// change is what a run does to the pointer.
type change struct {
	mayCreate bool
	next      func(old pointer) pointer
	done      func(found pointer) bool // the pointer says that it was done
}

// swap replaces the pointer in one step, which fails if it is another one by then than was seen. It returns the one that was replaced
// and the one that is there now.
//
// A write whose answer was lost is looked for before it is sent again: it may have been carried out, or be under way. When another
// pointer is found, it cannot come any more, for the ETag that it waits for never comes again.
func (o *Object) swap(ctx context.Context, seen state, r fence.Run, c change) (before, now state, err error) {
	unclear := false // a write may still be carried out
	fail := func(err error) (state, state, error) {
		if unclear {
			err = unclearError(err)
		}
		return state{}, state{}, err
	}
	for try := 0; try < tries; try++ {
		if err = pause(ctx, try-1); err != nil {
			return fail(err)
		}
		next := c.next(seen.pointer)
		next.Format, next.Nonce, next.Resource = pointerFormat, newNonce(), o.Resource
		next.Token, next.Job, next.Tick, next.Once = r.Token, r.Job, r.Tick, r.Once
		raw, content := next.content()
		var etag string
		etag, err = o.Store.Put(ctx, o.Key, content, seen.condition())
		if err == nil {
			return seen, state{pointer: next, raw: raw, etag: etag}, nil
		}
		if isSetup(err) {
			return fail(err)
		}
		unclear = unclear || !errors.Is(err, ErrCondition) && !errors.Is(err, ErrConflict)
		found, lookErr := o.look(ctx)
		if lookErr != nil {
			return fail(lookErr)
		}
		if found.absent() != seen.absent() || found.etag != seen.etag {
			unclear = false
			try = 0 // somebody gets on, so do we
		}
		switch {
		case !found.absent() && c.done(found.pointer):
			return seen, found, nil
		case found.pointer.Token > r.Token:
			return fail(o.stale(r, found))
		case found.absent() && !c.mayCreate:
			return fail(errVanished())
		}
		seen = found
	}
	return fail(err)
}

func errVanished() error {
	return &fence.SetupError{
		Kind: fence.Configuration, Err: errors.New("somebody has deleted the key since this run raised the fence"),
		Hint: "the key holds the fence: let nobody delete it",
	}
}

// unclearError is of a write that may have been done, or may be done yet. It is no SetupError: that says that nothing was written.
func unclearError(err error) error {
	const text = "it is not known whether it was written"
	if isSetup(err) {
		return fmt.Errorf("%s: %s", text, err.Error())
	}
	return fmt.Errorf("%s: %w", text, err)
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
	if try < 1 {
		return ctx.Err()
	}
	longest := min(50*time.Millisecond<<try, 2*time.Second)
	timer := time.NewTimer(longest/2 + rand.N(longest/2))
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-timer.C:
		return nil
	}
}
