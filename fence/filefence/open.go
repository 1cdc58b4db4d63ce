package filefence

import (
	"errors"
	"os"
	"syscall"

	"github.com/leaderrun/leaderrun/internal/remedy"
)

const inTheWay = "it is in the place of one of the fence's files: remove it"

// openRegular opens a file of a fence by its name, which others may foresee: nothing but a regular file is opened for good, and
// nothing is waited for, as the other end of a FIFO would be.
func openRegular(path string, how int) (*os.File, error) {
	f, err := os.OpenFile(path, how|syscall.O_NOFOLLOW|syscall.O_NONBLOCK, openMode)
	if err != nil {
		if errors.Is(err, syscall.ENXIO) || errors.Is(err, syscall.EISDIR) { // a socket, a device that is not there; a directory
			err = remedy.Misconfigured(inTheWay, "%w", err)
		}
		return nil, err
	}
	info, err := f.Stat()
	if err == nil && !info.Mode().IsRegular() {
		err = remedy.Misconfigured(inTheWay, "%s is %s, and no regular file", path, kindOf(info.Mode()))
	}
	if err != nil {
		_ = f.Close()
		return nil, err
	}
	return f, nil
}

// openDirectory opens a directory, and waits for nothing that is none.
func openDirectory(path string) (*os.File, error) {
	return os.OpenFile(path, os.O_RDONLY|syscall.O_DIRECTORY|syscall.O_NONBLOCK, 0)
}
