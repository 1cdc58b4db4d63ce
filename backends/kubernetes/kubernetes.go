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

// store is one client of one namespace of one cluster.
type store struct {
	cfg    *config
	client client
	signs  signs
}

// client is what the store asks: an *api.Client, but for tests.
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
	RotateEndpoint()
	Close() error
}

// Open returns a driver for a backend URL. It reads the files that the URL leads to and asks nobody; a credential
// plugin is started by the first request. Its errors are *backends.PermanentError and show no secret.
func Open(rawURL string) (*backends.Engine, error) {
	s, err := newStore(rawURL)
	if err != nil {
		return nil, err
	}
	return backends.NewEngine(s), nil
}

func newStore(rawURL string) (*store, error) {
	cfg, err := parseURL(rawURL, ours())
	if err != nil {
		return nil, err
	}
	return &store{cfg: cfg, client: api.New(cfg.api)}, nil
}

// Traits implements backends.Store. No secret stands in the URL.
func (s *store) Traits() backends.Traits {
	return backends.Traits{
		URL: s.cfg.url.Redacted(), Prefix: s.cfg.prefix,
		Limits: backends.Limits{MinTTL: minTTL, HolderWatches: true},
	}
}

// tx is one request: Read in read.go, Swap in swap.go.
type tx struct {
	*store
	q backends.Request
}

// Begin implements backends.Store. A hedge goes over another connection.
func (s *store) Begin(_ context.Context, q backends.Request) backends.Tx {
	if q.IsHedge {
		s.client.RotateEndpoint()
	}
	return &tx{store: s, q: q}
}

// Extend implements backends.Tx. A Lease has no end of its own.
func (t *tx) Extend(context.Context, backends.Snapshot) (time.Duration, error) { return t.q.TTL, nil }

// End implements backends.Tx.
func (*tx) End(context.Context, error) {}

// Close implements backends.Store.
func (s *store) Close() error { return s.client.Close() }
