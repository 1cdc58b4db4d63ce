// Package consul keeps leases and records in Consul. Each job has two keys, a lock and a record, which change together in one
// transaction. A session holds the lock.
//
// The holder of a job renews its session with the lease. A claim reads both keys and decides. If it is to be granted, it makes a
// session, and writes both keys in a transaction that succeeds only if they are still as they were read. Every renewal writes a beat
// into the record, because a session may end before its holder does: state.View says what proves a death.
//
// The package does not promise: that leases survive if Consul is restored from a snapshot or loses its data; or that anything tells of
// a run whose lock and record were both deleted by hand.
package consul

import (
	"context"
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

// store is one client of one Consul store.
type store struct {
	cfg          *config
	roundTripper *roundTripper
	client       *api.Client
}

// Open returns a driver for a backend URL. It reads the files that the URL names and asks nobody. Its errors are
// *backends.PermanentError and never show a token.
func Open(rawURL string) (*backends.Engine, error) { return backends.OpenEngine(newStore(rawURL)) }

func newStore(rawURL string) (*store, error) {
	cfg, err := parseURL(rawURL)
	if err != nil {
		return nil, err
	}
	s := &store{cfg: cfg, roundTripper: newRoundTripper(cfg)}
	if s.client, err = s.roundTripper.client(); err != nil {
		return nil, backends.Misconfigured(form.Shapes, "%w", err)
	}
	return s, nil
}

// Rekey implements backends.Rekeyer, of a token in the URL.
func (s *store) Rekey(rawURL string) error { return s.cfg.url.Rekey(rawURL) }

// Traits implements backends.Store. Consul ends a session after twice its TTL, and its lock-delay follows.
func (s *store) Traits() backends.Traits {
	return backends.Traits{
		URL: s.cfg.url.Redacted(), Prefix: s.cfg.prefix,
		Limits: backends.Limits{
			MinTTL: minTTL, MaxTTL: maxTTL, MaxHint: maxHint, BySilence: true, HolderWatches: true,
			ExpiryLag: func(ttl time.Duration) time.Duration { return ttl + lockDelay(ttl) + delayLook },
		},
	}
}

// tx is one request: Read in read.go, Extend in extend.go, Swap in swap.go.
type tx struct {
	*store
	q     backends.Request
	spare string // a session that it made and that certainly holds nothing; "": there is none
}

// Begin implements backends.Store. A hedge goes to another host.
func (s *store) Begin(_ context.Context, q backends.Request) backends.Tx {
	if q.IsHedge {
		s.roundTripper.hosts.Leave(s.roundTripper.hosts.Current())
	}
	return &tx{store: s, q: q}
}

// End implements backends.Tx.
func (t *tx) End(ctx context.Context, _ error) {
	if t.spare != "" {
		t.destroy(ctx, t.spare)
	}
}

// Close implements backends.Store.
func (s *store) Close() error {
	s.roundTripper.transport.CloseIdleConnections()
	return nil
}
