package supervise

import (
	"os"

	"golang.org/x/sys/unix"
)

// KeepImage keeps the beginning of the program's own file in memory: it is all that exec(2) reads before the parent goes on.
// Until then nothing else of a Go program may go on for long, because a collection of garbage waits for what is in vfork(2):
// on a disk that is slow, the start of one guardian would hold up a whole daemon. It may fail for want of rights, or of
// memory that may be locked (RLIMIT_MEMLOCK): then a start depends on the disk.
func KeepImage() {
	file, err := os.Open("/proc/self/exe")
	if err != nil {
		return
	}
	defer file.Close()
	_, _ = unix.Mmap(int(file.Fd()), 0, os.Getpagesize(), unix.PROT_READ, unix.MAP_SHARED|unix.MAP_LOCKED)
}
