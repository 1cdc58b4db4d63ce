package rpc_test

import (
	"context"
	"errors"
	"fmt"
	"testing"

	clientv3 "go.etcd.io/etcd/client/v3"

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

// next returns the next n events.
func (w *watching) next(t *testing.T, n int) []rpc.Event {
	t.Helper()
	var all []rpc.Event
	for ctx := within(t); len(all) < n; {
		select {
		case r := <-w.replies:
			all = append(all, r.Events...)
		case err := <-w.ended:
			t.Fatal(err)
		case <-ctx.Done():
			t.Fatalf("got %v only", all)
		}
	}
	return all
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

func TestAWatchSeesWhatTheOfficialClientWrites(t *testing.T) {
	t.Parallel()
	s := servers.Etcd(t, servers.EtcdOptions{})
	c, o := client(t, s.Endpoint()), official(t, clientv3.Config{}, s.Endpoint())
	put, err := o.Put(within(t), "k", "old")
	if err != nil {
		t.Fatal(err)
	}
	first := put.Header.Revision
	w := watch(t, c, "k", "").stands(t)
	tree := watch(t, c, "j", "l").stands(t)

	lease, err := o.Grant(within(t), 100)
	if err != nil {
		t.Fatal(err)
	}
	for _, step := range []func() error{
		func() error { _, err := o.Put(within(t), "k", "new", clientv3.WithLease(lease.ID)); return err },
		func() error { _, err := o.Put(within(t), "jj", ""); return err },
		func() error { _, err := o.Revoke(within(t), lease.ID); return err },
	} {
		if err := step(); err != nil {
			t.Fatal(err)
		}
	}
	want := []string{
		fmt.Sprintf("false k new %d %d", first, first+1),
		fmt.Sprintf("false jj  %d %d", first+2, first+2),
		fmt.Sprintf("true k  0 %d", first+3),
	}
	text := func(events []rpc.Event) []string {
		var all []string
		for _, e := range events {
			all = append(all, fmt.Sprintf("%v %s %s %d %d", e.Deleted, e.KV.Key, e.KV.Value, e.KV.CreateRevision, e.KV.ModRevision))
		}
		return all
	}
	for name, x := range map[string]struct {
		watch *watching
		want  []string
	}{
		"now":  {w, []string{want[0], want[2]}},
		"tree": {tree, want},
	} {
		if got := text(x.watch.next(t, len(x.want))); fmt.Sprint(got) != fmt.Sprint(x.want) {
			t.Errorf("%s: got %v, want %v", name, got, x.want)
		}
		x.watch.stop()
		if err := x.watch.end(t); !errors.Is(err, context.Canceled) {
			t.Errorf("%s: ended with %v", name, err)
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

func TestAWatchEndsWithItsClient(t *testing.T) {
	t.Parallel()
	s := servers.Etcd(t, servers.EtcdOptions{})
	c := client(t, s.Endpoint())
	w := watch(t, c, "k", "").stands(t)
	if err := c.Close(); err != nil {
		t.Fatal(err)
	}
	if err := w.end(t); err == nil || errors.Is(err, context.Canceled) {
		t.Fatalf("got %v", err)
	}
	if _, err := c.Range(t.Context(), rpc.Range{Key: []byte("k")}); err == nil {
		t.Fatal("a closed client asks")
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
