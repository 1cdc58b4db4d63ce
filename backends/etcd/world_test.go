package etcd

import (
	"context"
	"testing"

	"github.com/leaderrun/leaderrun/backends/etcd/rpc"
	"github.com/leaderrun/leaderrun/test/servers"
	"github.com/leaderrun/leaderrun/test/suite"
)

// world is a server with an operator and two hosts.
type world struct {
	suite.Steps
	operator operator
	d, other *driver
	server   *servers.EtcdServer
}

func newWorld(t *testing.T) *world {
	t.Helper()
	t.Parallel()
	s := servers.Etcd(t, servers.EtcdOptions{UnsafeNoFsync: true})
	return &world{Steps: suite.On(t), operator: operator{open(t, s.URL()).store}, d: open(t, s.URL()), other: open(t, s.URL()), server: s}
}

// runs checks that so many runs of a job have a token.
func (w *world) runs(job string, want int) {
	w.Helper()
	r := w.operator.state(w, job).record
	if len(r.Runs) != want {
		w.Errorf("%d runs, want %d: %+v", len(r.Runs), want, r.Runs)
	}
}

// ended waits until etcd has ended a lease.
func (w *world) ended(lease int64) {
	w.Helper()
	servers.Eventually(w, "the lease ends", func() bool {
		reply, err := w.operator.client.TimeToLive(w.Context(), lease)
		return err == nil && reply.TTL < 0
	})
}

// between lets a test act before and after each request of a driver. The names of requests are read, swap,
// grant, keepalive, revoke, left and version.
type between struct {
	client
	before func(request string)
	after  func(request string) error // an error: the reply is lost
}

func intercept(d *driver, before func(string), after func(string) error) {
	d.store.client = &between{client: d.store.client, before: before, after: after}
}

func pass[T any](b *between, request string, ask func() (T, error)) (T, error) {
	if b.before != nil {
		b.before(request)
	}
	reply, err := ask()
	if b.after != nil {
		if lost := b.after(request); lost != nil {
			var none T
			return none, lost
		}
	}
	return reply, err
}

func (b *between) Txn(ctx context.Context, t rpc.Txn) (rpc.TxnReply, error) {
	request := "swap"
	if len(t.If) == 0 {
		request = "read"
	}
	return pass(b, request, func() (rpc.TxnReply, error) { return b.client.Txn(ctx, t) })
}

func (b *between) Grant(ctx context.Context, id, ttl int64) (rpc.LeaseReply, error) {
	return pass(b, "grant", func() (rpc.LeaseReply, error) { return b.client.Grant(ctx, id, ttl) })
}

func (b *between) KeepAlive(ctx context.Context, id int64) (rpc.LeaseReply, error) {
	return pass(b, "keepalive", func() (rpc.LeaseReply, error) { return b.client.KeepAlive(ctx, id) })
}

func (b *between) TimeToLive(ctx context.Context, id int64) (rpc.LeaseReply, error) {
	return pass(b, "left", func() (rpc.LeaseReply, error) { return b.client.TimeToLive(ctx, id) })
}

func (b *between) Status(ctx context.Context) (rpc.Status, error) {
	return pass(b, "status", func() (rpc.Status, error) { return b.client.Status(ctx) })
}

func (b *between) Revoke(ctx context.Context, id int64) error {
	_, err := pass(b, "revoke", func() (struct{}, error) { return struct{}{}, b.client.Revoke(ctx, id) })
	return err
}
