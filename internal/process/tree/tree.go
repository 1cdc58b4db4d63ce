// Package tree finds and ends every process that descends from this one, also what double-forked,
// called setsid(2) or left its process group. It works by two independent means: a cgroup of its own
// where one can be made (Cgroup), and the walk over the descendants of a subreaper (List, Sweep).
//
// The guardian uses this package before the rest of the program is initialised: it may import only
// what the test of package guardian allows.
package tree

import "syscall"

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

// sweepRounds bounds how often Sweep looks for processes that were forked while it stopped others.
// A tree that outruns this is killed anyway and swept again.
const sweepRounds = 16

// Sweep sends SIGKILL to everything that list returns. It stops all of it first: a stopped process
// cannot fork (fork(2) is restarted while a signal is pending), so the tree stops growing and none
// escapes between the listing and the kill. It returns how many it found; call it until none is left.
func Sweep(list func() []Process) int {
	stopped := make(map[int]bool)
	for range sweepRounds {
		grown := false
		for _, p := range list() {
			if !stopped[p.PID] && !p.Zombie() {
				stopped[p.PID], grown = true, true
				Signal(p, syscall.SIGSTOP)
			}
		}
		if !grown {
			break
		}
	}
	// Listed afresh: a number seen earlier may belong to somebody else by now.
	found := 0
	for _, p := range list() {
		if !p.Zombie() {
			found++
			Signal(p, syscall.SIGKILL)
		}
	}
	return found
}
