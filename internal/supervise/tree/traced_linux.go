package tree

import "syscall"

// TracedOnly tells whether all that is left below a root and in a cgroup runs no more code, and is there only because a process outside
// traces it (ptrace(2)): wait4(2) does not show such a one until its tracer has looked. tracer is the number of one of the tracers; 0:
// something else is left, or nothing, or it is not known. skip is that of Work.
//
// It looks twice. What a process has forked belongs to us before that process can be seen to have ended (exit(2), "subreaper"), so the
// second look finds what the first one has missed.
func TracedOnly(root int, skip func(Process) bool, c *Cgroup) (tracer int) {
	var r reader
	first, tracer := r.traced(root, skip)
	second, again := r.traced(root, skip)
	if again == 0 || first != second || !c.tracedOnly() {
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
		if tracer = r.keptBy(p); tracer == 0 {
			return 0, 0
		}
	}
	return len(found), tracer
}

// keptBy returns who traces a process of which no thread runs any more code of its own; 0: one does, or nobody traces it. It sends it
// one more SIGKILL.
//
// A thread that has ended stays in the list until its tracer has looked. A tracer can ask for more (PTRACE_O_TRACEEXIT), and stop it on
// its way out, from which nothing leads back. SIGKILL wakes a thread from any other stop, and is pending until it begins to end.
func (r *reader) keptBy(p Process) (tracer int) {
	over := r.signal(p, syscall.SIGKILL)
	some := r.directory(p.PID, "/task", func(tid int) {
		status := ReadFile(string(append(appendNumber(append(appendNumber([]byte("/proc/"), p.PID), "/task/"...), tid), "/status"...)))
		thread, ok := r.statOf(p.PID, tid)
		if !ok {
			return
		}
		by, _, _ := number(valueOf(status, "TracerPid"))
		if by > 0 {
			tracer = by
		}
		switch thread.State {
		case 'Z', 'X':
		case 't':
			over = over && by > 0 && !isPending(valueOf(status, "SigPnd"), syscall.SIGKILL)
		default:
			over = false
		}
	})
	if !some || !over {
		return 0
	}
	return tracer
}

// valueOf returns what follows the name of a field of proc_pid_status(5).
func valueOf(status []byte, name string) []byte {
	name = "\n" + name + ":\t"
	for at := range max(len(status)-len(name), 0) {
		if string(status[at:at+len(name)]) == name {
			return status[at+len(name):]
		}
	}
	return nil
}

// isPending looks for a signal below 33 in a mask of 16 hexadecimal digits. A mask that is none has every signal.
func isPending(mask []byte, sig syscall.Signal) bool {
	const digits = 16
	at := digits - 1 - (int(sig)-1)/4
	if len(mask) < digits {
		return true
	}
	digit := mask[at] - '0'
	if mask[at] >= 'a' {
		digit = mask[at] - 'a' + 10
	}
	return digit&(1<<((int(sig)-1)%4)) != 0
}

// WatchEnd returns a descriptor that can be read when a process of ours has ended (a pidfd), whoever traces it; -1: there is none.
func WatchEnd(pid int) (fd int) {
	opened, _, errno := syscall.RawSyscall(sysPidfdOpen, uintptr(pid), 0, 0)
	if errno != 0 {
		return -1
	}
	return int(opened)
}
