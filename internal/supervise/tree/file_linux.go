package tree

import "syscall"

// The kernel's files are read by plain system calls: they never block, and the guardian has better
// uses for its memory than a poller's descriptor a file.

// ReadFile returns what is in a file of the kernel's, nil where it cannot be read.
func ReadFile(path string) []byte {
	text, _ := readFile(path)
	return text
}

func readFile(path string) ([]byte, error) {
	fd, err := open(path, syscall.O_RDONLY)
	if err != nil {
		return nil, err
	}
	defer syscall.Close(fd)
	var text []byte
	var chunk [4096]byte
	for {
		n, err := syscall.Read(fd, chunk[:])
		if err == syscall.EINTR {
			continue
		}
		if n <= 0 || err != nil {
			return text, err
		}
		text = append(text, chunk[:n]...)
	}
}

func writeFile(path, text string) error {
	fd, err := open(path, syscall.O_WRONLY)
	if err != nil {
		return err
	}
	defer syscall.Close(fd)
	_, err = syscall.Write(fd, []byte(text))
	return err
}

func exists(path string) bool {
	var st syscall.Stat_t
	return syscall.Stat(path, &st) == nil
}

// number takes a decimal number off the front of text, after blanks.
func number(text []byte) (n int, rest []byte, ok bool) {
	for len(text) > 0 && (text[0] == ' ' || text[0] == '\n') {
		text = text[1:]
	}
	negative := len(text) > 0 && text[0] == '-'
	if negative {
		text = text[1:]
	}
	for len(text) > 0 && '0' <= text[0] && text[0] <= '9' {
		n, text, ok = n*10+int(text[0]-'0'), text[1:], true
	}
	if negative {
		n = -n
	}
	return n, text, ok
}

func contains(text []byte, part string) bool {
	for at := range max(len(text)-len(part)+1, 0) {
		if string(text[at:at+len(part)]) == part {
			return true
		}
	}
	return false
}
