// Package postgres keeps leases and records in one table of a PostgreSQL database. Each job has a row, which one statement changes in a
// transaction of its own. The package leaves no transaction open, takes no advisory lock and relies on nothing of a session, so a pooler
// in between makes no difference (but see Follow).
//
// Every request reads the row and the server's time, decides, and writes if nothing has changed since. If something has, it decides
// again. A renewal omits the read: it writes on what the last request of its holder left. The row says until when the lease lasts, by
// the server's clock. That instant stays when somebody takes the lease away by hand, and a candidate waits for it.
//
// A server that was promoted, restored or restarted may have forgotten what was granted. A row of the table remembers the server's
// identity, and every write compares it. Under a new identity nobody is granted until the longest TTL has passed (backends.Mark). A
// write counts when it is on the disks of the server and of its synchronous standbys, whatever the session's defaults are.
//
// The package does not promise:
//   - one run at a time if two servers both take themselves for the primary and the standbys are not synchronous. A server that was
//     started as a copy of the other one, and takes its place later, is such a server;
//   - that leases last if the server's clock is stepped forward;
//   - that anything tells of a run whose table was dropped.
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
func Open(rawURL string) (*backends.Engine, error) { return backends.OpenEngine(newStore(rawURL)) }

func newStore(rawURL string) (*store, error) {
	cfg, err := parseURL(rawURL)
	if err != nil {
		return nil, err
	}
	return &store{cfg: cfg, sql: newStatements(cfg.table, cfg.wire.Database, cfg.wire.User), client: wire.NewClient(cfg.wire)}, nil
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

// Rekey implements backends.Rekeyer.
func (s *store) Rekey(rawURL string) error { return s.cfg.url.Rekey(rawURL) }

// Close implements backends.Store.
func (s *store) Close() error { return s.client.Close() }
