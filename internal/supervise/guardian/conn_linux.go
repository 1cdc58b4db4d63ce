package guardian

import "syscall"

const (
	sendFlags    = syscall.MSG_NOSIGNAL
	receiveFlags = syscall.MSG_CMSG_CLOEXEC
)

// Pair makes the control channel: two connected descriptors, close-on-exec and non-blocking.
func Pair() ([2]int, error) {
	return syscall.Socketpair(syscall.AF_UNIX, syscall.SOCK_STREAM|syscall.SOCK_CLOEXEC|syscall.SOCK_NONBLOCK, 0)
}
