package httpfence

import (
	"context"
	"fmt"
	"net/http"
	"sync"

	"github.com/leaderrun/leaderrun/fence"
)

// guard is what Handler returns.
type guard struct {
	next     http.Handler
	resource func(*http.Request) string
	keep     Keeper
	refused  func(*http.Request, error)

	mu    sync.Mutex
	lines map[string]*line // of the resources that somebody asks for now
}

// line is where the requests of a resource stand: some inside, and newer ones that wait for them to come out. All of it
// needs guard.mu.
type line struct {
	resource string
	requests int           // that stand here; without any the line is forgotten, and only the keeper knows the resource
	highest  int64         // the highest token of those that have ever stood here
	inside   int           // requests that next works on; all have the same token
	token    int64         // theirs
	changed  chan struct{} // closed when those who wait should look again
}

// join puts a request into the line of a resource. part takes it away.
func (g *guard) join(resource string) *line {
	g.mu.Lock()
	defer g.mu.Unlock()
	l := g.lines[resource]
	if l == nil {
		l = &line{resource: resource, changed: make(chan struct{})}
		g.lines[resource] = l
	}
	l.requests++
	return l
}

func (g *guard) part(l *line) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if l.requests--; l.requests == 0 {
		delete(g.lines, l.resource)
	}
}

// enter raises the fence and returns when next may be called. leave must follow, unless there is an error.
//
// The token is seen here before it is kept: those who wait with a lower one go away at once. That it is kept before next is
// called makes it hold after a restart.
func (g *guard) enter(ctx context.Context, l *line, token int64) error {
	if err := g.see(l, token); err != nil {
		return err
	}
	highest, err := g.keep.Raise(ctx, l.resource, token)
	if err != nil {
		return &KeepError{Resource: l.resource, Err: err}
	}
	if highest > token {
		_ = g.see(l, highest) // it is the highest by now, or a higher one is
		return l.stale(token, highest)
	}
	for {
		changed, err := g.try(l, token)
		if changed == nil || err != nil {
			return err
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return fmt.Errorf("%s: %w", l.resource, errWaited)
		}
	}
}

// see refuses a token that is stale. A higher one than before is news for those who wait.
func (g *guard) see(l *line, token int64) error {
	g.mu.Lock()
	defer g.mu.Unlock()
	if token < l.highest {
		return l.stale(token, l.highest)
	}
	if token > l.highest {
		l.highest = token
		l.wake()
	}
	return nil
}

// try lets a request in if no older one is inside. If one is, it returns what is closed when something has changed.
func (g *guard) try(l *line, token int64) (changed <-chan struct{}, err error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if token < l.highest {
		return nil, l.stale(token, l.highest)
	}
	if l.inside > 0 && l.token != token {
		return l.changed, nil
	}
	l.inside++
	l.token = token
	return nil, nil
}

// leave gives a place back.
func (g *guard) leave(l *line) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if l.inside--; l.inside == 0 {
		l.wake()
	}
}

func (l *line) wake() {
	close(l.changed)
	l.changed = make(chan struct{})
}

func (l *line) stale(token, highest int64) error {
	return &fence.StaleError{Resource: l.resource, Token: token, Highest: highest}
}
