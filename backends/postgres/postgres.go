// Package postgres keeps leases and records in one table of a PostgreSQL database: a row for each job, changed by one
// statement in a transaction of its own. No transaction is left open, no advisory lock is taken and nothing of a session
// is relied upon, so that a pooler in between changes nothing (but see Watch).
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

var (
	_ backends.Driver    = (*Driver)(nil)
	_ backends.Watcher   = (*Driver)(nil)
	_ backends.Inspector = (*Driver)(nil)
	_ backends.Operator  = (*Driver)(nil)
)

// Driver is one client of one database.
type Driver struct {
	cfg    *config
	sql    statements
	client client
	spoken atomic.Bool // a server has answered as one of PostgreSQL

	life    context.Context // ends with Close, and all watches with it
	endLife context.CancelFunc
}

// client is what the driver asks: a *wire.Client, but for tests.
type client interface {
	Ask(ctx context.Context, batch []wire.Statement, check func(wire.Reply) error) (wire.Reply, error)
	Dedicated(ctx context.Context, purpose string) (*wire.Conn, error)
	Drop(conn *wire.Conn)
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
	d := &Driver{cfg: cfg, sql: newStatements(cfg.table, cfg.wire.User), client: wire.NewClient(cfg.wire)}
	d.life, d.endLife = context.WithCancel(context.Background())
	return d, nil
}

// Redacted returns the URL without its password.
func (d *Driver) Redacted() string { return d.cfg.url.Redacted() }

// String is Redacted.
func (d *Driver) String() string { return d.Redacted() }

// Prefix returns the name of the table.
func (d *Driver) Prefix() string { return d.cfg.prefix }

// Limits implements backends.Driver. A holder does not watch: that is a connection, of which a server has a hundred.
func (d *Driver) Limits() backends.Limits {
	return backends.Limits{MaxTTL: d.cfg.longest, MaxHint: longestHint}
}

// newer orders what two renewals of one grant have left.
func newer(last, now *state) bool { return last.record.Beat < now.record.Beat }

// Renew implements backends.Driver: one round trip, if nobody but the holder has changed the row and the server is the one
// that it was. A renewal beside one that stays silent goes out on a connection of its own, to another host if there is one.
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
	for s := known; ; {
		renewal := backends.DecideRenew(s.view(0), g)
		if renewal.Lost {
			return backends.Signal{}, backends.ErrLost
		}
		c := change{record: renewal.Record, holder: s.holder, token: s.token, renew: g.TTL}
		now, done, err := d.swap(ctx, g.Claim.Job, s, c)
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

// Finish implements backends.Driver: one round trip, as Renew.
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

// steps are how ends and orders are carried out. What changes nothing is written too: it may be there because an earlier try was
// committed and did not reach the synchronous standbys.
func (d *Driver) steps() backends.Steps[*state] {
	return backends.Steps[*state]{
		Read: d.read, View: func(s *state) backends.View { return s.view(d.quarantine(s)) }, Always: true,
		Swap: func(ctx context.Context, job string, s *state, w backends.Write) (*state, bool, error) {
			return d.swap(ctx, job, s, s.release(w.Record, w.Release))
		},
	}
}

// Close implements backends.Driver. It ends requests that are on their way.
func (d *Driver) Close() error {
	d.endLife()
	return d.client.Close()
}

// until returns what is left of a time by a server's clock.
func until(ms int64, now time.Time) time.Duration {
	return max(time.Duration(ms-now.UnixMilli())*time.Millisecond, 0)
}
