package daemon

import (
	"context"
	"errors"

	"github.com/leaderrun/leaderrun/backends"
)

// limited is a driver of which only so many watches are open at once: on most stores each is a connection. Who
// gets none goes by its timer.
type limited struct {
	backends.Driver
	watcher backends.Watcher
	room    chan struct{}
}

// limitWatches returns the driver with at most n watches.
func limitWatches(driver backends.Driver, n int) backends.Driver {
	watcher, ok := driver.(backends.Watcher)
	if !ok {
		return driver
	}
	return &limited{Driver: driver, watcher: watcher, room: make(chan struct{}, n)}
}

var errNoRoom = errors.New("too many watches are open")

// Watch implements backends.Watcher.
func (l *limited) Watch(ctx context.Context, job string) (<-chan backends.News, error) {
	select {
	case l.room <- struct{}{}:
	default:
		return nil, errNoRoom
	}
	news, err := l.watcher.Watch(ctx, job)
	if err != nil {
		<-l.room
		return nil, err
	}
	out := make(chan backends.News, 1)
	go func() {
		defer func() { <-l.room }()
		defer close(out)
		for n := range news {
			backends.Tell(out, n)
		}
	}()
	return out, nil
}
