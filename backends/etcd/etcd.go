// Package etcd keeps leases and records in etcd. Each job has three keys, which change together in one transaction. The lease key is
// attached to a lease of etcd's and goes away with it; the record and its beat stay.
//
// Every request reads the keys, decides, and writes if none has changed since. If one has, it decides again. A renewal first extends
// etcd's lease, and then writes a beat in a transaction that requires the lease key to be unchanged. The first half alone would not
// prove that the lease is there: a member that was cut off, or that led before, may extend a lease that is gone, and an etcd lease
// outlives its key.
//
// etcd shows no clock. If a lease key is gone without a release, because the holder died or somebody deleted the key, a candidate is
// granted when it has seen no new beat for the record's TTL on its own clock. This also protects a run whose lease the server lost by a
// fault.
//
// The package does not promise that anything tells of a run whose lease and record were both deleted by hand, or replaced by those of
// an older snapshot.
package etcd

import (
	"context"
	"sync/atomic"
	"time"

	"github.com/leaderrun/leaderrun/backends"
	"github.com/leaderrun/leaderrun/backends/etcd/rpc"
	"github.com/leaderrun/leaderrun/internal/backendurl"
)

const (
	// etcd's shortest lease is one and a half of its election time-out, in whole seconds: 2 s unless it is
	// configured (server/lease/lessor.go, minLeaseTTL). A shorter one would be made longer anyway.
	minTTL = 2 * time.Second
	// The leader looks for expired leases every 500 ms and ends them through the log (server/lease/lessor.go).
	expiryLag = time.Second
	// How long a step whose answer is known goes on to tidy up behind it.
	tidying = 500 * time.Millisecond
)

// store is one client of one etcd cluster.
type store struct {
	cfg     *config
	client  client
	cluster atomic.Uint64 // that answered first; 0: none has
	faults  backendurl.Faults
	spoken  atomic.Bool // a member has answered as one of etcd
}

// client is what the store asks: an *rpc.Client, but for tests.
type client interface {
	Range(ctx context.Context, r rpc.Range) (rpc.RangeReply, error)
	Txn(ctx context.Context, t rpc.Txn) (rpc.TxnReply, error)
	Grant(ctx context.Context, id, ttl int64) (rpc.LeaseReply, error)
	KeepAlive(ctx context.Context, id int64) (rpc.LeaseReply, error)
	Revoke(ctx context.Context, id int64) error
	TimeToLive(ctx context.Context, id int64) (rpc.LeaseReply, error)
	Watch(ctx context.Context, key, end []byte, f func(rpc.WatchReply)) error
	Status(ctx context.Context) (rpc.Status, error)
	RotateEndpoint()
	Close() error
}

// Open returns a driver for a backend URL. It reads the certificates that the URL names and asks nobody. Its
// errors are *backends.PermanentError and never show a password.
func Open(rawURL string) (*backends.Engine, error) { return backends.OpenEngine(newStore(rawURL)) }

func newStore(rawURL string) (*store, error) {
	cfg, err := parseURL(rawURL)
	if err != nil {
		return nil, err
	}
	u := cfg.url
	s := &store{cfg: cfg}
	s.client = rpc.New(rpc.Config{Endpoints: u.Addrs, TLS: cfg.tls, Login: u.Login, Ended: s.ended})
	return s, nil
}

// Traits implements backends.Store.
func (s *store) Traits() backends.Traits {
	return backends.Traits{
		URL: s.cfg.url.Redacted(), Prefix: s.cfg.prefix,
		Limits: backends.Limits{
			MinTTL:        minTTL,
			ExpiryLag:     func(time.Duration) time.Duration { return expiryLag },
			BySilence:     true,
			HolderWatches: true,
		},
	}
}

// tx is one request: Read in read.go, Extend in extend.go, Swap in swap.go.
type tx struct {
	*store
	q     backends.Request
	spare *spare        // for a claim
	mine  *state        // as it was when its lease was to be extended; nil: it was not
	ttl   time.Duration // of that lease; 0: a member knows no such one
}

// Begin implements backends.Store. A first claim takes two round trips, because it asks for a new lease of etcd's while it reads the
// keys. A candidate that was refused before only reads, because the next answer is probably the same; if it is not, the claim takes
// three. A renewal takes two, one after the other: its transaction would not prove anything if it came before the keep-alive. A hedge
// goes to another member.
func (s *store) Begin(ctx context.Context, q backends.Request) backends.Tx {
	t := &tx{store: s, q: q, spare: &spare{store: s, ttl: q.TTL}}
	if q.Op == backends.ToClaim && q.Seen == (backends.LastSeen{}) {
		t.spare.request(ctx)
	}
	if q.IsHedge {
		s.client.RotateEndpoint()
	}
	return t
}

// End implements backends.Tx.
func (t *tx) End(ctx context.Context, _ error) { t.spare.discard(ctx) }

// Rekey implements backends.Rekeyer.
func (s *store) Rekey(rawURL string) error { return s.cfg.url.Rekey(rawURL) }

// Close implements backends.Store.
func (s *store) Close() error { return s.client.Close() }
