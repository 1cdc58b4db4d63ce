package backendurl

import (
	"maps"
	"slices"
	"strings"
	"sync"

	"github.com/leaderrun/leaderrun/backends"
)

// A fault of one of several hosts ends nothing as long as another host may serve. If each of them has a fault, no retry mends that.

// Unreached says why no host of a URL served: nothing was done. The zero value has no failures. It may be used by
// one goroutine at a time.
type Unreached struct {
	failures map[string]error // by host
}

// Failed notes why a host did not serve. The error names it.
func (u *Unreached) Failed(host string, err error) {
	if u.failures == nil {
		u.failures = map[string]error{}
	}
	u.failures[host] = err
}

func (u *Unreached) Error() string {
	var all []string
	for _, err := range u.Unwrap() {
		all = append(all, err.Error())
	}
	return strings.Join(all, "; ")
}

// Unwrap returns why, host by host.
func (u *Unreached) Unwrap() []error {
	var all []error
	for _, host := range slices.Sorted(maps.Keys(u.failures)) {
		all = append(all, u.failures[host])
	}
	return all
}

// Judge classifies each failure by itself, and returns the first one if all of a URL's hosts have failed and each is permanent.
// nil: one of them may serve, one that was not asked too.
func (u *Unreached) Judge(hosts int, classify func(error) error) error {
	if len(u.failures) < hosts {
		return nil
	}
	var first error
	for _, failure := range u.Unwrap() {
		one := classify(failure)
		if !backends.IsPermanent(one) {
			return nil
		}
		if first == nil {
			first = one
		}
	}
	return first
}

// Faults remembers, where each request asks one host, which of them have met it with a fault that no retry mends since one has
// served. The zero value knows of none. Its methods are safe for concurrent use.
type Faults struct {
	mu     sync.Mutex
	faulty map[string]bool
}

// Served notes that a host has served a request: whatever was wrong with others may be over.
func (f *Faults) Served() {
	f.mu.Lock()
	defer f.mu.Unlock()
	clear(f.faulty)
}

// Failed notes that a host has not served, and whether that is for good.
func (f *Faults) Failed(host string, forGood bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if !forGood {
		delete(f.faulty, host)
		return
	}
	if f.faulty == nil {
		f.faulty = map[string]bool{}
	}
	f.faulty[host] = true
}

// Everywhere says whether that many hosts have a fault.
func (f *Faults) Everywhere(hosts int) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return len(f.faulty) >= hosts
}
