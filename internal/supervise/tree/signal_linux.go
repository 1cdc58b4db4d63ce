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
// until we reap it.
func (r *reader) signal(p Process, sig syscall.Signal) {
	if p.Parent == syscall.Getpid() {
		_ = syscall.Kill(p.PID, sig)
		if sig == syscall.SIGSTOP {
			forbidForks(p.PID)
		}
		return
	}
	fd, sent := signalIf(p.PID, sig, func() bool {
		now, ok := r.stat(p.PID)
		return ok && now.Started == p.Started
	})
	if sent && sig == syscall.SIGSTOP {
		was, done := forbidForks(p.PID)
		if done && fd >= 0 && sendTo(fd, 0) == syscall.ESRCH { // it has ended meanwhile, and the limit may have hit a stranger
			limitForks(p.PID, &was)
		}
	}
	closeFD(fd)
}

// signalIf sends a signal to the process that has a number while same is called and says that this is the one that is meant. It
// returns a descriptor of the process (a pidfd) that the caller closes, -1 if there is none, and whether it has sent anything.
func signalIf(pid int, sig syscall.Signal, same func() bool) (fd int, sent bool) {
	opened, _, errno := syscall.Syscall(sysPidfdOpen, uintptr(pid), 0, 0)
	if fd = int(opened); errno != 0 {
		fd = -1
	}
	if errno == syscall.ESRCH || !same() { // gone
		return fd, false
	}
	if errno == 0 {
		errno = sendTo(fd, sig)
	}
	switch errno {
	case 0, syscall.ESRCH:
	default: // an old kernel, a filter, no descriptor or no memory: better than not at all
		_ = syscall.Kill(pid, sig)
	}
	return fd, true
}

func closeFD(fd int) {
	if fd >= 0 {
		_ = syscall.Close(fd)
	}
}

// sendTo sends a signal to the process of a pidfd: ESRCH when that has been reaped.
func sendTo(fd int, sig syscall.Signal) syscall.Errno {
	_, _, errno := syscall.Syscall6(sysPidfdSendSignal, uintptr(fd), uintptr(sig), 0, 0, 0, 0)
	return errno
}

// forbidForks takes the right to fork from a process that is to be killed (RLIMIT_NPROC, setrlimit(2)), for itself and all
// that comes of it. It returns what the limit was. It has no effect on one of root's, and we may not do it to one of another user
// unless we are root.
func forbidForks(pid int) (was [2]uint64, done bool) {
	var none [2]uint64
	_, _, errno := syscall.RawSyscall6(syscall.SYS_PRLIMIT64, uintptr(pid), limitOfForks(), uintptr(unsafe.Pointer(&none)), uintptr(unsafe.Pointer(&was)), 0, 0)
	return was, errno == 0
}

func limitForks(pid int, to *[2]uint64) {
	_, _, _ = syscall.RawSyscall6(syscall.SYS_PRLIMIT64, uintptr(pid), limitOfForks(), uintptr(unsafe.Pointer(to)), 0, 0, 0)
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
