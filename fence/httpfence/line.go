package httpfence

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"github.com/leaderrun/leaderrun/fence"
)

var errWaited = errors.New("the request of an earlier run is still under way")

// lines are those of the resources that somebody asks for now.
type lines struct {
	mu sync.Mutex
	of map[string]*line
}

// join puts a request into the line of a resource. part takes it away.
func (s *lines) join(resource string) *line {
	s.mu.Lock()
	defer s.mu.Unlock()
	l := s.of[resource]
	if l == nil {
		l = &line{mu: &s.mu, resource: resource, changed: make(chan struct{})}
		s.of[resource] = l
	}
	l.requests++
	return l
}

func (s *lines) part(l *line) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if l.requests--; l.requests == 0 {
		delete(s.of, l.resource)
	}
}

// line is where the requests of a resource stand: some inside, and newer ones that wait for them to come out.
type line struct {
	mu       *sync.Mutex // that of all lines
	resource string
	requests int           // that stand here; without any the line is forgotten, and only the keeper knows the resource
	highest  int64         // the highest token that was kept while somebody stood here
	inside   int           // requests that hold the line up; all have the same token
	token    int64         // theirs
	newer    chan struct{} // closed when a newer run waits for them
	changed  chan struct{} // closed when those who wait should look again
}

// check refuses a token that is stale.
func (l *line) check(token int64) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.stale(token)
}

// enter takes the highest token that is kept, and returns when a request may come in: with what is closed when a newer run waits
// for it. leave must follow, unless there is an error.
//
// A higher token than before is news for those who wait. They are told of nothing that is not kept: a request of theirs could
// pass later on.
func (l *line) enter(ctx context.Context, token, kept int64) (newer <-chan struct{}, err error) {
	l.raise(kept)
	for {
		newer, changed, err := l.try(token)
		if changed == nil || err != nil {
			return newer, err
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return nil, fmt.Errorf("%s: %w", l.resource, errWaited)
		}
	}
}

func (l *line) raise(kept int64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if kept <= l.highest {
		return
	}
	if l.inside > 0 && l.token == l.highest { // else it is closed already
		close(l.newer)
	}
	l.highest = kept
	l.wake()
}

// try lets a request in if no older one is inside. If one is, it returns what is closed when something has changed.
func (l *line) try(token int64) (newer, changed <-chan struct{}, err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if err := l.stale(token); err != nil {
		return nil, nil, err
	}
	if l.inside > 0 && l.token != token {
		return nil, l.changed, nil
	}
	if l.inside == 0 {
		l.newer = make(chan struct{})
	}
	l.inside++
	l.token = token
	return l.newer, nil, nil
}

// leave gives a place back.
func (l *line) leave() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.inside--; l.inside == 0 {
		l.wake()
	}
}

// wake needs l.mu, as stale does.
func (l *line) wake() {
	close(l.changed)
	l.changed = make(chan struct{})
}

func (l *line) stale(token int64) error {
	if token < l.highest {
		return &fence.StaleError{Resource: l.resource, Token: token, Highest: l.highest}
	}
	return nil
}
