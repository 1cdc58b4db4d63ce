package rpc_test

import (
	"errors"
	"fmt"
	"testing"

	clientv3 "go.etcd.io/etcd/client/v3"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

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

// TestErrorsAreThoseOfTheOfficialClient compares the status that both see.
func TestErrorsAreThoseOfTheOfficialClient(t *testing.T) {
	s := servers.Etcd(t, servers.EtcdOptions{})
	c, o := client(t, s.Endpoint()), official(t, clientv3.Config{}, s.Endpoint())
	ctx := within(t)
	if _, err := c.Grant(ctx, 9, 100); err != nil {
		t.Fatal(err)
	}
	grant := func(id, ttl int64) (ours, theirs error) {
		_, ours = c.Grant(ctx, id, ttl)
		_, theirs = o.Grant(ctx, ttl)
		return ours, theirs
	}
	txn := func(ops ...rpc.Op) error {
		_, err := c.Txn(ctx, rpc.Txn{Then: ops})
		return err
	}
	for name, ask := range map[string]func() (ours, theirs error){
		"a lease that is too long": func() (error, error) { return grant(10, 10_000_000_000) },
		"a lease that is not there": func() (error, error) {
			_, theirs := o.Revoke(ctx, 1)
			return c.Revoke(ctx, 1), theirs
		},
		"an empty key": func() (error, error) {
			_, theirs := o.Txn(ctx).Then(clientv3.OpPut("", "")).Commit()
			return txn(rpc.Op{Put: &rpc.Put{}}), theirs
		},
		"a key written twice": func() (error, error) {
			_, theirs := o.Txn(ctx).Then(clientv3.OpPut("k", ""), clientv3.OpDelete("k")).Commit()
			return txn(rpc.Op{Put: &rpc.Put{Key: []byte("k")}}, rpc.Op{Delete: []byte("k")}), theirs
		},
		"a value that is too large": func() (error, error) {
			v := make([]byte, 1_700_000)
			_, theirs := o.Put(ctx, "k", string(v))
			return txn(rpc.Op{Put: &rpc.Put{Key: []byte("k"), Value: v}}), theirs
		},
		"a range that ends before it begins": func() (error, error) {
			_, theirs := o.Get(ctx, "")
			_, ours := c.Range(ctx, rpc.Range{})
			return ours, theirs
		},
	} {
		t.Run(name, func(t *testing.T) {
			ours, theirs := ask()
			var e *rpc.Error
			if !errors.As(ours, &e) || theirs == nil || !e.Refused() {
				t.Fatalf("ours %v, theirs %v", ours, theirs)
			}
			if status.Code(theirs) != codes.Unknown && codes.Code(e.Code) != status.Code(theirs) || e.Message != theirs.Error() {
				t.Fatalf("ours %d %q, theirs %d %q", e.Code, e.Message, status.Code(theirs), theirs)
			}
		})
	}
	var e *rpc.Error
	if _, err := c.Grant(ctx, 9, 100); !errors.As(err, &e) || e.Message != "etcdserver: lease already exists" || !e.Refused() {
		t.Errorf("got %v", err)
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
