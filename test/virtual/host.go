package virtual

import (
	"context"
	"errors"
	"sync"
)

// ErrCut is the error of a request that does not arrive.
var ErrCut = errors.New("the network is cut")

// Host is what happens to a host: it dies, or is cut off from the store.
type Host struct {
	Alive context.Context //nolint:containedctx // ends with the host
	End   context.CancelFunc

	mu    sync.Mutex
	dead  bool
	cut   bool // the store does not answer
	trees []*Tree
}

// NewHost returns a host that is alive.
func NewHost() *Host {
	h := &Host{}
	h.Alive, h.End = context.WithCancel(context.Background())
	return h
}

// Add adds a command that dies with the host.
func (h *Host) Add(t *Tree) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.trees = append(h.trees, t)
}

// Die ends all that runs on the host at once. Nobody is told.
func (h *Host) Die() {
	h.mu.Lock()
	h.dead = true
	trees := h.trees
	h.mu.Unlock()
	h.End()
	for _, t := range trees {
		t.Kill(true)
	}
}

// IsDead says whether it has died.
func (h *Host) IsDead() bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.dead
}

// Cut says whether the store is out of reach from now on.
func (h *Host) Cut(cut bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.cut = cut
}

// Reach returns an error for a request that does not arrive.
func (h *Host) Reach(ctx context.Context) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.cut || h.dead {
		return ErrCut
	}
	return ctx.Err()
}
