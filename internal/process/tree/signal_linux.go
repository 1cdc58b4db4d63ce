package tree

import "syscall"

// The same numbers on every architecture: pidfd_send_signal(2), Linux 5.1, and pidfd_open(2), Linux 5.3.
const (
	sysPidfdSendSignal = 424
	sysPidfdOpen       = 434
)

// Signal sends a signal to a process that was listed, and to nobody else: a number that was reaped in between
// may belong to a stranger. A child of ours keeps its number until we reap it.
func Signal(p Process, sig syscall.Signal) {
	if p.Parent == syscall.Getpid() {
		_ = syscall.Kill(p.PID, sig)
		return
	}
	fd, _, errno := syscall.Syscall(sysPidfdOpen, uintptr(p.PID), 0, 0)
	if errno == syscall.ENOSYS || errno == syscall.EPERM || errno == syscall.EMFILE || errno == syscall.ENFILE {
		_ = syscall.Kill(p.PID, sig) // an old kernel, a filter or no descriptor: better than not at all
		return
	}
	if errno != 0 {
		return // gone
	}
	defer func() { _ = syscall.Close(int(fd)) }()
	if now, ok := Stat(p.PID); !ok || now.Started != p.Started {
		return
	}
	_, _, errno = syscall.Syscall6(sysPidfdSendSignal, fd, uintptr(sig), 0, 0, 0, 0)
	if errno == syscall.ENOSYS || errno == syscall.EPERM {
		_ = syscall.Kill(p.PID, sig)
	}
}
