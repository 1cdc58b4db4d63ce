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

var (
	await = sync.OnceValue(func() error {
		f, err := os.OpenFile(path(), os.O_CREATE|os.O_RDWR|syscall.O_NOFOLLOW, 0o600)
		if err != nil {
			return err
		}
		held = f
		return syscall.Flock(int(f.Fd()), syscall.LOCK_EX)
	})
	held *os.File // stays open
)

func path() string {
	return filepath.Join(os.TempDir(), fmt.Sprintf("leaderrun-alone-%d", os.Getuid()))
}
