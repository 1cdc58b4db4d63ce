package daemon

import (
	"context"
	"errors"
	"fmt"

	"github.com/leaderrun/leaderrun/backends"
	"github.com/leaderrun/leaderrun/internal/panics"
)

// limited is a store of which only so much is asked at once, however many jobs there are. Claims wait for their turn,
// so that they do not hold up renewals. Watches do not: on most stores each is a connection, and who gets none goes by
// its timer.
type limited struct {
	Store
	claims, watches chan struct{} // have room for those under way
}

func limit(store Store, claims, watches int) *limited {
	return &limited{Store: store, claims: make(chan struct{}, claims), watches: make(chan struct{}, watches)}
}

// Acquire implements backends.Driver.
func (l *limited) Acquire(ctx context.Context, c backends.Claim) (backends.Grant, error) {
	select {
	case l.claims <- struct{}{}:
	case <-ctx.Done():
		return backends.Grant{}, fmt.Errorf("%d claims wait for the backend: %w", cap(l.claims), context.Cause(ctx))
	}
	defer func() { <-l.claims }()
	return l.Store.Acquire(ctx, c)
}

var errNoRoom = errors.New("too many watches are open")

// Watch implements backends.Driver.
func (l *limited) Watch(ctx context.Context, job string) (<-chan backends.News, error) {
	select {
	case l.watches <- struct{}{}:
	default:
		return nil, errNoRoom
	}
	news, err := l.Store.Watch(ctx, job)
	if err != nil {
		<-l.watches
		return nil, err
	}
	out := make(chan backends.News, 1)
	panics.Go(func() {
		defer func() { <-l.watches }()
		defer close(out)
		for n := range news {
			backends.Tell(out, n)
		}
	})
	return out, nil
}
