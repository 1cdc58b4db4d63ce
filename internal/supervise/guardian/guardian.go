// Package guardian is the small process between leaderrun and the command: parent and subreaper of the
// run, with an absolute deadline. It ends the run when nobody extends the deadline, whatever has
// happened to the wrapper. It never talks to the network.
//
// It is the same executable, started as `lr-guard FD HOLDER`, and runs from init: Go initialises packages in
// the order of their import paths as soon as what they import is ready, so a leaf package that imports
// next to nothing runs before the clients of the backends cost anything. A test pins the imports.
// HOLDER is nobody at first, and the holder of the run from the start of the command on: whatever the command starts can see in /proc
// which runs it is inside, also where sudo or su has cleared the environment.
// Outside of that process this package is only the control channel's two ends and their messages.
//
// Promise: from the moment its clock shows Deadline.Kill, everything the command started and that the
// kernel can kill is being killed, and Dead is told only when the kernel says that nothing is left.
// Not promised: what left the tree with the help of another process (cron, at, a service manager, a
// container engine) is not in the tree. A process in uninterruptible sleep or a frozen cgroup outlives
// SIGKILL until it wakes; that is told as Unconfirmed.
//
// # Phases
//
//	phase     what happens                              next phase  what the guardian does
//	--------  ----------------------------------------  ----------  -------------------------------------------
//	waiting   Start, before its Term                    guarding    starts the command
//	guarding  Extend                                    guarding    moves the deadline, only forward
//	          Term                                      guarding    SIGTERM
//	          a signal, or Terminate                    guarding    passes the signal on, or SIGTERM
//	          the wrapper dies                          guarding    SIGTERM, and SIGKILL after the grace
//	          the command has ended, something is left  guarding    SIGTERM, and SIGKILL after a second at most
//	          the command has ended, nothing is left    dead
//	          it has ended, and a tracer keeps it       killing     SIGKILL to all that is left
//	          Kill, a grace is over, or the wrapper     killing     SIGKILL to the whole tree
//	          asks for it
//	killing   something is left                         killing     SIGKILL again and again
//	          nothing is left, or a tracer keeps it     dead
//	dead      the wrapper is dead, or stopped past the  dead        unlocks the files of the run
//	          deadline
//
// SIGKILL comes at Kill at the latest, whatever else is due. In waiting and dead the guardian leaves as soon as the wrapper is dead or
// sends it away, and in dead also when it has told everything and has no locks to keep.
package guardian

import (
	"os"
	"runtime"
	"syscall"

	"github.com/leaderrun/leaderrun/internal/supervise/tree"
)

// Name is the guardian's argv[0] and the name that ps(1) shows, so that `pkill -9 leaderrun` and
// `pkill -f COMMAND` leave it alone.
const Name = "lr-guard"

// nobody is the guardian's last argument as long as no command was started. It has the length of a holder's id.
const nobody = "--------------------------------"

// Exit codes of the guardian. Nobody acts on them; they show in a trace.
const (
	exitDone   = 0
	exitFailed = 1
)

// init is the guardian's main function: see the package comment and docs/design/adr.
func init() {
	fd, ok := controlDescriptor(os.Args)
	if !ok {
		return // this is leaderrun, or a program that links it
	}
	// PDEATHSIG follows the thread that forked (prctl(2)): every init runs on the main thread (runtime.LockOSThread),
	// which lives as long as the process.
	syscall.Exit(guard(fd))
}

// controlDescriptor tells whether this process was started as a guardian. Somebody may have a link of
// that name to the program, so the descriptor must also be what a wrapper passes.
func controlDescriptor(args []string) (int, bool) {
	const minimum, maximum = 3, 1 << 20
	if len(args) != 3 || args[0] != Name || len(os.Environ()) != 0 {
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

// spareThreads are for what can happen beside the main thread on one processor: a wait for a child, and the collector of
// garbage.
const spareThreads = 2

func guard(fd int) int {
	syscall.CloseOnExec(fd)
	dropSignals()
	setName(Name)
	if err := tree.Adopt(); err != nil {
		return exitFailed
	}
	events, conn, err := listen(fd)
	if err != nil {
		return exitFailed
	}
	runtime.GOMAXPROCS(1)
	tree.ReserveThreads(spareThreads)
	g := &guardian{conn: conn, events: events, inherited: Inherited(), sweeper: tree.NewSweeper()}
	return g.run()
}
