package backendurl

import (
	"slices"
	"sync"
)

// Rotation says which of a URL's hosts is asked: the current one, which at first is the first. Who finds that it does not
// serve goes on to the next, and after the last begins anew. Its methods are safe for concurrent use.
type Rotation struct {
	mu    sync.Mutex
	hosts []string // the first one is the current one
}

// NewRotation returns one of these hosts, of which there is at least one.
func NewRotation(hosts []string) *Rotation { return &Rotation{hosts: slices.Clone(hosts)} }

// Current returns the current host.
func (r *Rotation) Current() string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.hosts[0]
}

// Leave makes the next host the current one, if this one still is, and says whether it was: others may have gone on already.
func (r *Rotation) Leave(host string) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.hosts[0] != host {
		return false
	}
	r.hosts = append(r.hosts[1:], host)
	return true
}

// Next returns the first host, from the current one on, that has not failed a request, and how many there are. So each
// request tries each host once, wherever others go meanwhile. Without one it returns "" and 0.
func (r *Rotation) Next(failed *Unreached) (host string, left int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, one := range r.hosts {
		if failed.failures[one] != nil {
			continue
		}
		if left == 0 {
			host = one
		}
		left++
	}
	return host, left
}
