//go:build unix

package tree

import "syscall"

func open(path string, flags int) (int, error) {
	for {
		fd, err := syscall.Open(path, flags|syscall.O_CLOEXEC, 0)
		if err != syscall.EINTR {
			return fd, err
		}
	}
}

// Names lists what is in a directory.
func Names(dir string) ([]string, error) {
	fd, err := open(dir, syscall.O_RDONLY|syscall.O_DIRECTORY)
	if err != nil {
		return nil, err
	}
	defer syscall.Close(fd)
	var list []string
	var chunk [4096]byte
	for {
		n, err := syscall.ReadDirent(fd, chunk[:])
		if err == syscall.EINTR {
			continue
		}
		if n <= 0 || err != nil {
			return list, err
		}
		_, _, list = syscall.ParseDirent(chunk[:n], -1, list)
	}
}
