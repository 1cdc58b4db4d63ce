package etcd

import (
	"context"
	"errors"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/leaderrun/leaderrun/backends"
	"github.com/leaderrun/leaderrun/backends/etcd/rpc"
	"github.com/leaderrun/leaderrun/test/servers"
)

var errLost = errors.New("the reply was lost")

// TestGrantToOneWhoIsTooLate: a candidate is stopped between its two steps for longer than its lease lives
// (etcd#11456, #9921, #10811). It is not granted, nothing is written, and it may try again.
func TestGrantToOneWhoIsTooLate(t *testing.T) {
	w := newWorld(t)
	var lease int64
	var slept atomic.Bool
	d := open(t, w.server.URL())
	c := newClaim("job")
	c.TTL = 2 * time.Second // its end is waited for
	intercept(d, func(request string) {
		if request == "swap" && slept.CompareAndSwap(false, true) {
			w.ended(lease)
		}
	}, nil)
	d.store.client.(*between).client = &noticing{client: d.store.client.(*between).client, lease: &lease}
	_, err := d.Acquire(t.Context(), c)
	if err == nil || backends.IsAnswer(err) {
		t.Fatalf("Acquire: %v, want an unknown outcome", err)
	}
	if s := w.operator.state(t, c.Job); s.held || s.written != 0 {
		t.Errorf("written: %+v", s)
	}
	w.Finish(d, w.Acquire(d, c))
	w.runs(c.Job, 1)
}

// noticing notes the lease that is asked for.
type noticing struct {
	client
	lease *int64
}

func (n *noticing) Grant(ctx context.Context, id, ttl int64) (rpc.LeaseReply, error) {
	*n.lease = id
	return n.client.Grant(ctx, id, ttl)
}

// TestRenewalConfirmedAfterRevoke: some versions answer a renewal with OK although the lease was revoked
// (etcd#14758, #20590). The transaction sees that the key is gone.
func TestRenewalConfirmedAfterRevoke(t *testing.T) {
	w := newWorld(t)
	g := w.Acquire(w.d, newClaim("job"))
	w.Renew(w.d, g)
	w.operator.revokeLease(t, "job")
	w.d.store.client = generous{w.d.store.client}
	_, err := w.d.Renew(t.Context(), g)
	w.WantLost("Renew", err)
}

// generous confirms every renewal.
type generous struct{ client }

func (generous) KeepAlive(_ context.Context, id int64) (rpc.LeaseReply, error) {
	return rpc.LeaseReply{ID: id, TTL: 600}, nil
}

// TestMemberThatSlept: one that led before it was frozen does not know a lease that was granted meanwhile, and says so.
// That is no loss.
func TestMemberThatSlept(t *testing.T) {
	w := newWorld(t)
	g := w.Acquire(w.d, newClaim("job"))
	awake := w.d.store.client
	asleep := &forgetful{client: awake}
	w.d.store.client = asleep
	if _, err := w.d.Renew(t.Context(), g); err == nil || errors.Is(err, backends.ErrLost) || backends.IsPermanent(err) {
		t.Errorf("Renew: %v, want an outcome that is not known", err)
	}
	if asleep.left != 1 {
		t.Errorf("went to another member %d times, want once", asleep.left)
	}
	w.d.store.client = awake
	w.Renew(w.d, g)
	w.operator.revokeLease(t, "job")
	_, err := w.d.Renew(t.Context(), g)
	w.WantLost("Renew", err)
}

// forgetful knows no lease.
type forgetful struct {
	client
	left int // how often it was left for another member
}

func (f *forgetful) RotateEndpoint() { f.left++; f.client.RotateEndpoint() }

func (*forgetful) KeepAlive(_ context.Context, id int64) (rpc.LeaseReply, error) {
	return rpc.LeaseReply{ID: id}, nil
}

// TestClaimSaidNotToBeApplied: the transaction of a claim was applied and is answered as if it were not. The claim
// finds itself, and keeps the lease that it is under.
func TestClaimSaidNotToBeApplied(t *testing.T) {
	w := newWorld(t)
	w.d.store.client = &denying{client: w.d.store.client}
	g := w.Acquire(w.d, newClaim("job"))
	w.Renew(w.d, g)
	w.runs("job", 1)
	w.Finish(w.d, g)
}

// denying says of the first transaction with conditions that they did not hold.
type denying struct {
	client
	done bool
}

func (d *denying) Txn(ctx context.Context, t rpc.Txn) (rpc.TxnReply, error) {
	reply, err := d.client.Txn(ctx, t)
	if d.done || len(t.If) == 0 || err != nil {
		return reply, err
	}
	d.done = true
	return d.client.Txn(ctx, rpc.Txn{Then: t.Else, If: []rpc.Compare{{Key: []byte("no such key"), Of: rpc.ModRevision, Value: 1}}, Else: t.Else})
}

// TestHedgedRenewal: a renewal beside one that stays silent does not wait on the same member.
func TestHedgedRenewal(t *testing.T) {
	w := newWorld(t)
	for name, more := range map[string]string{"two members": "," + w.server.Endpoint(), "one": ""} {
		proxy := servers.NewProxy(t, w.server.Endpoint())
		d := open(t, "etcd://"+proxy.Addr()+more)
		asked := make(chan struct{}, 9)
		intercept(d, func(request string) {
			if request == "keepalive" {
				asked <- struct{}{}
			}
		}, nil)
		g := w.Acquire(d, newClaim(name))
		proxy.DropAll(true)
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		silent := make(chan error)
		go func() {
			_, err := d.Renew(ctx, g)
			silent <- err
		}()
		<-asked
		if more == "" { // the old connection stays silent, a new one does not
			proxy.DropAll(false)
			w.Renew(d, g)
		} else {
			w.Renew(d, g)
			proxy.DropAll(false)
		}
		cancel()
		<-silent
		w.Finish(d, g)
	}
}

// TestTwoClustersInOneClaim: what one of them has said counts for nothing in the other, also where it is free in both.
func TestTwoClustersInOneClaim(t *testing.T) {
	w := newWorld(t)
	stranger := servers.Etcd(t, servers.EtcdOptions{UnsafeNoFsync: true})
	d := open(t, "etcd://"+w.server.Endpoint()+","+stranger.Endpoint())
	intercept(d, func(request string) {
		if request == "grant" {
			d.store.client.RotateEndpoint()
		}
	}, nil)
	c := newClaim("job")
	c.Seen = backends.LastSeen{Token: 1} // it has been refused before, so it reads first
	if _, err := d.Acquire(t.Context(), c); !backends.IsPermanent(err) || !strings.Contains(err.Error(), "different etcd clusters") {
		t.Errorf("Acquire: %v", err)
	}
}
