package servers

import (
	"os"
	"path/filepath"
	"runtime"

	"golang.org/x/sys/unix"
)

// Inside does something in a network namespace. A socket that is made there belongs to it for good.
func Inside(netns string, do func() error) error {
	done := make(chan error)
	go func() {
		runtime.LockOSThread() // and no unlock: the thread ends with this goroutine, so that no other runs in there
		done <- func() error {
			f, err := os.Open(filepath.Join("/run/netns", netns))
			if err != nil {
				return err
			}
			defer func() { _ = f.Close() }()
			if err := unix.Setns(int(f.Fd()), unix.CLONE_NEWNET); err != nil {
				return os.NewSyscallError("setns", err)
			}
			return do()
		}()
	}()
	return <-done
}
