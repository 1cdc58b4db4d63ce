// Package postgres keeps leases and records in one table of a PostgreSQL database: a row for each job, changed by one
// statement in a transaction of its own. No transaction is left open, no advisory lock is taken and nothing of a session
// is relied upon, so that a pooler in between changes nothing (but see Follow).
//
// Every step reads the row and the server's time, decides, and writes if nothing has changed since; else it decides again
// on what is there. A renewal leaves out the first half: it writes what the last step of its holder would have read. The
// lease lasts until a time by the server's clock, which is in the row, and stays there when somebody takes the lease
// away by hand: so long a candidate waits.
//
// A server that was promoted, restored or only started again may have forgotten what was granted. It is told by its
// identity, which a row of the table remembers and every write compares: under a new one nobody is granted until the longest
// TTL is over, see backends.Mark. A write counts when it is on the server's disk and on those of its synchronous standbys,
// whatever the defaults of the session are.
//
// What it does not promise: two servers that both believe to be the primary grant to two holders, unless the standbys are
// synchronous, and one that was started as a copy of the other and takes its place later is such a server; a clock of the
// server that is stepped forward ends leases early; and whoever drops the table has removed every trace of a run.
package postgres

import (
	"context"
	"sync/atomic"
	"time"

	"github.com/leaderrun/leaderrun/backends"
	"github.com/leaderrun/leaderrun/backends/postgres/wire"
)

// store is one client of one database.
type store struct {
	cfg    *config
	sql    statements
	client client
	spoken atomic.Bool // a server has answered as one of PostgreSQL
}

// client is what the store asks: a *wire.Client, but for tests.
type client interface {
	Ask(ctx context.Context, batch []wire.Statement, check func(wire.Reply) error) (wire.Reply, error)
	Dedicated(ctx context.Context, purpose string) (*wire.Conn, error)
	Drop(conn *wire.Conn)
	RotateEndpoint()
	Close() error
}

// Open returns a driver for a backend URL. It reads the certificates that the URL names and asks nobody. Its
// errors are *backends.PermanentError and never show a password.
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
	return &store{cfg: cfg, sql: newStatements(cfg.table, cfg.wire.User), client: wire.NewClient(cfg.wire)}, nil
}

// Traits implements backends.Store. A holder does not watch: that is a connection, of which a server has a hundred. What
// changes nothing is written too: it may be there because an earlier try was committed and did not reach the synchronous
// standbys.
func (s *store) Traits() backends.Traits {
	return backends.Traits{
		URL: s.cfg.url.Redacted(), Prefix: s.cfg.prefix, Rewrites: true,
		Limits: backends.Limits{MaxTTL: s.cfg.longest, MaxHint: longestHint},
	}
}

// tx is one request: Read in read.go, Swap in swap.go.
type tx struct {
	*store
	q backends.Request
}

// Begin implements backends.Store. A hedge goes out on a connection of its own, to another host if there is one.
func (s *store) Begin(_ context.Context, q backends.Request) backends.Tx {
	if q.IsHedge {
		s.client.RotateEndpoint()
	}
	return &tx{store: s, q: q}
}

// Extend implements backends.Tx. A lease is what Swap writes.
func (t *tx) Extend(context.Context, backends.Snapshot) (time.Duration, error) { return t.q.TTL, nil }

// End implements backends.Tx.
func (*tx) End(context.Context, error) {}

// Close implements backends.Store.
func (s *store) Close() error { return s.client.Close() }
