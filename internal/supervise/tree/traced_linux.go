package tree

import "syscall"

// TracedOnly tells whether all that is left below a root has ended, and is there only because a process outside traces it (ptrace(2)):
// wait4(2) does not show such a one until its tracer has looked. It runs no more code. tracer is the number of one of the tracers; 0:
// something else is left, or nothing, or it is not known. skip is that of Work.
//
// It looks twice. What a process has forked belongs to us before that process can be seen to have ended (exit(2), "subreaper"), so the
// second look finds what the first one has missed.
func TracedOnly(root int, skip func(Process) bool) (tracer int) {
	var r reader
	first, tracer := r.traced(root, skip)
	second, again := r.traced(root, skip)
	if again == 0 || first != second {
		return 0
	}
	return tracer
}

// traced returns how many processes are left below a root, and a tracer if all have ended and are traced.
func (r *reader) traced(root int, skip func(Process) bool) (count, tracer int) {
	found := r.walk(root, skip, r.scanned())
	if r.blind {
		return 0, 0
	}
	for _, p := range found {
		if tracer = tracerOf(p.PID); tracer == 0 || !r.ended(p) {
			return 0, 0
		}
	}
	return len(found), tracer
}

// ended tells whether all threads of a process have ended: those that are traced stay in the list.
func (r *reader) ended(p Process) bool {
	ended := func(state byte) bool { return state == 'Z' || state == 'X' }
	all := ended(p.State)
	return r.directory(p.PID, "/task", func(tid int) {
		thread, ok := r.statOf(p.PID, tid)
		all = all && (!ok || ended(thread.State))
	}) && all
}

// tracerOf returns the number of the process that traces another one; 0: none, or it cannot be read.
func tracerOf(pid int) int {
	const field = "\nTracerPid:\t"
	text := ReadFile(string(append(appendNumber([]byte("/proc/"), pid), "/status"...)))
	for at := range max(len(text)-len(field), 0) {
		if string(text[at:at+len(field)]) == field {
			n, _, _ := number(text[at+len(field):])
			return n
		}
	}
	return 0
}

// WatchEnd returns a descriptor that can be read when a process of ours has ended (a pidfd), whoever traces it; -1: there is none.
func WatchEnd(pid int) (fd int) {
	opened, _, errno := syscall.RawSyscall(sysPidfdOpen, uintptr(pid), 0, 0)
	if errno != 0 {
		return -1
	}
	return int(opened)
}
