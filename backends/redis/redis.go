// Package redis keeps leases and records in Redis or Valkey. Each job has a hash (the record) and a string with an expiry (the lease). One
// Lua script changes both together, if they are still what was decided on.
//
// The server counts in its own wall clock, and it can forget: by a restart without its data, by FLUSHALL, by a failover to a replica
// that lagged. Three things protect against that. The record says until when the lease was last renewed, so a candidate waits that long
// if the lease vanishes. The mark says which server wrote it, so a server that was restarted, emptied or promoted is in quarantine
// until every lease that it may have forgotten has run out. If there are replicas, a write counts only when WAIT says that as many have
// it as there ever were.
//
// A claim takes two round trips, a read and a write; a refused claim takes one. A renewal takes one: it extends the lease if that is
// still the holder's, and does not look at the rest of the record. An end takes one, or two if others have changed the record.
//
// The package does not promise:
//   - consensus: WAIT is none;
//   - that leases last if the server's clock is stepped forward;
//   - one run at a time after a failover with a lower ?replicas=;
//   - that a run notices a replica that is attached and promoted within a third of its TTL;
//   - that anything tells of a run whose lease and record were both deleted by hand.
package redis

import (
	"context"
	"crypto/rand"
	"sync"
	"sync/atomic"

	"github.com/redis/go-redis/v9/logging"

	"github.com/leaderrun/leaderrun/backends"
	"github.com/leaderrun/leaderrun/internal/redisurl"
)

// store is one client of one Redis store.
type store struct {
	cfg            *config
	nonce          string          // of this client; a counter makes it one of a request
	requests       atomic.Uint64   // that counter
	seen           atomic.Int64    // the most replicas that a reply asked for, where one mark serves all jobs
	spoke          atomic.Bool     // the server has answered as one
	marks          sync.Map        // keys of the marks that this client has seen
	sights         sync.Map        // *sights by key of the mark
	masterResolver *masterResolver // nil: the URL names the server itself

	mu     sync.Mutex
	closed bool
	pool   *connPool // for the next request; nil: none yet, or the last one failed
}

// Open returns a driver for a backend URL. It reads the certificates that the URL names and asks nobody. Its
// errors are *backends.PermanentError and never show a password.
func Open(rawURL string) (*backends.Engine, error) { return backends.OpenEngine(newStore(rawURL)) }

func newStore(rawURL string) (*store, error) {
	cfg, err := parseURL(rawURL)
	if err != nil {
		return nil, err
	}
	logging.Disable() // the client library writes to stderr of the command that is run
	s := &store{cfg: cfg, nonce: rand.Text() + "-"}
	if cfg.Kind != redisurl.Single {
		s.masterResolver = newMasterResolver(cfg)
	}
	return s, nil
}

// Traits implements backends.Store. A holder does not watch: that is a connection more for each run. An end is written on what the
// holder's last request has left: if that is too old, or anything has changed since, the script says so and shows what there is.
func (s *store) Traits() backends.Traits {
	return backends.Traits{
		URL: s.cfg.Redacted(), Prefix: s.cfg.prefix, Rewrites: true,
		Limits: backends.Limits{MaxTTL: s.cfg.longest, MaxHint: longestHint},
	}
}

// tx is one request: Read in read.go, Extend in extend.go, Swap in swap.go.
type tx struct {
	*store
	q backends.Request
}

// Begin implements backends.Store.
func (s *store) Begin(_ context.Context, q backends.Request) backends.Tx { return &tx{s, q} }

// End implements backends.Tx.
func (*tx) End(context.Context, error) {}

// Rekey implements backends.Rekeyer.
func (s *store) Rekey(rawURL string) error { return s.cfg.Rekey(rawURL) }

// Close implements backends.Store.
func (s *store) Close() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.closed = true
	if s.pool != nil {
		s.pool.hangUp()
		s.pool = nil
	}
	return nil
}
