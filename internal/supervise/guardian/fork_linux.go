package guardian

import (
	"syscall"
	"unsafe"

	"github.com/leaderrun/leaderrun/internal/boottime"
	"github.com/leaderrun/leaderrun/internal/supervise/tree"
)

func waitOptions(stops bool) int {
	options := syscall.WNOHANG | tree.AllKinds
	if stops {
		options |= syscall.WUNTRACED
	}
	return options
}

// attributes are the command's: a process group (0: one of its own), the cgroup where there is one, and
// SIGKILL if the guardian's main thread, which forks, dies.
func attributes(group, cgroup int) *syscall.SysProcAttr {
	return &syscall.SysProcAttr{
		Setpgid:     true,
		Pgid:        group,
		Pdeathsig:   syscall.SIGKILL,
		UseCgroupFD: cgroup >= 0,
		CgroupFD:    max(cgroup, 0),
	}
}

// leaveSessionKeyring gives this thread, and what it forks, a new session keyring (session-keyring(7)): whoever has root's may read
// its keys and add some, under whatever user. Where keyctl(2) is missing or forbidden, the command cannot use keys either.
func leaveSessionKeyring() syscall.Errno {
	const joinSessionKeyring = 1 // KEYCTL_JOIN_SESSION_KEYRING of <linux/keyctl.h>; without a name it is always a new one
	_, _, errno := syscall.Syscall(syscall.SYS_KEYCTL, joinSessionKeyring, 0, 0)
	if errno == syscall.ENOSYS || errno == syscall.EPERM {
		return 0
	}
	return errno
}

// groupLeft is for systems where the process group is all there is.
func groupLeft(int) bool { return false }

// From <linux/time.h> and <asm-generic/siginfo.h>; see timer_create(2).
const (
	clockBoottime = 7
	timerAbstime  = 1
)

// sigevent is struct sigevent of sigevent(7): 64 bytes, of which a signal needs two words.
type sigevent struct {
	value  uintptr
	signo  int32
	notify int32 // 0: SIGEV_SIGNAL
	_      [64 - unsafe.Sizeof(uintptr(0)) - 8]byte
}

// killMyselfAt lets the kernel kill this process at an instant, until the returned function is called. It is
// for the time in which a fork may hang in exec(2), on a file system that does not answer: then nothing else
// of the guardian runs, and what it is about to start would start whenever that file system comes back. The
// new process dies with its parent (PDEATHSIG) before it runs a line of the command, and inherits no timer.
func killMyselfAt(at boottime.Instant) (disarm func()) {
	event := sigevent{signo: int32(syscall.SIGKILL)}
	var id int32
	if _, _, errno := syscall.Syscall(syscall.SYS_TIMER_CREATE, clockBoottime,
		uintptr(unsafe.Pointer(&event)), uintptr(unsafe.Pointer(&id))); errno != 0 {
		return func() {} // no timer left for this user: only the hanging exec is uncovered
	}
	spec := [2]syscall.Timespec{1: syscall.NsecToTimespec(int64(at))}
	_, _, _ = syscall.Syscall6(syscall.SYS_TIMER_SETTIME, uintptr(id), timerAbstime, uintptr(unsafe.Pointer(&spec)), 0, 0, 0)
	return func() { _, _, _ = syscall.Syscall(syscall.SYS_TIMER_DELETE, uintptr(id), 0, 0) }
}
