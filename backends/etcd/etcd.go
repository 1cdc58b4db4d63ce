// Package etcd keeps leases and records in etcd: three keys per job, changed together by one transaction. The
// lease key is attached to a lease of etcd's and goes with it; the record and its beat stay.
//
// Every step reads the keys, decides, and writes if none has changed since; else it decides again on what they
// are. A renewal extends the lease and then writes a beat in a transaction that finds the lease key unchanged. So it
// also proves what the first half alone does not: an etcd that was cut off or has lost its leadership may extend a
// lease that is gone, and a lease outlives its key.
//
// etcd has no clock that it shows. Where a lease key is gone without a release, because the holder died or
// somebody deleted the key, a candidate is granted when it has seen no beat for the record's TTL on its own
// clock. The same holds a run whose lease was lost by a fault of the server.
//
// What it does not promise: whoever deletes lease and record by hand, or brings back an older snapshot, has
// removed every trace of a run.
package etcd

import (
	"context"
	"errors"
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

var (
	_ backends.Driver    = (*Driver)(nil)
	_ backends.Watcher   = (*Driver)(nil)
	_ backends.Inspector = (*Driver)(nil)
	_ backends.Operator  = (*Driver)(nil)
)

// Driver is one client of one etcd cluster.
type Driver struct {
	cfg     *config
	client  client
	cluster atomic.Uint64 // that answered first; 0: none has
	faults  backendurl.Faults
	spoken  atomic.Bool // a member has answered as one of etcd

	life    context.Context // ends with Close, and all watches with it
	endLife context.CancelFunc
}

// client is what the driver asks: an *rpc.Client, but for tests.
type client interface {
	Range(ctx context.Context, r rpc.Range) (rpc.RangeReply, error)
	Txn(ctx context.Context, t rpc.Txn) (rpc.TxnReply, error)
	Grant(ctx context.Context, id, ttl int64) (rpc.LeaseReply, error)
	KeepAlive(ctx context.Context, id int64) (rpc.LeaseReply, error)
	Revoke(ctx context.Context, id int64) error
	TimeToLive(ctx context.Context, id int64) (rpc.LeaseReply, error)
	Watch(ctx context.Context, key, end []byte, from int64, f func(rpc.WatchReply)) error
	Version(ctx context.Context) (string, error)
	Elsewhere()
	Close() error
}

// Open returns a driver for a backend URL. It reads the certificates that the URL names and asks nobody. Its
// errors are *backends.PermanentError and never show a password.
func Open(rawURL string) (*Driver, error) {
	cfg, err := parseURL(rawURL)
	if err != nil {
		return nil, err
	}
	u := cfg.url
	d := &Driver{cfg: cfg}
	d.client = rpc.New(rpc.Config{Endpoints: u.Addrs, TLS: cfg.tls, User: u.User, Password: u.Password, Ended: d.ended})
	d.life, d.endLife = context.WithCancel(context.Background())
	return d, nil
}

// Redacted returns the URL without its password.
func (d *Driver) Redacted() string { return d.cfg.url.Redacted() }

// String is Redacted.
func (d *Driver) String() string { return d.Redacted() }

// Prefix returns what the names of all keys begin with.
func (d *Driver) Prefix() string { return d.cfg.prefix }

// Limits implements backends.Driver.
func (d *Driver) Limits() backends.Limits {
	return backends.Limits{
		MinTTL:        minTTL,
		ExpiryLag:     func(time.Duration) time.Duration { return expiryLag },
		HolderWatches: true,
	}
}

// newer orders what two renewals of one grant have left.
func newer(last, now *state) bool { return last.beaten < now.beaten }

// Renew implements backends.Driver: two round trips, one after the other. The second would not prove anything
// if it came before the first. A renewal beside one that stays silent goes to another member.
func (d *Driver) Renew(ctx context.Context, g backends.Grant) (backends.Signal, error) {
	defer backends.HoldingOf[*state](g).Hedge(d.client.Elsewhere)()
	signal, err := d.renew(ctx, g)
	if err != nil {
		return backends.Signal{}, backends.About("renew", g.Claim.Job, err)
	}
	return signal, nil
}

func (d *Driver) renew(ctx context.Context, g backends.Grant) (backends.Signal, error) {
	h := backends.HoldingOf[*state](g)
	known, err := h.Recall(ctx, g.Claim.Job, d.read)
	if err != nil {
		return backends.Signal{}, err
	}
	if !known.held || known.label != backends.LabelOf(g) { // a lease of somebody else is not even extended
		return backends.Signal{}, backends.ErrLost
	}
	ttl, err := d.keepAlive(ctx, known.lease)
	switch {
	case errors.Is(err, errNoLease):
		return backends.Signal{}, d.confirmLoss(ctx, g, known)
	case err != nil:
		return backends.Signal{}, err
	case ttl < g.TTL:
		return backends.Signal{}, errReply
	}
	for s := known; ; {
		renewal := backends.DecideRenew(s.view(g.TTL), g)
		if renewal.Lost || !s.sameLease(known) {
			return backends.Signal{}, backends.ErrLost
		}
		now, done, err := d.swap(ctx, g.Claim.Job, s, change{record: renewal.Record, alive: true})
		if err != nil {
			return backends.Signal{}, err
		}
		if done {
			h.Saw(known, now)
			return renewal.Signal, nil
		}
		s = now
	}
}

// errNoLease says that a member knows no such lease.
var errNoLease = errors.New("the member that was asked knows no such lease")

// confirmLoss asks most members what one has said. One that led before it was frozen, and wakes up, answers from
// what it knew then, for a moment (seen with 3.6.16).
func (d *Driver) confirmLoss(ctx context.Context, g backends.Grant, mine *state) error {
	now, err := d.read(ctx, g.Claim.Job)
	switch {
	case err != nil:
		return err
	case !now.sameLease(mine):
		return backends.ErrLost
	}
	d.client.Elsewhere()
	return errNoLease
}

// keepAlive gives a lease its whole TTL again, or says errNoLease.
func (d *Driver) keepAlive(ctx context.Context, lease int64) (time.Duration, error) {
	reply, err := d.client.KeepAlive(ctx, lease)
	switch {
	case err != nil:
		return 0, d.classify(err)
	case reply.ID != lease:
		return 0, errReply
	case reply.TTL <= 0:
		return 0, errNoLease
	}
	return time.Duration(reply.TTL) * time.Second, nil
}

// Finish implements backends.Driver: one round trip, and one to tidy up.
func (d *Driver) Finish(ctx context.Context, g backends.Grant, o backends.Outcome) error {
	err := d.steps().End(ctx, g.Claim.Job, backends.HoldingOf[*state](g), func(v backends.View) backends.Ending {
		return backends.DecideFinish(v, g, o)
	})
	if err != nil {
		return backends.About("finish", g.Claim.Job, err)
	}
	return nil
}

// Abandon implements backends.Driver.
func (d *Driver) Abandon(ctx context.Context, c backends.Claim) error {
	err := d.steps().End(ctx, c.Job, nil, func(v backends.View) backends.Ending { return backends.DecideAbandon(v, c) })
	if err != nil {
		return backends.About("abandon", c.Job, err)
	}
	return nil
}

// steps are how ends and orders are carried out.
func (d *Driver) steps() backends.Steps[*state] {
	return backends.Steps[*state]{
		Read: d.read, View: func(s *state) backends.View { return s.view(0) }, Foreign: func(s *state) error { return s.foreign },
		Swap: func(ctx context.Context, job string, s *state, w backends.Write) (*state, bool, error) {
			c := change{record: w.Record, alive: w.Beat, still: w.Still}
			if w.Release {
				c.more = []rpc.Op{{Delete: d.cfg.keys(job).lease}}
			}
			now, done, err := d.swap(ctx, job, s, c)
			if done && w.Release {
				d.revoke(ctx, s.lease)
			}
			return now, done, err
		},
	}
}

// revoke ends a lease that holds no key any more. If that fails, it expires by itself.
func (d *Driver) revoke(ctx context.Context, lease int64) {
	ctx, cancel := context.WithTimeout(ctx, tidying)
	defer cancel()
	_ = d.client.Revoke(ctx, lease)
}

// Close implements backends.Driver. It ends requests that are on their way.
func (d *Driver) Close() error {
	d.endLife()
	return d.client.Close()
}
