// Package kubernetes keeps leases and records in Kubernetes: a Lease of coordination.k8s.io/v1 per job, which is never
// deleted. The record is an annotation of it, so one update changes both, if nobody has changed the Lease since it was
// read; else the step is decided again on what it is then. What kubectl shows of the Lease is what it shows of those of
// other programs.
//
// Nothing in Kubernetes ends a Lease. Who wants one that was not released waits until he has seen no renewal of it for a
// TTL on his own clock: clocks are never compared to decide who may run a job. Updates of others may count as renewals;
// `kubectl annotate` delays a take-over, and no more.
//
// An operator who empties or changes the holder of a Lease takes it away: the holder's next renewal says so, and nobody
// is granted before it has been silent for a TTL.
//
// What it does not promise: whoever deletes a Lease, puts back one from before a run, or an older copy of the cluster's
// etcd, has removed every trace of that run. Its holder ends it at its next renewal, and does not make the Lease anew. One
// of the run itself that is put back is noticed, but on a server that does not keep who wrote what (managedFields).
package kubernetes

import (
	"context"
	"time"

	"github.com/leaderrun/leaderrun/backends"
	"github.com/leaderrun/leaderrun/backends/kubernetes/api"
)

// A Lease has whole seconds.
const minTTL = time.Second

var (
	_ backends.Driver    = (*Driver)(nil)
	_ backends.Watcher   = (*Driver)(nil)
	_ backends.Inspector = (*Driver)(nil)
	_ backends.Operator  = (*Driver)(nil)
)

// Driver is one client of one namespace of one cluster.
type Driver struct {
	cfg    *config
	client client
	signs  signs

	life    context.Context // ends with Close, and all requests and watches with it
	endLife context.CancelFunc
}

// client is what the driver asks: an *api.Client, but for tests.
type client interface {
	Get(ctx context.Context, name string) (*api.Lease, error)
	Create(ctx context.Context, l *api.Lease) (*api.Lease, error)
	TryCreate(ctx context.Context, l *api.Lease) error
	Update(ctx context.Context, l *api.Lease) (*api.Lease, error)
	List(ctx context.Context, selector string, limit int, from string) ([]*api.Lease, string, error)
	Watch(ctx context.Context, name string, longest time.Duration, started func(), f func(api.Event)) error
	Version(ctx context.Context) (string, time.Time, error)
	Ready(ctx context.Context) error
	ReadyToAnybody(ctx context.Context) error
	Allowed(ctx context.Context, verb string) (bool, string, error)
	Elsewhere()
	Close() error
}

// Open returns a driver for a backend URL. It reads the files that the URL leads to and asks nobody; a credential
// plugin is started by the first request. Its errors are *backends.PermanentError and show no secret.
func Open(rawURL string) (*Driver, error) {
	cfg, err := parseURL(rawURL, ours())
	if err != nil {
		return nil, err
	}
	d := &Driver{cfg: cfg, client: api.New(cfg.api)}
	d.life, d.endLife = context.WithCancel(context.Background())
	return d, nil
}

// Redacted returns the URL, in which no secret stands.
func (d *Driver) Redacted() string { return d.cfg.url.Redacted() }

// String is Redacted.
func (d *Driver) String() string { return d.Redacted() }

// Prefix returns what the names of all Leases begin with.
func (d *Driver) Prefix() string { return d.cfg.prefix }

// Limits implements backends.Driver.
func (d *Driver) Limits() backends.Limits {
	return backends.Limits{MinTTL: minTTL, HolderWatches: true}
}

// newer orders what two renewals of one grant have left.
func newer(last, now *state) bool { return last.version < now.version }

// during returns a context that also ends with the driver.
func (d *Driver) during(ctx context.Context) (context.Context, context.CancelFunc) {
	return backends.During(ctx, d.life)
}

// Renew implements backends.Driver: one round trip, and two more where somebody else has written to the Lease. A
// renewal beside one that stays silent goes over another connection.
func (d *Driver) Renew(ctx context.Context, g backends.Grant) (backends.Signal, error) {
	ctx, cancel := d.during(ctx)
	defer cancel()
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
	for s := known; err == nil; {
		renewal := backends.DecideRenew(s.view(g.Claim.Holder.ID, backends.Evidence{}), g)
		if renewal.Lost {
			return backends.Signal{}, backends.ErrLost
		}
		var done bool
		if s, done, err = d.swap(ctx, g.Claim.Job, s, change{record: renewal.Record, alive: true}); done {
			h.Saw(known, s)
			return renewal.Signal, nil
		}
	}
	return backends.Signal{}, err
}

// Finish implements backends.Driver: one round trip.
func (d *Driver) Finish(ctx context.Context, g backends.Grant, o backends.Outcome) error {
	ctx, cancel := d.during(ctx)
	defer cancel()
	steps := d.steps(g.Claim.Holder.ID, backends.Evidence{})
	err := steps.End(ctx, g.Claim.Job, backends.HoldingOf[*state](g), func(v backends.View) backends.Ending {
		return backends.DecideFinish(v, g, o)
	})
	return backends.About("finish", g.Claim.Job, err)
}

// Abandon implements backends.Driver: two round trips.
func (d *Driver) Abandon(ctx context.Context, c backends.Claim) error {
	ctx, cancel := d.during(ctx)
	defer cancel()
	steps := d.steps(c.Holder.ID, backends.Evidence{})
	err := steps.End(ctx, c.Job, nil, func(v backends.View) backends.Ending { return backends.DecideAbandon(v, c) })
	return backends.About("abandon", c.Job, err)
}

// steps are how ends and orders are carried out, for somebody who has seen what he has seen.
func (d *Driver) steps(asks string, seen backends.Evidence) backends.Steps[*state] {
	return backends.Steps[*state]{
		Read: d.read, View: func(s *state) backends.View { return s.view(asks, seen) },
		Swap: func(ctx context.Context, job string, s *state, w backends.Write) (*state, bool, error) {
			return d.swap(ctx, job, s, change{record: w.Record, beat: w.Beat, release: w.Release})
		},
	}
}

// Close implements backends.Driver. It ends requests that are on their way.
func (d *Driver) Close() error {
	d.endLife()
	return d.client.Close()
}
