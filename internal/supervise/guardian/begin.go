package guardian

import (
	"os"
	"strconv"
	"syscall"
)

// Begun is a guardian that was started and waits for requests.
type Begun struct {
	PID          int
	Channel      int   // our end of the control channel: close-on-exec, non-blocking
	Terminalless bool  // it has left the terminal's session, and the run with it
	Inherited    []int // the descriptors of ours that it inherited, as we did
}

// Begin starts the program at path as a guardian, out of the session that this process is in if that has no terminal
// to keep or detached says so. It is a child like any other for fork(2)'s sake: it gets stdin, stdout and stderr, the
// descriptors that we inherited ourselves, and its end of the control channel, at a number that none of these has. The
// numbers matter: the command gets ours, unchanged.
func Begin(path string, inherited []int, standard [3]uintptr, detached bool) (Begun, error) {
	pair, err := Pair()
	if err != nil {
		return Begun{}, os.NewSyscallError("socketpair", err)
	}
	ours, its := pair[0], pair[1]
	defer syscall.Close(its)
	control := lowestFree(inherited)
	files := FileTable(inherited, []int{control})
	copy(files, standard[:])
	files[control] = uintptr(its)
	b := Begun{Channel: ours, Terminalless: detached || !ControllingTerminal(), Inherited: inherited}
	b.PID, err = syscall.ForkExec(path, []string{Name, strconv.Itoa(control), nobody}, &syscall.ProcAttr{
		Env:   []string{},
		Files: files,
		// Away from signals to our group; out of our session too, where that has no terminal to keep.
		Sys: &syscall.SysProcAttr{Setpgid: !b.Terminalless, Setsid: b.Terminalless},
	})
	if err != nil {
		_ = syscall.Close(ours)
		return Begun{}, os.NewSyscallError("fork", err)
	}
	return b, nil
}

// lowestFree returns the number that the control channel gets in the guardian: a low one, because fork(2) closes all
// that lies below it and is not in use, and we may have thousands of descriptors.
func lowestFree(inherited []int) int {
	const firstOther = 3
	fd := firstOther
	for used := true; used; {
		used = false
		for _, other := range inherited {
			if other == fd {
				fd, used = fd+1, true
			}
		}
	}
	return fd
}

// ControllingTerminal tells whether this session has a terminal (tty(4): opening /dev/tty fails with
// ENXIO otherwise).
func ControllingTerminal() bool {
	fd, err := syscall.Open("/dev/tty", syscall.O_RDWR|syscall.O_NOCTTY|syscall.O_CLOEXEC, 0)
	if err != nil {
		return false
	}
	_ = syscall.Close(fd)
	return true
}
