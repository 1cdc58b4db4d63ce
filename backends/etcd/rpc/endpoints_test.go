package rpc_test

import (
	"context"
	"errors"
	"net"
	"sync"
	"testing"
	"time"

	"github.com/leaderrun/leaderrun/backends/etcd/rpc"
	"github.com/leaderrun/leaderrun/test/servers"
)

// calls are all requests that can be sent.
var calls = map[string]func(context.Context, *rpc.Client) error{
	"Range": func(ctx context.Context, c *rpc.Client) error {
		_, err := c.Range(ctx, rpc.Range{Key: []byte("k")})
		return err
	},
	"Txn":        func(ctx context.Context, c *rpc.Client) error { _, err := c.Txn(ctx, rpc.Txn{}); return err },
	"Grant":      func(ctx context.Context, c *rpc.Client) error { _, err := c.Grant(ctx, 7, 100); return err },
	"KeepAlive":  func(ctx context.Context, c *rpc.Client) error { _, err := c.KeepAlive(ctx, 7); return err },
	"Revoke":     func(ctx context.Context, c *rpc.Client) error { return c.Revoke(ctx, 7) },
	"TimeToLive": func(ctx context.Context, c *rpc.Client) error { _, err := c.TimeToLive(ctx, 7); return err },
	"Watch": func(ctx context.Context, c *rpc.Client) error {
		return c.Watch(ctx, []byte("k"), nil, func(rpc.WatchReply) {})
	},
	"Status": func(ctx context.Context, c *rpc.Client) error { _, err := c.Status(ctx); return err },
}

// freeze stops a server, which takes effect a moment after the signal.
func freeze(t *testing.T, s *servers.EtcdServer) {
	t.Helper()
	probe := client(t, s.Endpoint())
	s.Stop(t)
	t.Cleanup(func() { s.Cont(t) })
	servers.Eventually(t, "the server is stopped", func() bool {
		_, err := probe.Status(soon(t))
		return err != nil
	})
}

// asked answers which server a client asks.
func asked(t *testing.T, c *rpc.Client) uint64 {
	t.Helper()
	r, err := c.Range(within(t), rpc.Range{Key: []byte("k")})
	if err != nil {
		t.Fatal(err)
	}
	return r.Header.MemberID
}

// The other failures of an endpoint, one request each.
func TestAFailureSwitchesTheEndpoint(t *testing.T) {
	t.Parallel()
	good := servers.Etcd(t, servers.EtcdOptions{})
	other := servers.Etcd(t, servers.EtcdOptions{})
	silent := servers.NewProxy(t, other.Endpoint())
	silent.DropReplies(true)
	closed, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	_ = closed.Close()
	unavailable := newFrames(t, func(_ byte, _ uint32, _ bool, c net.Conn) { _ = c.Close() })
	want := asked(t, client(t, good.Endpoint()))
	for name, bad := range map[string]string{
		"nobody listens":            closed.Addr().String(),
		"replies are swallowed":     silent.Addr(),
		"the connection is dropped": unavailable.addr,
		"the name does not exist":   "name.invalid:2379",
		"the port is missing":       "127.0.0.1",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := client(t, bad, good.Endpoint())
			ctx, cancel := context.WithTimeout(t.Context(), time.Second)
			defer cancel()
			if _, err := c.Range(ctx, rpc.Range{Key: []byte("k")}); err == nil {
				t.Fatal("no error")
			}
			if got := asked(t, c); got != want {
				t.Fatalf("asked %d, want %d", got, want)
			}
		})
	}
}

// Neither a refusal nor the caller's change of mind is a reason to go elsewhere.
func TestWhatDoesNotSwitchTheEndpoint(t *testing.T) {
	t.Parallel()
	a, b := servers.Etcd(t, servers.EtcdOptions{}), servers.Etcd(t, servers.EtcdOptions{})
	c := client(t, a.Endpoint(), b.Endpoint())
	first := asked(t, c)
	var e *rpc.Error
	if err := c.Revoke(within(t), 1); !errors.As(err, &e) {
		t.Fatalf("got %v", err)
	}
	freeze(t, a)
	ctx, cancel := context.WithCancel(t.Context())
	time.AfterFunc(20*time.Millisecond, cancel)
	if _, err := c.Range(ctx, rpc.Range{Key: []byte("k")}); !errors.Is(err, context.Canceled) {
		t.Fatalf("got %v", err)
	}
	a.Cont(t)
	if got := asked(t, c); got != first {
		t.Fatalf("asked %d, want %d", got, first)
	}
}

// TestRotatingEndsNoRequest: who asks for another connection takes none away from those that use one, or wait for it.
func TestRotatingEndsNoRequest(t *testing.T) {
	t.Parallel()
	s := servers.Etcd(t, servers.EtcdOptions{UnsafeNoFsync: true})
	c := client(t, s.Endpoint())
	var asking sync.WaitGroup
	for range 8 {
		asking.Go(func() {
			for range 30 {
				if _, err := c.Range(t.Context(), rpc.Range{Key: []byte("k")}); err != nil {
					t.Errorf("%v", err)
					return
				}
				c.RotateEndpoint()
			}
		})
	}
	asking.Wait()
}
