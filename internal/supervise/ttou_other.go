//go:build !linux

package supervise

import (
	"os/signal"
	"syscall"
)

// blockTTOU ignores SIGTTOU until the returned function is called. A child forked in between would
// inherit that; the guardian, the only child there is, drops it anyway.
func blockTTOU() (restore func()) {
	signal.Ignore(syscall.SIGTTOU)
	return func() { signal.Reset(syscall.SIGTTOU) }
}
