package process

import (
	"sync"

	"golang.org/x/sys/unix"

	"github.com/leaderrun/leaderrun/internal/process/guardian"
)

// inherited are the descriptors that were open when this process started. They do not change: whatever
// Go opens later is close-on-exec.
var inherited = sync.OnceValue(guardian.Inherited)

func duplicate(fd int) (int, error) {
	return unix.FcntlInt(uintptr(fd), unix.F_DUPFD_CLOEXEC, 0)
}
