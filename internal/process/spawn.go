package process

import (
	"os"
	"slices"
	"strconv"
	"sync"
	"syscall"

	"github.com/leaderrun/leaderrun/internal/process/guardian"
	"github.com/leaderrun/leaderrun/internal/process/tree"
)

// spawn starts the guardian. It is a child like any other for fork(2)'s sake: no descriptor but the
// three standard ones, those that we inherited ourselves, and its end of the control channel, at
// a number that none of these has. The numbers matter: the command gets ours, unchanged.
func (g *Guard) spawn() error {
	pair, err := guardian.Pair()
	if err != nil {
		return os.NewSyscallError("socketpair", err)
	}
	ours, its := pair[0], pair[1]
	defer syscall.Close(its)
	conn, err := guardian.NewConn(ours)
	if err != nil {
		_ = syscall.Close(ours)
		return err
	}
	path, err := ownExecutable()
	if err != nil {
		_ = conn.Close()
		return err
	}
	g.terminalless = g.options.Detached || !controllingTerminal()
	others := guardian.StillInherited(inherited())
	control := lowestFree(others)
	files := guardian.FileTable(others, []int{control})
	files[control] = uintptr(its)
	for i, f := range g.options.Files {
		if f != nil {
			files[i] = f.Fd() // which makes it block, as programs expect of theirs
		}
	}
	attr := &syscall.ProcAttr{
		Env:   []string{},
		Files: files,
		// Away from signals to our group; out of our session too, where that has no terminal to keep.
		Sys: guardianAttributes(g.terminalless),
	}
	g.pid, err = guards.fork(g, func() (int, error) {
		return syscall.ForkExec(path, []string{guardian.Name, strconv.Itoa(control)}, attr)
	})
	if err != nil {
		_ = conn.Close()
		return os.NewSyscallError("fork", err)
	}
	g.conn = conn
	return nil
}

// lowestFree returns the number that the control channel gets in the guardian: a low one, because fork(2) closes all
// that lies below it and is not in use, and we may have thousands of descriptors.
func lowestFree(inherited []int) int {
	const firstOther = 3
	fd := firstOther
	for slices.Contains(inherited, fd) {
		fd++
	}
	return fd
}

// controllingTerminal tells whether this session has a terminal (tty(4): opening /dev/tty fails with
// ENXIO otherwise).
func controllingTerminal() bool {
	fd, err := syscall.Open("/dev/tty", syscall.O_RDWR|syscall.O_NOCTTY|syscall.O_CLOEXEC, 0)
	if err != nil {
		return false
	}
	_ = syscall.Close(fd)
	return true
}

func guardianAttributes(terminalless bool) *syscall.SysProcAttr {
	if !terminalless {
		return &syscall.SysProcAttr{Setpgid: true}
	}
	return &syscall.SysProcAttr{Setsid: true}
}

// firstChildren are those of a process with many runs, which forks nothing but guardians.
var firstChildren = sync.OnceValue(knownChildren)

// knownChildren are those that we have before the guardian is forked: none of the run's. Mostly there is none,
// which one system call tells.
func knownChildren() map[int]uint64 {
	if childless() {
		return nil
	}
	known := make(map[int]uint64)
	tree.List(syscall.Getpid(), func(p tree.Process) bool {
		known[p.PID] = p.Started
		return true
	})
	return known
}

// duplicates returns copies of the descriptors, which live until they are sent whatever the caller does
// with its own.
func duplicates(files []*os.File) ([]int, error) {
	var fds []int
	for _, f := range files {
		raw, err := f.SyscallConn()
		if err == nil {
			var dup int
			ctlErr := raw.Control(func(fd uintptr) { dup, err = duplicate(int(fd)) })
			if err == nil {
				err = ctlErr
			}
			if err == nil {
				fds = append(fds, dup)
			}
		}
		if err != nil {
			closeAll(fds)
			return nil, err
		}
	}
	return fds, nil
}

func closeAll(fds []int) {
	for _, fd := range fds {
		_ = syscall.Close(fd)
	}
}
