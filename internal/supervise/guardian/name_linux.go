package guardian

import (
	"os"
	"syscall"
	"unsafe"

	"github.com/leaderrun/leaderrun/internal/supervise/tree"
)

// setName sets what ps(1) and pkill(1) see (PR_SET_NAME, prctl(2)): of the calling thread, which is the
// main one.
func setName(name string) {
	text := append([]byte(name), 0)
	_, _, _ = syscall.RawSyscall(syscall.SYS_PRCTL, syscall.PR_SET_NAME, uintptr(unsafe.Pointer(&text[0])), 0)
}

// showHolder writes the holder's id over the last argument, where /proc/PID/cmdline shows it to every user: os.Args lies where the kernel
// has put the arguments (proc_pid_cmdline(5)).
func showHolder(id string) {
	shown := os.Args[len(os.Args)-1]
	copy(unsafe.Slice(unsafe.StringData(shown), len(shown)), id)
}

// Inherited returns the descriptors above stderr that an exec would hand on: those that were there when
// this process started, because everything that Go opens is close-on-exec.
func Inherited() []int {
	const firstOther = 3
	list, err := tree.Names("/proc/self/fd")
	if err != nil {
		return inheritedBelow(searched)
	}
	var fds []int
	for _, text := range list {
		fd := 0
		for _, c := range []byte(text) {
			fd = fd*10 + int(c-'0')
		}
		if fd >= firstOther && passedOn(fd) {
			fds = append(fds, fd)
		}
	}
	return fds
}
