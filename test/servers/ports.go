package servers

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"path/filepath"
	"sync"
	"syscall"
	"testing"
)

// The ports that FreePort gives are below those that the kernel gives to connections, so that a server which is
// down for a moment finds its own free again.
const (
	firstPort = 20000
	blockSize = 100
	blocks    = 120
)

// ports are those of this process. Tests of several packages run beside each other, and the port of a server that
// is down for a moment must not become another test's: its clients would find a stranger there. So a process takes
// whole blocks, which it keeps until it ends, by a lock on a file each.
var ports struct {
	sync.Mutex
	next, end int
	held      []*os.File
}

// FreePort returns a port of the loopback interface that nobody listens on, over TCP or UDP, and that no other
// caller is given, also while nobody listens yet or any more.
func FreePort(t testing.TB) int {
	t.Helper()
	ports.Lock()
	defer ports.Unlock()
	for {
		for ports.next < ports.end {
			port := ports.next
			ports.next++
			if unused(port) {
				return port
			}
		}
		if err := takeBlock(); err != nil {
			t.Fatal(err)
		}
	}
}

// takeBlock takes the next block that no process has. It needs ports' mutex.
func takeBlock() error {
	dir := filepath.Join(os.TempDir(), fmt.Sprintf("leaderrun-test-ports-%d", os.Geteuid()))
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	start := rand.IntN(blocks)
	for i := range blocks {
		n := (start + i) % blocks
		f, err := os.OpenFile(filepath.Join(dir, fmt.Sprint(n)), os.O_CREATE|os.O_RDWR, 0o600)
		if err != nil {
			return err
		}
		if syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB) != nil {
			_ = f.Close()
			continue
		}
		ports.held = append(ports.held, f)
		ports.next, ports.end = firstPort+n*blockSize, firstPort+(n+1)*blockSize
		return nil
	}
	return errors.New("every block of ports is taken")
}

func unused(port int) bool {
	l, err := net.Listen("tcp", loopback(port))
	if err != nil {
		return false
	}
	defer l.Close()
	u, err := net.ListenPacket("udp", loopback(port))
	if err != nil {
		return false
	}
	_ = u.Close()
	return true
}
