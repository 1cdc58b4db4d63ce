package shards

import (
	"errors"
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
