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

// signal sends a signal to a process that was listed, and to nobody else: a number that was reaped in between
// may belong to a stranger. A child of ours keeps its number until we reap it.
func (r *reader) signal(p Process, sig syscall.Signal) {
	if p.Parent == syscall.Getpid() {
		_ = syscall.Kill(p.PID, sig)
		return
	}
	fd, _, errno := syscall.Syscall(sysPidfdOpen, uintptr(p.PID), 0, 0)
	switch errno {
	case 0:
		defer func() { _ = syscall.Close(int(fd)) }()
	case syscall.ESRCH:
		return // gone
	}
	if now, ok := r.stat(p.PID); !ok || now.Started != p.Started {
		return
	}
	if errno != 0 {
		_ = syscall.Kill(p.PID, sig) // an old kernel, a filter, no descriptor or no memory: better than not at all
		return
	}
	_, _, errno = syscall.Syscall6(sysPidfdSendSignal, fd, uintptr(sig), 0, 0, 0, 0)
	if errno == syscall.ENOSYS || errno == syscall.EPERM {
		_ = syscall.Kill(p.PID, sig)
	}
}

// forbidForks takes the right to fork from a process that is to be killed (RLIMIT_NPROC, setrlimit(2)), for itself and all
// that comes of it: others of its tree could let it go on after a SIGSTOP. It has no effect on one of root's, and we may not do it to
// one of another user unless we are root.
func forbidForks(pid int) {
	limit := processes
	if arch := runtime.GOARCH; len(arch) >= 4 && arch[:4] == "mips" {
		limit = processesMIPS
	}
	var none [2]uint64
	_, _, _ = syscall.RawSyscall6(syscall.SYS_PRLIMIT64, uintptr(pid), limit, uintptr(unsafe.Pointer(&none)), 0, 0, 0)
}

// RLIMIT_NPROC, from <asm-generic/resource.h> and <asm/resource.h>.
const (
	processes     uintptr = 6
	processesMIPS uintptr = 8
)
