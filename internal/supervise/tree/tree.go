// Package tree finds and ends every process that descends from this one, also what double-forked,
// called setsid(2) or left its process group. It works by two independent means: a cgroup of its own
// where one can be made (Cgroup), and the walk over the descendants of a subreaper (List, Sweeper).
//
// The guardian uses this package before the rest of the program is initialised: it may import only
// what the test of package guardian allows.
package tree

import "time"

const (
	firstPoll = time.Millisecond
	// SlowestPoll is the longest time between two looks at what is being ended.
	SlowestPoll = 100 * time.Millisecond
	// LongestStorm is how long a tree that grows while it is killed is killed again without a longer pause.
	LongestStorm = 10 * time.Second
)

// NextPoll returns how long to wait for the next look at a tree that is being ended, when the last wait was that long; 0: there was none.
// A tree in a storm grows while it is killed: it is not left alone for longer than at first.
func NextPoll(last time.Duration, storm bool) time.Duration {
	if storm {
		return firstPoll
	}
	return min(max(2*last, firstPoll), SlowestPoll)
}

// Process is one entry of the process table.
type Process struct {
	PID, Parent, Group, Session int
	State                       byte // as in proc_pid_stat(5): 'T' is stopped, 'Z' is a zombie
	Threads                     int
	Started                     uint64 // clock ticks since boot; with PID it names the process for good
}

// Zombie tells whether nothing is left of the process but its exit status. One whose main thread has ended
// while others run shows the same state (pthread_exit(3) in main), and its threads.
func (p Process) Zombie() bool { return p.State == 'X' || p.State == 'Z' && p.Threads <= 1 }

// Work is what a Sweeper is to end.
type Work struct {
	Roots []int              // everything that descends from these processes, but not they themselves
	Skip  func(Process) bool // without the subtrees for whose top it returns true; nil: without none
	// Scan finds them by reading the whole process table. Else they are found by the lists of children, which
	// proc_tid_children(5) calls unreliable unless everything is stopped.
	Scan bool
	// AtOnce kills what is found as soon as it is found, and stops nothing before: for who may have to leave in between.
	AtOnce bool
	// Alive is called again and again while the work goes on; nil: nobody is.
	Alive func()
}
