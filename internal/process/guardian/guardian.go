// Package guardian is the small process between leaderrun and the command: parent and subreaper of the
// run, with an absolute deadline. It ends the run when nobody extends the deadline, whatever has
// happened to the wrapper. It never talks to the network.
//
// It is the same executable, started as `lr-guard FD`, and runs from init: Go initialises packages in
// the order of their import paths as soon as what they import is ready, so a leaf package that imports
// next to nothing runs before the clients of the backends cost anything. A test pins the imports.
// Outside of that process this package is only the control channel's two ends and their messages.
//
// Promise: from the moment its clock shows Deadline.Kill, everything the command started and that the
// kernel can kill is being killed, and Dead is told only when the kernel says that nothing is left.
// Not promised: what left the tree with the help of another process (cron, at, a service manager, a
// container engine) is not in the tree. A process in uninterruptible sleep or a frozen cgroup outlives
// SIGKILL until it wakes; that is told as Unconfirmed.
package guardian

import (
	"os"
	"os/signal"
	"runtime"
	"syscall"

	"github.com/leaderrun/leaderrun/internal/boottime"
	"github.com/leaderrun/leaderrun/internal/process/tree"
)

// Name is the guardian's argv[0] and the name that ps(1) shows, so that `pkill -9 leaderrun` and
// `pkill -f COMMAND` leave it alone.
const Name = "lr-guard"

// Exit codes of the guardian. Nobody acts on them; they show in a trace.
const (
	exitDone   = 0
	exitFailed = 1
)

// init is the guardian's main function: see the package comment and docs/adr.
func init() {
	fd, ok := controlDescriptor(os.Args)
	if !ok {
		return // this is leaderrun, or a program that links it
	}
	// PDEATHSIG follows the thread that forked (prctl(2)): the main thread lives as long as the process.
	runtime.LockOSThread()
	syscall.Exit(guard(fd))
}

// controlDescriptor tells whether this process was started as a guardian. Somebody may have a link of
// that name to the program, so the descriptor must also be what a wrapper passes.
func controlDescriptor(args []string) (int, bool) {
	const minimum, maximum = 3, 1 << 20
	if len(args) != 2 || args[0] != Name || len(os.Environ()) != 0 {
		return 0, false
	}
	fd := 0
	for _, c := range []byte(args[1]) {
		if c < '0' || c > '9' || fd > maximum {
			return 0, false
		}
		fd = fd*10 + int(c-'0')
	}
	if fd < minimum {
		return 0, false
	}
	kind, err := syscall.GetsockoptInt(fd, syscall.SOL_SOCKET, syscall.SO_TYPE)
	if err != nil || kind != syscall.SOCK_STREAM {
		return 0, false
	}
	address, err := syscall.Getpeername(fd)
	if err != nil {
		return 0, false
	}
	_, unix := address.(*syscall.SockaddrUnix)
	return fd, unix
}

func guard(fd int) int {
	syscall.CloseOnExec(fd)
	children, dropped := dropSignals()
	setName(Name)
	if err := tree.Adopt(); err != nil {
		return exitFailed
	}
	conn, err := NewConn(fd)
	if err != nil {
		return exitFailed
	}
	timer, err := boottime.NewTimer()
	if err != nil {
		return exitFailed
	}
	g := &guardian{conn: conn, timer: timer, children: children, dropped: dropped, inherited: Inherited()}
	return g.run()
}

// fatal are the signals that Go's runtime acts on unless somebody asks for them: it ends, dumps or stops.
// It catches all others too and drops them (runtime/sigtab_linux_generic.go). The list is short because
// asking for a signal costs a round trip between two threads.
var fatal = []syscall.Signal{
	syscall.SIGHUP, syscall.SIGINT, syscall.SIGQUIT, syscall.SIGABRT, syscall.SIGTERM,
	syscall.SIGTSTP, syscall.SIGTTIN, syscall.SIGTTOU,
}

// dropSignals makes every signal that can be caught come to nothing, and returns the channel that tells
// of children. The signals are not set to be ignored, because exec would hand that on to the command
// (execve(2)), while caught ones are reset. What was ignored from the start (nohup) stays so, for the
// command too.
//
// It goes on beside the rest; dropped is closed when it is done, and the command waits for that: it is to find
// the same dispositions every time.
func dropSignals() (children chan os.Signal, dropped chan struct{}) {
	children, dropped = make(chan os.Signal, 1), make(chan struct{})
	signal.Notify(children, syscall.SIGCHLD)
	go func() {
		defer close(dropped)
		drain := make(chan os.Signal, 1)
		for _, n := range fatal {
			if !signal.Ignored(n) {
				signal.Notify(drain, n)
			}
		}
	}()
	return children, dropped
}
