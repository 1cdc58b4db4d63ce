package alone

import (
	"errors"
	"os"
	"syscall"
	"testing"
)

func TestAwait(t *testing.T) {
	t.Setenv("TMPDIR", t.TempDir())
	Await()
	Await() // it is
	f, err := os.Open(path())
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = f.Close() }()
	if err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); !errors.Is(err, syscall.EWOULDBLOCK) {
		t.Errorf("somebody else is alone, too: %v", err)
	}
}
