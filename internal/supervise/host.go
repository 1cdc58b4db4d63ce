package supervise

import (
	"sync"

	"golang.org/x/sys/unix"

	"github.com/leaderrun/leaderrun/internal/supervise/guardian"
)

// inheritance is the descriptors that were open when this process started. They do not change: whatever
// Go opens later is close-on-exec.
var inheritance struct {
	once sync.Once
	fds  []int
}

// inherited returns them. The first one that asks looks; it should be asked early, in case a C library opens something.
func inherited() []int {
	inheritance.once.Do(func() { inheritance.fds = guardian.Inherited() })
	return inheritance.fds
}

// knowInherited says what was found when the program began.
func knowInherited(fds []int) { inheritance.once.Do(func() { inheritance.fds = fds }) }

func duplicate(fd int) (int, error) {
	return unix.FcntlInt(uintptr(fd), unix.F_DUPFD_CLOEXEC, 0)
}
