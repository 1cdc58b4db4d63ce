package flock

import (
	"errors"
	"os"
	"path/filepath"
	"syscall"
	"testing"
)

// A file system that does not let anybody wait for a lock says so. Whoever waits would otherwise ask again and again, without a pause.
func TestAwaitThatDoesNotWait(t *testing.T) {
	path := filepath.Join(t.TempDir(), "lock")
	open := func(path string, flags int) (*os.File, error) { return os.OpenFile(path, flags, 0o600) }
	held, err := Try(path, syscall.LOCK_EX, os.O_RDWR|os.O_CREATE, open)
	if err != nil {
		t.Fatal(err)
	}
	defer Unlock(held)
	f, err := Await(path, syscall.LOCK_EX|syscall.LOCK_NB, os.O_RDWR, open)
	if f != nil || !errors.Is(err, syscall.EWOULDBLOCK) {
		t.Errorf("got %v, %v", f, err)
	}
	if f, err := Try(path, syscall.LOCK_EX, os.O_RDWR, open); f != nil || err != nil {
		t.Errorf("who only tries got %v, %v", f, err)
	}
}
