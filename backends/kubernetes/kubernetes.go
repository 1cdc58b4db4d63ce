// Package kubernetes keeps leases and records in Kubernetes: one Lease of coordination.k8s.io/v1 for each job, which is never
// deleted. The record is an annotation of the Lease, so one update changes both. An update succeeds only if nobody has changed the Lease
// since it was read; if somebody has, the request decides again. kubectl shows such a Lease as it shows those of other programs.
//
// Kubernetes ends no Lease by itself. If one was not released, a candidate waits until it has seen no renewal for a TTL on its own
// clock. Clocks of two hosts are never compared to decide who may run a job. Updates by others may count as renewals, so `kubectl
// annotate` delays a take-over, and does no more.
//
// An operator who empties or changes the holder of a Lease takes it away: the holder's next renewal fails, and nobody is granted the
// job before that holder has been silent for a TTL.
//
// The package does not promise that anything tells of a run if somebody deletes its Lease, or puts back a Lease from before the run or an
// older copy of the cluster's etcd. The holder ends that run at its next renewal, and does not make the Lease anew. If a Lease of the run
// itself is put back, that is noticed, unless the server does not record who wrote what (managedFields).
package kubernetes

import (
	"context"
	"sync/atomic"
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

	mayUpdate atomic.Bool // the server has said so
}

// client is what the store asks: an *api.Client, but for tests.
type client interface {
	Get(ctx context.Context, name string) (*api.Lease, error)
	Create(ctx context.Context, l *api.Lease) (*api.Lease, error)
	TryCreate(ctx context.Context, l *api.Lease) error
	Update(ctx context.Context, l *api.Lease) (*api.Lease, error)
	List(ctx context.Context, selector string, limit int, from string) ([]api.Listed, string, error)
	Watch(ctx context.Context, name string, longest time.Duration, started func(), f func(api.Event)) error
	Version(ctx context.Context) (string, time.Time, error)
	Ready(ctx context.Context) error
	ReadyToAnybody(ctx context.Context) error
	Allowed(ctx context.Context, verb string) (bool, error)
	RotateEndpoint()
	Close() error
}

// Open returns a driver for a backend URL. It reads the files that the URL leads to and asks nobody; a credential
// plugin is started by the first request. Its errors are *backends.PermanentError and show no secret.
func Open(rawURL string) (*backends.Engine, error) { return backends.OpenEngine(newStore(rawURL)) }

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
		Limits: backends.Limits{MinTTL: minTTL, BySilence: true, HolderWatches: true},
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
