package supervise

import (
	"os"
	"runtime"
	"sync"
	"syscall"

	"github.com/leaderrun/leaderrun/internal/panics"
	"github.com/leaderrun/leaderrun/internal/supervise/guardian"
	"github.com/leaderrun/leaderrun/internal/supervise/tree"
)

// spawn starts the guardian, or takes the one that was started ahead.
func (g *Guard) spawn(begun *guardian.Begun) (err error) {
	if begun == nil {
		if begun, err = g.begin(); err != nil {
			return err
		}
	} else {
		knowInherited(begun.Inherited)
		guards.register(g, begun.PID)
	}
	g.pid, g.terminalless = begun.PID, begun.Terminalless
	if g.conn, err = guardian.NewConn(begun.Channel); err != nil {
		_ = syscall.Close(begun.Channel) // which ends the guardian
	}
	return err
}

// dismiss ends a guardian that was started ahead and is not to be used; nil: there is none.
func dismiss(begun *guardian.Begun) {
	if begun != nil {
		_ = syscall.Close(begun.Channel)
		panics.Go(func() { _, _ = syscall.Wait4(begun.PID, nil, 0, nil) })
	}
}

// beginGuardian is where tests let a start hang.
var beginGuardian = guardian.Begin

func (g *Guard) begin() (*guardian.Begun, error) {
	path, err := ownExecutable()
	if err != nil {
		return nil, err
	}
	standard := [3]uintptr{0, 1, 2}
	for i, f := range g.options.Files {
		if f != nil {
			standard[i] = f.Fd() // which makes it block, as programs expect of theirs
		}
	}
	var begun guardian.Begun
	err = guards.fork(g, func() (pid int, err error) {
		begun, err = beginGuardian(path, guardian.StillInherited(inherited()), standard, g.options.Detached)
		return begun.PID, err
	})
	return &begun, err
}

var reserved sync.Once

// reserve makes sure that this process does not end for want of a thread when it has to kill what has taken all of them. A
// process with many runs has as many threads as it needed so far, and more processors.
func reserve(many bool) {
	const processors, waiting = 4, 2 // waiting in the kernel, beside those that run
	reserved.Do(func() {
		n := runtime.GOMAXPROCS(0)
		if !many && n > processors {
			n = processors
			runtime.GOMAXPROCS(n)
		}
		tree.ReserveThreads(min(n, processors) + waiting)
	})
}

// firstChildren are those of a process with many runs, which forks nothing but guardians.
var firstChildren = sync.OnceValue(knownChildren)

// knownChildren are those that we have before the guardian is forked: none of the run's. Mostly there is none,
// which one system call tells.
func knownChildren() map[int]uint64 {
	if tree.Childless() {
		return nil
	}
	known := make(map[int]uint64)
	for _, p := range tree.Children() {
		known[p.PID] = p.Started
	}
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
