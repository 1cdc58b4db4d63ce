package backends

import "sync"

// Holding is what a grant knows of its lease in the store, as the last step of its holder left it, so that the next one
// need not read it first. Drivers keep one in Grant.Private. It is safe for concurrent use, and a nil one knows nothing.
type Holding[S any] struct {
	mu       sync.Mutex
	last     S
	renewals int // on their way
}

// NewHolding returns what a new grant knows.
func NewHolding[S any](last S) *Holding[S] { return &Holding[S]{last: last} }

// HoldingOf returns what a grant knows; nil: it was not made by a driver of this process.
func HoldingOf[S any](g Grant) *Holding[S] {
	h, _ := g.Private.(*Holding[S])
	return h
}

// Enter notes a renewal on its way, and says whether it is the only one: one beside another goes elsewhere, because that
// one stays silent.
func (h *Holding[S]) Enter() (leave func(), alone bool) {
	if h == nil {
		return func() {}, true
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	h.renewals++
	return func() { h.mu.Lock(); h.renewals--; h.mu.Unlock() }, h.renewals == 1
}

// Last returns what the last step left; false: nothing is known.
func (h *Holding[S]) Last() (last S, known bool) {
	if h == nil {
		return last, false
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.last, true
}

// Saw notes what a renewal left, if that is newer: renewals may overtake each other.
func (h *Holding[S]) Saw(now S, newer func(last, now S) bool) {
	if h == nil {
		return
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	if newer(h.last, now) {
		h.last = now
	}
}
