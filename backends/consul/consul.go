// Package consul keeps leases and records in Consul: a lock and a record per job, two keys that change together
// in one transaction, and a session that holds the lock.
//
// Whoever runs a job has the lock by a session that is renewed with it. A claim reads both keys, decides, makes a
// session if it is to be granted, and writes both in one transaction that finds them as they were read. Every
// renewal writes a beat into the record, for the day on which the session ends before its holder does: see
// state.View, where it says what proves a death.
//
// What it does not promise: a Consul that is restored from a snapshot, or loses its data, forgets leases; whoever
// deletes lock and record by hand has removed every trace of a run.
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
	cfg    *config
	link   *link
	client *api.Client
}

// Open returns a driver for a backend URL. It reads the files that the URL names and asks nobody. Its errors are
// *backends.PermanentError and never show a token.
func Open(rawURL string) (*backends.Engine, error) {
	s, err := newStore(rawURL)
	if err != nil {
		return nil, err
	}
	return backends.NewEngine(s), nil
}

func newStore(rawURL string) (*store, error) {
	cfg, err := parseURL(rawURL)
	if err != nil {
		return nil, err
	}
	s := &store{cfg: cfg, link: newLink(cfg)}
	if s.client, err = s.link.client(); err != nil {
		return nil, backends.Misconfigured(form.Shapes, "%w", err)
	}
	return s, nil
}

// Traits implements backends.Store. Consul ends a session after twice its TTL, and its lock-delay follows.
func (s *store) Traits() backends.Traits {
	return backends.Traits{
		URL: s.cfg.url.Redacted(), Prefix: s.cfg.prefix,
		Limits: backends.Limits{
			MinTTL: minTTL, MaxTTL: maxTTL, MaxHint: maxHint, HolderWatches: true,
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
		s.link.hosts.Leave(s.link.hosts.Current())
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
	s.link.transport.CloseIdleConnections()
	return nil
}
