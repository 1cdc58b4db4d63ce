package backends

import (
	"context"
	"sync"
)

// Holding is what a grant knows of its lease in the store, as the last step of its holder left it, so that the next one
// need not read it first. Drivers keep one in Grant.Private. It is safe for concurrent use, and a nil one knows nothing.
type Holding[S comparable] struct {
	newer func(last, now S) bool

	mu       sync.Mutex
	last     S    // zero: nothing is known
	doubted  bool // what became of a renewal since then nobody knows
	renewals int  // on their way
}

// NewHolding returns what a new grant knows. newer says whether one state came after another.
func NewHolding[S comparable](last S, newer func(last, now S) bool) *Holding[S] {
	return &Holding[S]{last: last, newer: newer}
}

// HoldingOf returns what a grant knows; nil: it was not made by a driver of this process.
func HoldingOf[S comparable](g Grant) *Holding[S] {
	h, _ := g.Private.(*Holding[S])
	return h
}

// Hedge notes a renewal on its way, until leave is called. One beside another first goes elsewhere, because that one
// stays silent.
func (h *Holding[S]) Hedge(elsewhere func()) (leave func()) {
	if h == nil {
		return func() {}
	}
	h.mu.Lock()
	h.renewals++
	alone := h.renewals == 1
	h.mu.Unlock()
	if !alone {
		elsewhere()
	}
	return func() { h.mu.Lock(); h.renewals--; h.mu.Unlock() }
}

// Last returns what the last step left; zero: nothing is known.
func (h *Holding[S]) Last() (last S) {
	if h == nil {
		return last
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.last
}

// Doubt notes that nobody knows what became of a renewal that began with what was known, unless another one has been
// answered meanwhile.
func (h *Holding[S]) Doubt(was S) {
	if h == nil {
		return
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	h.doubted = h.doubted || h.last == was
}

// Doubted says whether something may have changed since the last step that was answered.
func (h *Holding[S]) Doubted() bool {
	if h == nil {
		return false
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.doubted
}

// Recall returns what the last step left, or reads it where nothing is known.
func (h *Holding[S]) Recall(ctx context.Context, job string, read func(ctx context.Context, job string) (S, error)) (S, error) {
	var nothing S
	if last := h.Last(); last != nothing {
		return last, nil
	}
	return read(ctx, job)
}

// Saw notes what a renewal left that began with what was known; zero: nothing is known any more. Renewals may overtake
// each other: if another one has been answered meanwhile, only what is newer counts. If none has, this is what the store
// holds now, even if it looks older: the store may have been set back.
func (h *Holding[S]) Saw(was, is S) {
	if h == nil {
		return
	}
	var nothing S
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.last == was || h.last == nothing || is != nothing && h.newer(h.last, is) {
		h.last, h.doubted = is, false
	}
}
