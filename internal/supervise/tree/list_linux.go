package tree

import (
	"os"
	"syscall"
)

// prSetChildSubreaper is PR_SET_CHILD_SUBREAPER of prctl(2).
const prSetChildSubreaper = 36

// Adopt makes this process the new parent of every descendant whose own parent dies
// (PR_SET_CHILD_SUBREAPER, prctl(2)): nothing can leave the tree by forking twice.
func Adopt() error {
	if _, _, errno := syscall.RawSyscall6(syscall.SYS_PRCTL, prSetChildSubreaper, 1, 0, 0, 0, 0); errno != 0 {
		return os.NewSyscallError("prctl", errno)
	}
	return nil
}

// AllKinds is __WALL of wait4(2): children whose exit signal is not SIGCHLD count too, or ECHILD would not mean that none is left.
const AllKinds = 0x40000000

// Childless tells whether this process has no child at all, of whatever kind, dead ones included.
func Childless() bool { return lookForChild(syscall.WNOHANG) == syscall.ECHILD }

// AwaitChild waits until a child of whatever kind can be waited for, or, where stops says so, was stopped. False: there is none, or the
// kernel is too old.
func AwaitChild(stops bool) bool {
	options := 0
	if stops {
		options = syscall.WUNTRACED
	}
	return lookForChild(options) == 0
}

// lookForChild calls waitid(2) for any child, whose status is left to be taken.
func lookForChild(options int) syscall.Errno {
	const (
		anyChild = 0          // P_ALL
		exited   = 0x00000004 // WEXITED
		unreaped = 0x01000000 // WNOWAIT
	)
	for {
		_, _, errno := syscall.Syscall6(syscall.SYS_WAITID, anyChild, 0, 0, uintptr(options|exited|unreaped|AllKinds), 0, 0)
		if errno != syscall.EINTR {
			return errno
		}
	}
}

// List returns the descendants of this process, zombies included. The listing is a snapshot: it can miss what is forked meanwhile.
func List() []Process {
	var r reader
	return r.walk(syscall.Getpid(), nil, r.lister())
}

// Children returns the children of this process, as List.
func Children() (found []Process) {
	var r reader
	r.walk(syscall.Getpid(), func(p Process) bool {
		found = append(found, p)
		return true
	}, r.lister())
	return found
}

// lister returns what lists the children of a process. A kernel that was built without CONFIG_PROC_CHILDREN has no lists of them.
func (r *reader) lister() func(pid int) []int {
	if !exists("/proc/thread-self/children") {
		return r.scanned()
	}
	return r.childrenOf
}

// Scan returns the descendants of root, without the subtrees for whose top skip returns true; skip may be nil. It reads the whole process
// table, where List saw less than wait4(2) did: proc_tid_children(5) calls its file unreliable unless everything is stopped. all says
// that nothing was missed because it could not be read: else it proves nothing that none was found.
func Scan(root int, skip func(Process) bool) (found []Process, all bool) {
	var r reader
	found = r.walk(root, skip, r.scanned())
	return found, !r.blind
}

func (r *reader) walk(root int, skip func(Process) bool, children func(int) []int) []Process {
	var found []Process
	seen := map[int]bool{root: true}
	for queue := []int{root}; len(queue) > 0; queue = queue[1:] {
		for _, pid := range children(queue[0]) {
			if seen[pid] {
				continue
			}
			seen[pid] = true
			p, ok := r.stat(pid)
			if !ok || (skip != nil && skip(p)) {
				continue
			}
			found = append(found, p)
			queue = append(queue, pid)
		}
	}
	return found
}

func (r *reader) childrenOf(pid int) []int {
	var pids []int
	r.children(pid, func(child int) { pids = append(pids, child) })
	return pids
}

// ForkedBy lists the children that a thread of this process has forked and nobody has waited for. Orphans that come to this
// process are the main thread's. False: it is not known, by a kernel without CONFIG_PROC_CHILDREN or for want of a descriptor.
func ForkedBy(thread int) (pids []int, known bool) {
	rest, err := readFile(string(append(appendNumber([]byte("/proc/self/task/"), thread), "/children"...)))
	for {
		n, after, ok := number(rest)
		if !ok {
			return pids, err == nil
		}
		pids, rest = append(pids, n), after
	}
}

// scanned reads the parent of every process there is, once.
func (r *reader) scanned() func(int) []int {
	children := make(map[int][]int)
	r.processes(func(pid int) {
		if p, ok := r.stat(pid); ok {
			children[p.Parent] = append(children[p.Parent], pid)
		}
	})
	return func(pid int) []int { return children[pid] }
}
