package shards

import (
	"cmp"
	"sync"
	"time"

	"github.com/leaderrun/leaderrun/internal/panics"
)

// fewLookers is how many requests of a search are made at a time when a store begins to be slow, which means that answers are not quick.
const (
	fewLookers = 4
	quick      = 250 * time.Millisecond
)

// Together calls f for 0 to n-1, some at a time, and returns the first error. After one it calls f no more. It begins with few, and adds
// one for each that was quick: else the searches of many hosts would keep a store that is slow from what renews their leases.
func Together(n int, f func(int) error) error {
	var mu sync.Mutex
	var first error
	var wait sync.WaitGroup
	next, running := 0, 0
	var look func()
	start := func() {
		running++
		wait.Add(1)
		panics.Go(func() {
			defer wait.Done()
			look()
		})
	}
	look = func() {
		mu.Lock()
		defer mu.Unlock()
		for next < n && first == nil {
			i, began := next, time.Now()
			next++
			err := unlocked(&mu, func() error { return f(i) })
			first = cmp.Or(first, err) // another call may have set it meanwhile
			switch slow := time.Since(began) >= quick; {
			case slow && running > fewLookers:
				running--
				return
			case !slow && running < lookers && next < n:
				start()
			}
		}
	}
	mu.Lock()
	for range min(fewLookers, n) {
		start()
	}
	mu.Unlock()
	wait.Wait()
	return first
}

// unlocked calls f while the mutex is free, and locks it again also where f panics.
func unlocked(mu *sync.Mutex, f func() error) error {
	mu.Unlock()
	defer mu.Lock()
	return f()
}
