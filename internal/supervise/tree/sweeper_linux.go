package tree

import (
	"syscall"
	"time"

	"github.com/leaderrun/leaderrun/internal/boottime"
)

const (
	// sweepMost is how many processes one sweep can remember. What was stopped by then is killed, and the next sweep
	// goes on.
	sweepMost = 2048
	// sweepPasses and freezeFor bound how long a sweep stops processes of a tree that grows meanwhile, before it kills them.
	sweepPasses = 16
	freezeFor   = 200 * time.Millisecond
)

// Sweeper ends trees of processes. It has reserved what it needs when it is made: a sweep allocates nothing, starts no
// thread and forks nothing, because a tree that forks without end leaves nothing for that. One goroutine may use it at a time.
type Sweeper struct {
	reader
	found [sweepMost]target     // in the order in which they were found: parents come before their children
	slots [2 * sweepMost]uint16 // of a hash table: where a number is in found, plus 1
	count int
	most  int // sweepMost
	full  bool
	moved bool // this pass has met what the passes before had not, or missed something

	unlisted bool // the kernel was built without CONFIG_PROC_CHILDREN

	reserve  [descriptors]int
	reserved int // of these are open
}

// descriptors is how many a sweep may need at a time: a list of threads, one of children, and a process; and one for others.
const descriptors = 4

type target struct {
	started     uint64
	pid, parent int32
	over        bool // a zombie, or gone: there is nothing to kill, and nothing below it
}

// NewSweeper reserves the memory, and the descriptors.
func NewSweeper() *Sweeper {
	s := &Sweeper{most: sweepMost, unlisted: !exists("/proc/thread-self/children")}
	for i := range s.found { // memory that was never written to is not there yet
		s.found[i].pid = 1
	}
	for i := range s.slots {
		s.slots[i] = 1
	}
	s.reset()
	s.Reserve()
	return s
}

// Release gives the reserved descriptors back, for a sweep and what belongs to it: there may be no others left.
func (s *Sweeper) Release() {
	for ; s.reserved > 0; s.reserved-- {
		_ = syscall.Close(s.reserve[s.reserved-1])
	}
}

// Reserve takes them again, as far as there are any.
func (s *Sweeper) Reserve() {
	for ; s.reserved < len(s.reserve); s.reserved++ {
		fd, err := syscall.EpollCreate1(syscall.EPOLL_CLOEXEC) // it needs no file
		if err != nil {
			return
		}
		s.reserve[s.reserved] = fd
	}
}

func (s *Sweeper) reset() {
	s.count, s.full = 0, false
	clear(s.slots[:])
}

// Kill sends SIGKILL to everything that w names. It stops all of it first, each process as soon as it is found: a
// stopped process cannot fork (fork(2) is restarted while a signal is pending), so the tree stops growing and none
// escapes. What was stopped is killed before Kill returns, whatever else it has missed.
//
// It returns how many processes it found, without zombies. calm says that a whole look showed nothing new, and nothing that
// ended under it: every process there is has got its SIGKILL, if it may be signalled. Call Kill until nothing is left.
func (s *Sweeper) Kill(w Work) (found int, calm bool) {
	s.reset()
	first := syscall.SIGSTOP
	if w.AtOnce {
		first = syscall.SIGKILL
	}
	late := boottime.Now().Add(freezeFor)
	for range sweepPasses {
		s.moved = false
		s.pass(&w, first)
		if calm = !s.moved; calm || s.full || boottime.Now() >= late {
			break
		}
	}
	s.ownChildren(&w, syscall.SIGKILL)
	for i := range s.found[:s.count] {
		q := &s.found[i]
		if q.over {
			continue
		}
		found++
		w.alive()
		s.signal(Process{PID: int(q.pid), Parent: int(q.parent), Started: q.started}, syscall.SIGKILL)
	}
	return found, calm && !s.blind
}

func (w *Work) alive() {
	if w.Alive != nil {
		w.Alive()
	}
}

// pass signals what was not found before.
func (s *Sweeper) pass(w *Work, sig syscall.Signal) {
	s.blind = false
	defer func() { s.moved = s.moved || s.blind }()
	s.ownChildren(w, sig)
	scan := w.Scan || s.unlisted
	look := func(pid int) {
		w.alive()
		if s.has(pid) {
			return
		}
		p, ok := s.stat(pid)
		switch {
		case !ok:
			s.moved = true // it has ended, and what it may have forked is somewhere else by now
		case !scan || s.descends(w, p.Parent):
			s.take(w, p, sig)
		}
	}
	if scan {
		s.processes(look)
		return
	}
	for _, root := range w.Roots {
		if !s.children(root, look) {
			s.moved = true
		}
	}
	for i := 0; i < s.count && !s.full; i++ {
		q := &s.found[i]
		if !q.over && !s.children(int(q.pid), look) {
			q.over = syscall.Kill(int(q.pid), 0) == syscall.ESRCH
			s.moved = true
		}
	}
}

// ownChildren signals our own children without a further look at them, if all are meant: a lineage that forks and ends, again
// and again, is hit only by who is faster. The number of a child stays its own until we wait for it.
func (s *Sweeper) ownChildren(w *Work, sig syscall.Signal) {
	if w.Skip == nil {
		self := syscall.Getpid()
		for _, root := range w.Roots {
			if root == self {
				s.children(self, func(pid int) { _ = syscall.Kill(pid, sig) })
			}
		}
	}
}

func (s *Sweeper) descends(w *Work, parent int) bool {
	for _, root := range w.Roots { //nolint:modernize // package slices would make the guardian start late
		if parent == root {
			return true
		}
	}
	return s.has(parent)
}

// take remembers and signals a process.
func (s *Sweeper) take(w *Work, p Process, sig syscall.Signal) {
	if w.Skip != nil && w.Skip(p) {
		return
	}
	if s.count == s.most {
		s.full, s.moved = true, true
		return
	}
	s.moved = true
	s.found[s.count] = target{started: p.Started, pid: int32(p.PID), parent: int32(p.Parent), over: p.Zombie()}
	s.count++
	*s.slot(p.PID) = uint16(s.count)
	if !p.Zombie() {
		s.signal(p, sig)
	}
}

func (s *Sweeper) has(pid int) bool { return *s.slot(pid) != 0 }

// slot is where a number is in the hash table, or is to be. The table never gets full.
func (s *Sweeper) slot(pid int) *uint16 {
	for at := pid % len(s.slots); ; at = (at + 1) % len(s.slots) {
		if n := s.slots[at]; n == 0 || int(s.found[n-1].pid) == pid {
			return &s.slots[at]
		}
	}
}
