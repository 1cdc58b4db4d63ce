package rpc_test

import (
	"context"
	"errors"
	"testing"

	"github.com/leaderrun/leaderrun/backends/etcd/rpc"
	"github.com/leaderrun/leaderrun/test/servers"
)

// watching is a watch that runs beside the test.
type watching struct {
	stop    context.CancelFunc
	replies chan rpc.WatchReply
	ended   chan error
}

func watch(t *testing.T, c *rpc.Client, key, end string) *watching {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	w := &watching{stop: cancel, replies: make(chan rpc.WatchReply, 100), ended: make(chan error, 1)}
	var last []byte
	if end != "" {
		last = []byte(end)
	}
	go func() {
		w.ended <- c.Watch(ctx, []byte(key), last, func(r rpc.WatchReply) { w.replies <- r })
	}()
	return w
}

// stands waits until the watch is one.
func (w *watching) stands(t *testing.T) *watching {
	t.Helper()
	select {
	case r := <-w.replies:
		if !r.Created || len(r.Events) != 0 {
			t.Fatalf("got %+v first", r)
		}
	case err := <-w.ended:
		t.Fatal(err)
	case <-within(t).Done():
		t.Fatal("no reply")
	}
	return w
}

// end waits until the watch has ended, and returns why.
func (w *watching) end(t *testing.T) error {
	t.Helper()
	for ctx := within(t); ; {
		select {
		case err := <-w.ended:
			return err
		case <-w.replies:
		case <-ctx.Done():
			t.Fatal("the watch goes on")
		}
	}
}

func TestAWatchEndsWithItsMember(t *testing.T) {
	t.Parallel()
	s := servers.Etcd(t, servers.EtcdOptions{})
	w := watch(t, client(t, s.Endpoint()), "k", "").stands(t)
	s.Kill()
	if err := w.end(t); err == nil || errors.Is(err, context.Canceled) {
		t.Fatalf("got %v", err)
	}
}

func TestAMemberWithoutLeaderRefusesAndEndsWatches(t *testing.T) {
	t.Parallel()
	set := servers.EtcdCluster(t, 3)
	c := client(t, set.Members[0].Endpoint())
	w := watch(t, c, "k", "").stands(t)
	set.Members[1].Kill()
	set.Members[2].Kill()
	var e *rpc.Error
	if err := w.end(t); !errors.As(err, &e) || e.Code != rpc.Unavailable || e.Refused() {
		t.Fatalf("got %v", err)
	}
	if _, err := c.Range(within(t), rpc.Range{Key: []byte("k")}); !errors.As(err, &e) || e.Message != "etcdserver: no leader" {
		t.Fatalf("got %v", err)
	}
	if _, err := c.KeepAlive(within(t), 1); !errors.As(err, &e) || e.Message != "etcdserver: no leader" {
		t.Fatalf("got %v", err)
	}
}

// Its connection looks open: a ping without an answer tells.
func TestAWatchOverAHalfOpenConnectionEnds(t *testing.T) {
	t.Parallel()
	s := servers.Etcd(t, servers.EtcdOptions{})
	p := servers.NewProxy(t, s.Endpoint())
	c := client(t, p.Addr(), s.Endpoint())
	w := watch(t, c, "k", "").stands(t)
	p.DropAll(true)
	if err := w.end(t); err == nil || errors.Is(err, context.Canceled) {
		t.Fatalf("got %v", err)
	}
	if _, err := c.Range(within(t), rpc.Range{Key: []byte("k")}); err != nil {
		t.Fatalf("at the next endpoint: %v", err)
	}
}
