package backends

import "sync"

// LeaseCache remembers what the last request of a holder has left in the store, so that the next one need not begin with a
// read. An engine keeps one in Grant.Private. It is safe for concurrent use, and an empty one knows nothing.
type LeaseCache struct {
	mu       sync.Mutex
	last     Snapshot // nil: nothing is known
	doubted  bool     // a later renewal had no answer, so nobody knows whether it was applied
	renewals int      // under way
	asked    *BreakRequest
}

// NewLeaseCache returns the cache of a new grant.
func NewLeaseCache(last Snapshot) *LeaseCache { return &LeaseCache{last: last} }

// CacheOf returns the cache of a grant, or an empty one if no engine of this process has made the grant.
func CacheOf(g Grant) *LeaseCache {
	if c, ok := g.Private.(*LeaseCache); ok {
		return c
	}
	return new(LeaseCache)
}

// Hedge counts a renewal that is under way, until leave is called. If another renewal is under way already, it has no answer yet, so
// Hedge calls rotate to send this one another way.
func (c *LeaseCache) Hedge(rotate func()) (leave func()) {
	c.mu.Lock()
	c.renewals++
	alone := c.renewals == 1
	c.mu.Unlock()
	if !alone {
		rotate()
	}
	return func() { c.mu.Lock(); c.renewals--; c.mu.Unlock() }
}

// Last returns what the last request has left in the store; nil: unknown.
func (c *LeaseCache) Last() Snapshot {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.last
}

// Doubted says whether a renewal without an answer may have changed the store since Last.
func (c *LeaseCache) Doubted() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.doubted
}

// Doubt notes that a renewal that began with was had no answer. If another renewal has been answered since, that does not
// matter.
func (c *LeaseCache) Doubt(was Snapshot) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.doubted = c.doubted || c.last == was
}

// Asked returns the request to stop that was found when the run's end was recorded: no renewal has told of it before. nil: there was none.
func (c *LeaseCache) Asked() *BreakRequest {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.asked
}

func (c *LeaseCache) askedAtEnd(b *BreakRequest) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.asked = b
}

// Saw notes what a renewal has left in the store that began with the snapshot was; nil: unknown. Renewals may overtake
// each other: if another one has been answered meanwhile, the new snapshot counts only if it is newer. If none has, it is what the
// store holds now, even if it looks older: the store may have been restored from a backup.
func (c *LeaseCache) Saw(was, is Snapshot) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.last == was || c.last == nil || is != nil && is.Newer(c.last) {
		c.last, c.doubted = is, false
	}
}
