package shards

import (
	"errors"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// Hazard: a look that ends well after another one has failed lets the failure be forgotten.
func TestTogetherKeepsTheFirstError(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		failed := errors.New("no answer")
		err := Together(2, func(i int) error {
			time.Sleep(time.Duration(2-i) * time.Second)
			return []error{nil, failed}[i]
		})
		if !errors.Is(err, failed) {
			t.Errorf("%v, want %v", err, failed)
		}
	})
}

// Hazard: the mutex of a look that panicked is unlocked twice, which ends the program before it can say what happened.
func TestAPanicLeavesTheMutexLocked(t *testing.T) {
	var mu sync.Mutex
	mu.Lock()
	func() {
		defer func() { _ = recover() }()
		_ = unlocked(&mu, func() error { panic("a look") })
	}()
	if mu.TryLock() {
		t.Error("it is free")
	}
}
