package rpc_test

import (
	"errors"
	"fmt"
	"testing"

	clientv3 "go.etcd.io/etcd/client/v3"
	"google.golang.org/grpc/codes"

	"github.com/leaderrun/leaderrun/backends/etcd/rpc"
	"github.com/leaderrun/leaderrun/test/servers"
)

// official returns etcd's own client, which says what is right.
func official(t *testing.T, cfg clientv3.Config, endpoints ...string) *clientv3.Client {
	t.Helper()
	cfg.Endpoints, cfg.DialTimeout = endpoints, enough
	c, err := clientv3.New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	return c
}

func TestALeaseThatIsTooShortIsRoundedUp(t *testing.T) {
	t.Parallel()
	s := servers.Etcd(t, servers.EtcdOptions{})
	if l, err := client(t, s.Endpoint()).Grant(within(t), 5, 1); err != nil || l.TTL != 2 {
		t.Fatalf("got %+v, %v", l, err)
	}
}

func TestALeaseThatDoesNotExist(t *testing.T) {
	t.Parallel()
	s := servers.Etcd(t, servers.EtcdOptions{})
	c := client(t, s.Endpoint())
	ctx := within(t)
	if l, err := c.KeepAlive(ctx, 1); err != nil || l.TTL != 0 {
		t.Errorf("got %+v, %v", l, err)
	}
	if l, err := c.TimeToLive(ctx, 1); err != nil || l.TTL != -1 {
		t.Errorf("got %+v, %v", l, err)
	}
	_, err := c.Txn(ctx, rpc.Txn{Then: []rpc.Op{{Put: &rpc.Put{Key: []byte("k"), Lease: 1}}}})
	for _, err := range []error{c.Revoke(ctx, 1), err} {
		var status *rpc.Error
		if !errors.As(err, &status) || status.Message != "etcdserver: requested lease not found" || !status.Refused() || status.Credentials() {
			t.Errorf("got %v", err)
		}
	}
}

// An etcd without space applies a Txn and says that it has none.
func TestWithoutSpaceTheOutcomeIsOpen(t *testing.T) {
	t.Parallel()
	s := servers.Etcd(t, servers.EtcdOptions{Args: []string{"--quota-backend-bytes", "200000"}})
	c := client(t, s.Endpoint())
	var e *rpc.Error
	var i int
	for value := make([]byte, 1000); e == nil; i++ {
		_, err := c.Txn(within(t), rpc.Txn{Then: []rpc.Op{{Put: &rpc.Put{Key: fmt.Append(nil, i), Value: value}}}})
		if err != nil && !errors.As(err, &e) {
			t.Fatal(err)
		}
	}
	if e.Code != rpc.Code(codes.ResourceExhausted) || e.Refused() {
		t.Fatalf("got %v", e)
	}
}

// TestAReplyThatIsTooLong: a value may be as long as etcd takes it. A reply that is longer than any that is asked for is refused, and
// what comes after it is read.
func TestAReplyThatIsTooLong(t *testing.T) {
	t.Parallel()
	s := servers.Etcd(t, servers.EtcdOptions{})
	c := client(t, s.Endpoint())
	value := make([]byte, 3<<19-100)
	for i := range 2 {
		if _, err := c.Txn(within(t), rpc.Txn{Then: []rpc.Op{{Put: &rpc.Put{Key: fmt.Append(nil, "k", i), Value: value}}}}); err != nil {
			t.Fatal(err)
		}
	}
	all := rpc.Range{Key: []byte("k"), End: []byte("l"), Limit: 1}
	if r, err := c.Range(within(t), all); err != nil || len(r.KVs) != 1 || !r.More {
		t.Fatalf("got %d keys, %v", len(r.KVs), err)
	}
	var e *rpc.Error
	all.Limit = 0
	if _, err := c.Range(within(t), all); err == nil || errors.As(err, &e) {
		t.Fatalf("got %v", err)
	}
	if r, err := c.Range(within(t), rpc.Range{Key: []byte("k0")}); err != nil || len(r.KVs) != 1 {
		t.Fatalf("afterwards: got %d keys, %v", len(r.KVs), err)
	}
}
