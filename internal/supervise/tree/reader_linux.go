package tree

import (
	"syscall"
	"unsafe"
)

// reader reads what proc(5) says of processes, into memory of its own. Its system calls do not block, and Go's scheduler
// is not told of them: it would start threads beside.
type reader struct {
	path    [64]byte
	entries [4096]byte // of a directory
	numbers [4096]byte // of a list of children
	line    [1024]byte // of a stat file: what we want of it has less than 600
	blind   bool       // something that is there could not be read
}

// missed notes why something could not be read. It is blind unless that is gone, or not for us to see.
func (r *reader) missed(errno syscall.Errno) {
	switch errno {
	case syscall.ENOENT, syscall.ESRCH, syscall.EPERM, syscall.EACCES:
	default:
		r.blind = true
	}
}

// openat opens /proc, /proc/PID/NAME or /proc/PID/task/TID/NAME, for numbers above 0.
func (r *reader) openat(pid, tid int, name string, flags int) (fd int, ok bool) {
	path := append(r.path[:0], "/proc"...)
	if pid > 0 {
		path = appendNumber(append(path, '/'), pid)
	}
	if tid > 0 {
		path = appendNumber(append(path, "/task/"...), tid)
	}
	path = append(append(path, name...), 0)
	for {
		const atCwd = -100 // AT_FDCWD
		at := atCwd
		opened, _, errno := syscall.RawSyscall6(syscall.SYS_OPENAT, uintptr(at), uintptr(unsafe.Pointer(&path[0])),
			uintptr(flags|syscall.O_CLOEXEC), 0, 0, 0)
		switch errno {
		case syscall.EINTR:
			continue
		case 0:
			return int(opened), true
		}
		r.missed(errno)
		return 0, false
	}
}

// read returns 0 at the end and after an error.
func (r *reader) read(trap uintptr, fd int, into []byte) int {
	for {
		n, _, errno := syscall.RawSyscall(trap, uintptr(fd), uintptr(unsafe.Pointer(&into[0])), uintptr(len(into)))
		if errno != syscall.EINTR {
			if errno != 0 {
				r.missed(errno)
				return 0
			}
			return int(n)
		}
	}
}

func closeFile(fd int) { _, _, _ = syscall.RawSyscall(syscall.SYS_CLOSE, uintptr(fd), 0, 0) }

// processes calls visit for every process of the machine, mostly in the order of their numbers. It is blind unless this one is
// among them.
func (r *reader) processes(visit func(pid int)) {
	self, seen := syscall.Getpid(), false
	r.directory(0, "", func(pid int) {
		seen = seen || pid == self
		visit(pid)
	})
	r.blind = r.blind || !seen
}

// children calls visit for every child of every thread of pid: a child belongs to the thread that forked it. False: there is no
// such process any more, or it cannot be read.
func (r *reader) children(pid int, visit func(child int)) bool {
	return r.directory(pid, "/task", func(tid int) {
		fd, ok := r.openat(pid, tid, "/children", syscall.O_RDONLY)
		if !ok {
			return
		}
		defer closeFile(fd)
		child := 0
		for {
			n := r.read(syscall.SYS_READ, fd, r.numbers[:])
			if n == 0 {
				return
			}
			for _, c := range r.numbers[:n] {
				if '0' <= c && c <= '9' {
					child = child*10 + int(c-'0')
				} else if child > 0 { // a blank follows each number
					visit(child)
					child = 0
				}
			}
		}
	})
}

// directory calls visit for every entry of a directory that is a number. False: it has none.
func (r *reader) directory(pid int, name string, visit func(number int)) (some bool) {
	fd, ok := r.openat(pid, 0, name, syscall.O_RDONLY|syscall.O_DIRECTORY)
	if !ok {
		return false
	}
	defer closeFile(fd)
	for {
		n := r.read(syscall.SYS_GETDENTS64, fd, r.entries[:])
		if n == 0 {
			return some
		}
		for at := 0; at < n; {
			// struct linux_dirent64 of getdents64(2).
			const length, text = 16, 19
			entry := r.entries[at:]
			size := int(*(*uint16)(unsafe.Pointer(&entry[length])))
			number := 0
			for _, c := range entry[text:size] {
				if c < '0' || c > '9' {
					if c != 0 {
						number = 0
					}
					break
				}
				number = number*10 + int(c-'0')
			}
			if number > 0 {
				some = true
				visit(number)
			}
			at += size
		}
	}
}

// Fields of proc_pid_stat(5), counted from the one behind the command's name.
const (
	statParent  = 1
	statGroup   = 2
	statSession = 3
	statThreads = 17
	statStarted = 19
)

// stat reads one process. False: there is none of that number.
func (r *reader) stat(pid int) (Process, bool) { return r.statOf(pid, 0) }

// statOf reads one thread of a process; 0: the process.
func (r *reader) statOf(pid, tid int) (Process, bool) {
	fd, ok := r.openat(pid, tid, "/stat", syscall.O_RDONLY)
	if !ok {
		return Process{}, false
	}
	defer closeFile(fd)
	text := r.line[:r.read(syscall.SYS_READ, fd, r.line[:])]
	// The name is in parentheses and may itself contain some.
	end := len(text) - 1
	for end >= 0 && text[end] != ')' {
		end--
	}
	if end < 0 || end+2 >= len(text) {
		return Process{}, false
	}
	p := Process{PID: pid, State: text[end+2]}
	rest := text[end+3:]
	for field := statParent; field <= statStarted; field++ {
		n, after, ok := number(rest)
		if !ok {
			return Process{}, false
		}
		rest = after
		switch field {
		case statParent:
			p.Parent = n
		case statGroup:
			p.Group = n
		case statSession:
			p.Session = n
		case statThreads:
			p.Threads = n
		case statStarted:
			p.Started = uint64(n)
		}
	}
	return p, true
}

// Stat reads one process. False: there is none of that number.
func Stat(pid int) (Process, bool) {
	var r reader
	return r.stat(pid)
}

func appendNumber(text []byte, n int) []byte {
	var digits [20]byte
	at := len(digits)
	for {
		at--
		digits[at] = byte('0' + n%10)
		if n /= 10; n == 0 {
			return append(text, digits[at:]...)
		}
	}
}
