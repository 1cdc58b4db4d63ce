package consul

import (
	"context"
	"net"
	"testing"
	"time"

	"github.com/leaderrun/leaderrun/backends"
	"github.com/leaderrun/leaderrun/test/suite"
)

// TestCloseEndsRequests: an agent takes connections and is frozen. Whoever closes the driver waits for none of them.
func TestCloseEndsRequests(t *testing.T) {
	t.Parallel()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	d := open(t, "consul://"+l.Addr().String())
	ctx, cancel := context.WithTimeout(t.Context(), 10*suite.Patience) // or the driver would set a limit
	defer cancel()
	ended := make(chan error, 1)
	go func() {
		_, err := d.Acquire(ctx, claim("job", "a", time.Minute))
		ended <- err
	}()
	conn, err := l.Accept()
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close() }()
	if _, err := conn.Read(make([]byte, 1)); err != nil { // the request is on its way
		t.Fatal(err)
	}
	if err := d.Close(); err != nil {
		t.Error(err)
	}
	select {
	case err := <-ended:
		if err == nil || backends.IsAnswer(err) {
			t.Errorf("%v, want an unknown outcome", err)
		}
	case <-time.After(suite.Patience):
		t.Error("the request goes on")
	}
}
