package hosts

import (
	"fmt"
	"math"
	"os"
	"slices"
	"strconv"
	"time"

	"golang.org/x/sys/unix"
)

// NoFiles leaves a process of a host no file descriptor to open: the first free one is beyond its limit.
func (n *Network) NoFiles(host string, pid int, comm string) (mend func() error, err error) {
	p, err := n.Process(host, pid, comm)
	if err != nil {
		return nil, err
	}
	free, err := lowestFree(pid)
	if err != nil {
		return nil, err
	}
	var was unix.Rlimit
	if err := unix.Prlimit(pid, unix.RLIMIT_NOFILE, nil, &was); err != nil {
		return nil, os.NewSyscallError("prlimit", err)
	}
	if err := unix.Prlimit(pid, unix.RLIMIT_NOFILE, &unix.Rlimit{Cur: free, Max: was.Max}, nil); err != nil {
		return nil, os.NewSyscallError("prlimit", err)
	}
	return func() error {
		defer func() { _ = p.Release() }()
		if p.Signal(unix.Signal(0)) != nil {
			return nil // it has ended
		}
		return os.NewSyscallError("prlimit", unix.Prlimit(pid, unix.RLIMIT_NOFILE, &was, nil))
	}, nil
}

// lowestFree looks more than once: a file that is open for a moment has a number that is free again at once.
func lowestFree(pid int) (uint64, error) {
	lowest := uint64(math.MaxUint64)
	for range 20 {
		free, err := firstFree(pid)
		if err != nil {
			return 0, err
		}
		lowest = min(lowest, free)
		time.Sleep(time.Millisecond)
	}
	return lowest, nil
}

// firstFree returns the lowest number that no open file of a process has.
func firstFree(pid int) (uint64, error) {
	open, err := os.ReadDir(fmt.Sprintf("/proc/%d/fd", pid))
	if err != nil {
		return 0, err
	}
	for free := uint64(0); ; free++ {
		if !slices.ContainsFunc(open, func(e os.DirEntry) bool { return e.Name() == strconv.FormatUint(free, 10) }) {
			return free, nil
		}
	}
}
