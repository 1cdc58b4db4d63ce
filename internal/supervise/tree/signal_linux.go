package tree

import (
	"runtime"
	"syscall"
	"unsafe"
)

// The same numbers on every architecture: pidfd_send_signal(2), Linux 5.1, and pidfd_open(2), Linux 5.3.
const (
	sysPidfdSendSignal = 424
	sysPidfdOpen       = 434
)

// Signal sends a signal to a process that was listed, and to nobody else: a number that was reaped in between may belong to a stranger.
func Signal(p Process, sig syscall.Signal) {
	var r reader
	r.signal(p, sig)
}

// signal is Signal, and forbids forks with SIGSTOP: others of its tree could let the process go on. A child of ours keeps its number
// until we reap it. It returns whether the process was there, and may be signalled.
func (r *reader) signal(p Process, sig syscall.Signal) (sent bool) {
	if p.Parent == syscall.Getpid() {
		sent = syscall.Kill(p.PID, sig) == nil
	} else {
		sent = signalIf(p.PID, sig, func() bool {
			now, ok := r.stat(p.PID)
			return ok && now.Started == p.Started
		})
	}
	if sent && sig == syscall.SIGSTOP {
		forbidForks(p.PID) // by its number: there is no other way, and it was there a moment ago
	}
	return sent
}

// signalIf sends a signal to the process that has a number, if same says that this is the one that is meant; it is asked while the
// process is held (pidfd). It returns whether the process was there.
func signalIf(pid int, sig syscall.Signal, same func() bool) (sent bool) {
	fd, _, errno := syscall.Syscall(sysPidfdOpen, uintptr(pid), 0, 0)
	if errno == 0 {
		defer func() { _ = syscall.Close(int(fd)) }()
	}
	if errno == syscall.ESRCH || !same() { // gone
		return false
	}
	if errno == 0 {
		_, _, errno = syscall.Syscall6(sysPidfdSendSignal, fd, uintptr(sig), 0, 0, 0, 0)
	}
	if errno != 0 && errno != syscall.ESRCH { // an old kernel, a filter, no descriptor or no memory: better than not at all
		errno, _ = syscall.Kill(pid, sig).(syscall.Errno)
	}
	return errno == 0
}

// forbidForks takes the right to fork from a process that is to be killed (RLIMIT_NPROC, setrlimit(2)), for itself and all
// that comes of it. It has no effect on one of root's, and we may not do it to one of another user unless we are root.
func forbidForks(pid int) {
	var none [2]uint64
	_, _, _ = syscall.RawSyscall6(syscall.SYS_PRLIMIT64, uintptr(pid), limitOfForks(), uintptr(unsafe.Pointer(&none)), 0, 0, 0)
}

func limitOfForks() uintptr {
	if arch := runtime.GOARCH; len(arch) >= 4 && arch[:4] == "mips" {
		return processesMIPS
	}
	return processes
}

// RLIMIT_NPROC, from <asm-generic/resource.h> and <asm/resource.h>.
const (
	processes     uintptr = 6
	processesMIPS uintptr = 8
)
