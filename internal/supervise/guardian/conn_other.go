//go:build !linux

package guardian

import "syscall"

const (
	sendFlags    = 0 // writing to a closed channel raises no signal: Go takes SIGPIPE
	receiveFlags = 0
)

// Pair makes the control channel: two connected descriptors, close-on-exec and non-blocking.
func Pair() ([2]int, error) {
	syscall.ForkLock.RLock()
	defer syscall.ForkLock.RUnlock()
	pair, err := syscall.Socketpair(syscall.AF_UNIX, syscall.SOCK_STREAM, 0)
	if err != nil {
		return pair, err
	}
	for _, fd := range pair {
		syscall.CloseOnExec(fd)
		if err := syscall.SetNonblock(fd, true); err != nil {
			return pair, err
		}
	}
	return pair, nil
}
