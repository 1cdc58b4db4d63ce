// Package consul keeps leases and records in Consul: a lock and a record per job, two keys that change together
// in one transaction, and a session that holds the lock.
//
// Whoever runs a job has the lock by a session that is renewed with it. A claim reads both keys, decides, makes a
// session if it is to be granted, and writes both in one transaction that finds them as they were read. Every
// renewal writes a beat into the record, for the day on which the session ends before its holder does: see
// state.view, where it says what proves a death.
//
// What it does not promise: a Consul that is restored from a snapshot, or loses its data, forgets leases; whoever
// deletes lock and record by hand has removed every trace of a run.
package consul

import (
	"context"
	"errors"
	"time"

	"github.com/hashicorp/consul/api"

	"github.com/leaderrun/leaderrun/backends"
)

const (
	minTTL  = 10 * time.Second // of a session
	maxTTL  = 24 * time.Hour
	maxHint = "Consul keeps no session for longer"

	delayLook = 2 * time.Second // between two claims during a lock-delay: Consul does not say how long it lasts
)

var (
	_ backends.Driver    = (*Driver)(nil)
	_ backends.Watcher   = (*Driver)(nil)
	_ backends.Inspector = (*Driver)(nil)
	_ backends.Operator  = (*Driver)(nil)
)

// Driver is one client of one Consul store.
type Driver struct {
	cfg    *config
	link   *link
	client *api.Client

	life    context.Context // ends with Close, and all requests and watches with it
	endLife context.CancelFunc
}

// Open returns a driver for a backend URL. It reads the files that the URL names and asks nobody. Its errors are
// *backends.PermanentError and never show a token.
func Open(rawURL string) (*Driver, error) {
	cfg, err := parseURL(rawURL)
	if err != nil {
		return nil, err
	}
	d := &Driver{cfg: cfg}
	d.life, d.endLife = context.WithCancel(context.Background())
	d.link = newLink(d.life, cfg)
	if d.client, err = d.link.client(); err != nil {
		return nil, backends.Misconfigured(shapes, "%w", err)
	}
	return d, nil
}

// Redacted returns the URL without its token.
func (d *Driver) Redacted() string { return d.cfg.url.Redacted() }

// String is Redacted.
func (d *Driver) String() string { return d.Redacted() }

// Prefix returns what the names of all keys begin with.
func (d *Driver) Prefix() string { return d.cfg.prefix }

// Limits implements backends.Driver. Consul ends a session after twice its TTL, and its lock-delay follows.
func (d *Driver) Limits() backends.Limits {
	return backends.Limits{
		MinTTL: minTTL, MaxTTL: maxTTL, MaxHint: maxHint, HolderWatches: true,
		ExpiryLag: func(ttl time.Duration) time.Duration { return ttl + lockDelay(ttl) + delayLook },
	}
}

// newer orders what two renewals of one grant have left.
func newer(last, now *state) bool { return last.index < now.index }

// Renew implements backends.Driver. What counts is the transaction: it writes the beat while the lock is ours. The
// session is renewed in the leader's memory only, so that a leader that was deposed may renew it in vain once;
// twice the TTL bears that, and the proof by silence does not need it. For the same reason a session that is not
// found says nothing before a read has shown the lock without it. A renewal beside one that stays silent goes to another
// host.
func (d *Driver) Renew(ctx context.Context, g backends.Grant) (backends.Signal, error) {
	h := backends.HoldingOf[*state](g)
	defer h.Hedge(d.elsewhere)()
	for tries := 0; ; tries++ {
		err := pause(ctx, tries)
		var s, next *state
		if err == nil {
			s, err = h.Recall(ctx, g.Claim.Job, d.read)
		}
		if err != nil {
			return backends.Signal{}, backends.About("renew", g.Claim.Job, err)
		}
		r := backends.DecideRenew(s.view(), g)
		if r.Lost {
			return backends.Signal{}, backends.ErrLost
		}
		if err = d.renewSession(ctx, s.lock.session); err == nil {
			next, err = d.commit(ctx, s, r.Record, nil)
		}
		h.Saw(s, next)
		switch {
		case err == nil:
			return r.Signal, nil
		case !errors.Is(err, errConflict) && !errors.Is(err, errSession):
			return backends.Signal{}, backends.About("renew", g.Claim.Job, err)
		}
	}
}

// elsewhere makes the next request go to another host, where there is one.
func (d *Driver) elsewhere() {
	host, _ := d.link.current()
	d.link.skip(host)
}

// Finish implements backends.Driver.
func (d *Driver) Finish(ctx context.Context, g backends.Grant, o backends.Outcome) error {
	h := backends.HoldingOf[*state](g)
	return backends.About("finish", g.Claim.Job, d.steps(h).End(ctx, g.Claim.Job, h, func(v backends.View) backends.Ending {
		return backends.DecideFinish(v, g, o)
	}))
}

// Abandon implements backends.Driver.
func (d *Driver) Abandon(ctx context.Context, c backends.Claim) error {
	return backends.About("abandon", c.Job, d.steps(nil).End(ctx, c.Job, nil, func(v backends.View) backends.Ending {
		return backends.DecideAbandon(v, c)
	}))
}

// steps are how one end or order is carried out. A lock that is freed is unlocked, and its session goes afterwards: if it
// went first, it would leave a lock-delay behind. What h knows is forgotten: a renewal that is late begins with a read.
func (d *Driver) steps(h *backends.Holding[*state]) backends.Steps[*state] {
	tries := 0
	return backends.Steps[*state]{
		Read: d.read, View: (*state).view,
		Swap: func(ctx context.Context, job string, s *state, w backends.Write) (now *state, done bool, err error) {
			var step *api.KVTxnOp
			if w.Release {
				step = s.free()
			}
			now, err = d.commit(ctx, s, w.Record, step)
			h.Saw(s, nil)
			if errors.Is(err, errConflict) {
				tries++
				if err = pause(ctx, tries); err == nil {
					now, err = d.read(ctx, job)
				}
				return now, false, err
			}
			if err == nil && w.Release {
				d.destroy(ctx, s.lock.session)
			}
			return now, err == nil, err
		},
	}
}

// Close implements backends.Driver. It ends requests that are on their way.
func (d *Driver) Close() error {
	d.endLife()
	d.link.transport.CloseIdleConnections()
	return nil
}
