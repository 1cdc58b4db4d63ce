package backends

import (
	"context"
	"math/rand/v2"
	"time"

	"github.com/leaderrun/leaderrun/internal/panics"
)

// The pauses between the watches of one Rewatch, each of at least half its length: the first, and the longest.
const (
	shortPause = 200 * time.Millisecond
	longPause  = 5 * time.Second
)

// Rewatch is Driver.Watch for a store whose watches break now and then. It calls follow, which is one watch, again and
// again until ctx ends, or life, which is the driver's, or follow returns a *PermanentError; then the channel is closed.
// The context of follow ends with both. What follow tells goes into the channel (see Tell); after it has returned it tells
// nothing more.
//
// Each pause between two watches is twice as long as the last, up to 5 s. Only a watch that lasted for longer than that
// makes them short again, not one that stands and breaks at once: each tells its waiter to look when it stands, and
// behind a server or proxy that hangs up all waiters would go on claiming several times a second.
func Rewatch(ctx, life context.Context, follow func(ctx context.Context, tell func(News)) error) (<-chan News, error) {
	if ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	ch := make(chan News, 1)
	tell := func(n News) { Tell(ch, n) }
	panics.Go(func() {
		defer close(ch)
		ctx, cancel := During(ctx, life)
		defer cancel()
		for pause := shortPause; ctx.Err() == nil; pause = min(2*pause, longPause) {
			began := time.Now()
			if IsPermanent(follow(ctx, tell)) {
				return
			}
			if time.Since(began) > longPause {
				pause = shortPause
			}
			select {
			case <-time.After(pause/2 + rand.N(pause/2)): //nolint:gosec // jitter
			case <-ctx.Done():
			}
		}
	})
	return ch, nil
}

// During returns a context that ends with ctx, and also with life, which is a driver's, from Open to Close. Whoever calls
// it calls the function when the context is of no use any more.
func During(ctx, life context.Context) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancel(ctx)
	stop := context.AfterFunc(life, cancel)
	if life.Err() != nil { // AfterFunc comes a moment later
		cancel()
	}
	return ctx, func() { stop(); cancel() }
}
