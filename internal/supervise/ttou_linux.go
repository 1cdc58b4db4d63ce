package supervise

import (
	"syscall"

	"golang.org/x/sys/unix"
)

// blockTTOU blocks SIGTTOU on this thread until the returned function is called.
func blockTTOU() (restore func()) {
	var set, old unix.Sigset_t
	set.Val[0] = 1 << (uint(syscall.SIGTTOU) - 1)
	if unix.PthreadSigmask(unix.SIG_BLOCK, &set, &old) != nil {
		return func() {}
	}
	return func() { _ = unix.PthreadSigmask(unix.SIG_SETMASK, &old, nil) }
}
