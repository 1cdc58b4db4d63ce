package guardian

import "syscall"

// searched is how far descriptors are looked for where the system has no list of them.
const searched = 256

const noFile = ^uintptr(0)

func inheritedBelow(limit int) []int {
	const firstOther = 3
	var fds []int
	for fd := firstOther; fd < limit; fd++ {
		if passedOn(fd) {
			fds = append(fds, fd)
		}
	}
	return fds
}

// passedOn tells whether the descriptor is open and not close-on-exec.
func passedOn(fd int) bool {
	flags, _, errno := syscall.Syscall(syscall.SYS_FCNTL, uintptr(fd), syscall.F_GETFD, 0)
	return errno == 0 && flags&syscall.FD_CLOEXEC == 0
}

// StillInherited drops the descriptors that were closed since they were listed.
func StillInherited(fds []int) []int {
	var open []int
	for _, fd := range fds {
		if passedOn(fd) {
			open = append(open, fd)
		}
	}
	return open
}

// FileTable returns the ProcAttr.Files under which a child gets stdin, stdout, stderr and our own
// descriptors, each at its own number. Inherited ones pass by themselves, except in the table, where
// they must be listed; and right behind it, where syscall.ForkExec puts one of its own.
func FileTable(inherited, own []int) []uintptr {
	const behind = 2
	last := 2
	for _, fd := range own {
		last = max(last, fd)
	}
	for grown := true; grown; {
		grown = false
		for _, fd := range inherited {
			if fd > last && fd <= last+behind {
				last, grown = fd, true
			}
		}
	}
	files := []uintptr{0, 1, 2}
	for len(files) <= last {
		files = append(files, noFile)
	}
	for _, list := range [][]int{inherited, own} {
		for _, fd := range list {
			if fd <= last {
				files[fd] = uintptr(fd)
			}
		}
	}
	return files
}
