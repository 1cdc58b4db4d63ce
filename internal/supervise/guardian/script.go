package guardian

import "syscall"

// shell runs a script without a first line that names another program.
const shell = "/bin/sh"

// isText says whether a file that the kernel cannot execute is a script: bash looks as far into it for a NUL byte in its first line, which
// a program for another machine has. dir is where a relative path begins; "": the working directory.
func isText(dir, path string) bool {
	if dir != "" && path[0] != '/' {
		path = dir + "/" + path
	}
	fd, err := syscall.Open(path, syscall.O_RDONLY|syscall.O_CLOEXEC, 0)
	if err != nil {
		return false
	}
	defer syscall.Close(fd)
	var start [80]byte
	n, err := syscall.Read(fd, start[:])
	for _, c := range start[:max(n, 0)] {
		switch c {
		case '\n':
			return true
		case 0:
			return false
		}
	}
	return err == nil
}
