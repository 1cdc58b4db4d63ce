package backends

import "sync"

// LeaseCache is what a holder knows of its lease in the store, as its last step left it, so that the next one need not read
// first. An engine keeps one in Grant.Private. It is safe for concurrent use, and a nil one knows nothing.
type LeaseCache struct {
	mu       sync.Mutex
	last     Snapshot // nil: nothing is known
	doubted  bool     // what became of a renewal since then nobody knows
	renewals int      // on their way
}

// NewLeaseCache returns what a new grant knows.
func NewLeaseCache(last Snapshot) *LeaseCache { return &LeaseCache{last: last} }

// CacheOf returns what a grant knows; nil: it was not made by an engine of this process.
func CacheOf(g Grant) *LeaseCache {
	c, _ := g.Private.(*LeaseCache)
	return c
}

// Hedge notes a renewal on its way, until leave is called. One beside another first goes elsewhere, because that one
// stays silent.
func (c *LeaseCache) Hedge(elsewhere func()) (leave func()) {
	if c == nil {
		return func() {}
	}
	c.mu.Lock()
	c.renewals++
	alone := c.renewals == 1
	c.mu.Unlock()
	if !alone {
		elsewhere()
	}
	return func() { c.mu.Lock(); c.renewals--; c.mu.Unlock() }
}

// Last returns what the last step left; nil: nothing is known.
func (c *LeaseCache) Last() Snapshot {
	if c == nil {
		return nil
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.last
}

// Doubted says whether something may have changed since the last step that was answered.
func (c *LeaseCache) Doubted() bool {
	if c == nil {
		return false
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.doubted
}

// Doubt notes that nobody knows what became of a renewal that began with what was known, unless another one has been
// answered meanwhile.
func (c *LeaseCache) Doubt(was Snapshot) {
	if c == nil {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.doubted = c.doubted || c.last == was
}

// Saw notes what a renewal left that began with what was known; nil: nothing is known any more. Renewals may overtake
// each other: if another one has been answered meanwhile, only what is newer counts. If none has, this is what the store
// holds now, even if it looks older: the store may have been set back.
func (c *LeaseCache) Saw(was, is Snapshot) {
	if c == nil {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.last == was || c.last == nil || is != nil && is.Newer(c.last) {
		c.last, c.doubted = is, false
	}
}
