package servers

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"strconv"
	"strings"
	"testing"
)

// RedisByHand is a server ByHand that reads Redis' commands. answer gets the words of one, its name in small letters, and the
// server's port, and returns the bytes to say; "" is silence.
func RedisByHand(t testing.TB, answer func(words []string, port int) string) (addr string, down func()) {
	t.Helper()
	return ByHand(t, func(conn net.Conn) {
		requests := bufio.NewReader(conn)
		for {
			words, err := command(requests)
			if err != nil {
				return
			}
			here, _ := conn.LocalAddr().(*net.TCPAddr)
			if _, err := io.WriteString(conn, answer(words, here.Port)); err != nil {
				return
			}
		}
	})
}

// command reads one command.
func command(r *bufio.Reader) ([]string, error) {
	number := func(kind byte) (int, error) {
		line, err := r.ReadString('\n')
		if err != nil {
			return 0, err
		}
		if line[0] != kind {
			return 0, fmt.Errorf("no %c: %q", kind, line)
		}
		return strconv.Atoi(strings.TrimSpace(line[1:]))
	}
	n, err := number('*')
	if err != nil || n < 1 {
		return nil, fmt.Errorf("a command of %d words: %w", n, err)
	}
	words := make([]string, n)
	for i := range words {
		length, err := number('$')
		if err != nil {
			return nil, err
		}
		text := make([]byte, length+2)
		if _, err := io.ReadFull(r, text); err != nil {
			return nil, err
		}
		words[i] = string(text[:length])
	}
	words[0] = strings.ToLower(words[0])
	return words, nil
}
