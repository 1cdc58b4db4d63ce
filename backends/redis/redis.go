// Package redis keeps leases and records in Redis or Valkey: a hash and a string with an expiry per job,
// changed together by one Lua script, so that a claim is one round trip.
//
// The server decides in its own wall clock, and it can forget: a restart without its data, FLUSHALL, a
// failover to a replica that lagged. Three things stand against that. The record says until when a lease was
// renewed, so a lease that vanished is waited out. The mark says which server wrote it, so that a server
// that restarted, was emptied or was promoted is in quarantine until every lease it may have forgotten is
// over. And where there are replicas, a step counts only when WAIT says that all that were ever seen have it.
//
// What it does not promise: WAIT is no consensus; a clock that is stepped forward on the server ends leases
// early; with ?replicas= lowered a failover may overlap; a replica that is attached and promoted within a third of
// a TTL is not noticed by the run that goes on; and whoever deletes lease and record by hand has removed every
// trace of a run.
package redis

import (
	"context"
	"encoding/json"
	"sync"
	"sync/atomic"

	"github.com/redis/go-redis/v9/logging"

	"github.com/leaderrun/leaderrun/backends"
	"github.com/leaderrun/leaderrun/internal/redisurl"
)

var (
	_ backends.Driver    = (*Driver)(nil)
	_ backends.Watcher   = (*Driver)(nil)
	_ backends.Inspector = (*Driver)(nil)
	_ backends.Operator  = (*Driver)(nil)
)

// Driver is one client of one Redis store.
type Driver struct {
	cfg      *config
	nonce    string        // of this driver; a counter makes it one of a request
	requests atomic.Uint64 // that counter
	seen     atomic.Int64  // replicas that the last reply asked for, where one mark serves all jobs
	spoke    atomic.Bool   // the server has answered as one
	locator  *locator      // nil: the URL names the server itself

	life    context.Context // ends with Close, and all requests and watches with it
	endLife context.CancelFunc

	mu   sync.Mutex
	link *link // for the next request; nil: none yet, or the last one failed
}

// Open returns a driver for a backend URL. It reads the certificates that the URL names and asks nobody. Its
// errors are *backends.PermanentError and never show a password.
func Open(rawURL string) (*Driver, error) {
	cfg, err := parseURL(rawURL)
	if err != nil {
		return nil, err
	}
	logging.Disable() // the client library writes to stderr of the command that is run
	d := &Driver{cfg: cfg, nonce: randomID()}
	d.life, d.endLife = context.WithCancel(context.Background())
	if cfg.Kind != redisurl.Single {
		d.locator = newLocator(cfg)
	}
	return d, nil
}

// Redacted returns the URL without its passwords.
func (d *Driver) Redacted() string { return d.cfg.Redacted() }

// String is Redacted.
func (d *Driver) String() string { return d.Redacted() }

// Prefix returns what the names of all keys begin with.
func (d *Driver) Prefix() string { return d.cfg.prefix }

// Limits implements backends.Driver. A holder does not watch: that is a connection more for each run.
func (d *Driver) Limits() backends.Limits {
	return backends.Limits{MaxTTL: d.cfg.longest, MaxHint: longestHint}
}

// who are the arguments 2 to 6 of every script that acts for a holder.
func who(c backends.Claim, more ...any) []any {
	return append([]any{c.Job, c.Holder.ID, c.Holder.Host, c.Holder.PID, c.Holder.User}, more...)
}

func renewArgs(g backends.Grant) []any {
	return append(who(g.Claim, g.Token, g.Tick, g.TTL.Milliseconds()), occasion(g.Claim, g.Attempt)...)
}

func finishArgs(g backends.Grant, o backends.Outcome) []any {
	return append(who(g.Claim, g.Token, g.Tick, string(o.State), o.Exit), occasion(g.Claim, g.Attempt)...)
}

func abandonArgs(c backends.Claim) []any { return append(who(c, c.Tick), occasion(c, 1)...) }

// occasion are the arguments from which a record that was lost gets its key or tick back.
func occasion(c backends.Claim, attempt int) []any {
	return []any{c.Once, string(c.OnLost), c.MaxAttempts, attempt}
}

// Renew implements backends.Driver.
func (d *Driver) Renew(ctx context.Context, g backends.Grant) (backends.Signal, error) {
	reply, err := d.ask(ctx, request{
		script: renewScript, job: g.Claim.Job, counts: true, args: renewArgs(g),
		check: func(r []any) (any, bool, error) { return renewReply(r, g) },
	})
	if err != nil {
		return backends.Signal{}, backends.About("renew", g.Claim.Job, err)
	}
	return reply.(backends.Signal), nil //nolint:errcheck // renewReply returns nothing else
}

// renewReply reads the reply of renew.lua.
func renewReply(r []any, g backends.Grant) (any, bool, error) {
	var s backends.Signal
	kept, err := still(r, "renewed", g.Token, 6)
	if err != nil || !kept {
		return s, false, orLost(err)
	}
	if text := element(r, 5); text != "" {
		s.Break = new(backends.BreakRequest)
		if json.Unmarshal([]byte(text), s.Break) != nil {
			return s, false, errReply
		}
	}
	return s, true, nil
}

// Finish implements backends.Driver.
func (d *Driver) Finish(ctx context.Context, g backends.Grant, o backends.Outcome) error {
	_, err := d.ask(ctx, request{
		script: finishScript, job: g.Claim.Job, counts: true, args: finishArgs(g, o),
		check: func(r []any) (any, bool, error) {
			kept, err := still(r, "finished", g.Token, 5)
			if err != nil || !kept {
				return nil, false, orLost(err)
			}
			return nil, true, nil
		},
	})
	if err != nil {
		return backends.About("finish", g.Claim.Job, err)
	}
	return nil
}

// Abandon implements backends.Driver.
func (d *Driver) Abandon(ctx context.Context, c backends.Claim) error {
	_, err := d.ask(ctx, request{
		script: abandonScript, job: c.Job, counts: true, args: abandonArgs(c),
		check: func(r []any) (any, bool, error) {
			if said := element(r, 3); said != "abandoned" || len(r) != 4 {
				return nil, false, errReply
			}
			return nil, true, nil
		},
	})
	if err != nil {
		return backends.About("abandon", c.Job, err)
	}
	return nil
}

// Close implements backends.Driver. It ends requests that are on their way.
func (d *Driver) Close() error {
	d.endLife()
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.link != nil {
		d.link.hangUp()
		d.link = nil
	}
	return nil
}
