package file

import (
	"bytes"
	"errors"
	"fmt"
	"os"
)

// showsLock says whether the open file description has an flock: fdinfo lists the locks of the description,
// not of the process (since Linux 4.1, and where /proc is mounted).
func showsLock(f *os.File) (bool, error) {
	conn, err := f.SyscallConn()
	if err != nil {
		return false, err
	}
	var info []byte
	var failed error
	err = conn.Control(func(fd uintptr) {
		info, failed = os.ReadFile(fmt.Sprintf("/proc/self/fdinfo/%d", fd))
	})
	if err = errors.Join(err, failed); err != nil {
		return false, err
	}
	for line := range bytes.Lines(info) {
		if bytes.HasPrefix(line, []byte("lock:")) && bytes.Contains(line, []byte("FLOCK")) {
			return true, nil
		}
	}
	return false, nil
}
