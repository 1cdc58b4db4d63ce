// Package alone keeps apart the tests that disturb others, or are disturbed by them: storms of processes, beds of hosts, histories of
// stores under load. make test-all runs the packages that import it after the others, one at a time.
package alone

import (
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"syscall"
)

// Await waits until nobody else of this machine and user, in another clone, say, is alone, and is so until the process ends.
func Await() {
	if err := await(); err != nil {
		panic(err)
	}
}

var await = sync.OnceValue(func() error {
	fd, err := syscall.Open(path(), syscall.O_CREAT|syscall.O_RDWR|syscall.O_NOFOLLOW|syscall.O_CLOEXEC, 0o600)
	if err != nil {
		return err
	}
	return syscall.Flock(fd, syscall.LOCK_EX) // it stays open until the process ends
})

func path() string {
	return filepath.Join(os.TempDir(), fmt.Sprintf("leaderrun-alone-%d", os.Getuid()))
}
