package servers

import (
	"context"
	"net"
	"os"
	"path/filepath"
	"runtime"

	"golang.org/x/sys/unix"
)

// dialFrom connects from inside a network namespace, or from here if it is "". A socket belongs for good to the
// namespace in which it was made.
func dialFrom(ctx context.Context, netns, network, addr string) (net.Conn, error) {
	if netns == "" {
		return (&net.Dialer{}).DialContext(ctx, network, addr)
	}
	type result struct {
		conn net.Conn
		err  error
	}
	done := make(chan result)
	go func() {
		runtime.LockOSThread() // and no unlock: the thread ends with this goroutine, so that no other runs in there
		conn, err := func() (net.Conn, error) {
			f, err := os.Open(filepath.Join("/run/netns", netns))
			if err != nil {
				return nil, err
			}
			defer func() { _ = f.Close() }()
			if err := unix.Setns(int(f.Fd()), unix.CLONE_NEWNET); err != nil {
				return nil, os.NewSyscallError("setns", err)
			}
			return (&net.Dialer{}).DialContext(ctx, network, addr)
		}()
		done <- result{conn, err}
	}()
	r := <-done
	return r.conn, r.err
}
