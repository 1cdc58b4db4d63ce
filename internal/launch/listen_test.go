package launch

import (
	"context"
	"net"
	"testing"

	"github.com/leaderrun/leaderrun/test/waits"
)

// Whoever names addresses of IPv4 means them alone.
func TestListenTCP(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithTimeout(t.Context(), waits.Patience)
	defer cancel()
	for address, both := range map[string]bool{"0.0.0.0:0": false, ":0": true, "[::]:0": true, "127.0.0.1:0": false} {
		listener, err := ListenTCP(address)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = listener.Close() })
		_, port, _ := net.SplitHostPort(listener.Addr().String())
		for host, want := range map[string]bool{"127.0.0.1": true, "::1": both} {
			if _, err := net.Listen("tcp", "[::1]:0"); err != nil && host == "::1" {
				continue // this host has no IPv6
			}
			conn, err := new(net.Dialer).DialContext(ctx, "tcp", net.JoinHostPort(host, port))
			if err == nil {
				conn.Close()
			}
			if (err == nil) != want {
				t.Errorf("%s: %s: %v", address, host, err)
			}
		}
	}
}
