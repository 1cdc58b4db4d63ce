// Package consul keeps leases and records in Consul: a lock and a record per job, two keys that change together
// in one transaction, and a session that holds the lock.
//
// Whoever runs a job has the lock by a session that is renewed with it. A claim reads both keys, decides, makes a
// session if it is to be granted, and writes both in one transaction that finds them as they were read. Every
// renewal writes a beat into the record, for the day on which the session ends before its holder does: see
// state.view, where it says what proves a death.
//
// What it does not promise: a Consul that is restored from a snapshot, or loses its data, forgets leases; whoever
// deletes lock and record by hand has removed every trace of a run.
package consul

import (
	"context"
	"errors"
	"strconv"
	"sync"
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

var (
	_ backends.Driver    = (*Driver)(nil)
	_ backends.Watcher   = (*Driver)(nil)
	_ backends.Inspector = (*Driver)(nil)
	_ backends.Operator  = (*Driver)(nil)
)

// Driver is one client of one Consul store.
type Driver struct {
	cfg    *config
	link   *link
	client *api.Client

	life context.Context // ends with Close, and all watches with it
	end  context.CancelFunc
}

// Open returns a driver for a backend URL. It reads the files that the URL names and asks nobody. Its errors are
// *backends.PermanentError and never show a token.
func Open(rawURL string) (*Driver, error) {
	cfg, err := parseURL(rawURL)
	if err != nil {
		return nil, err
	}
	d := &Driver{cfg: cfg, link: newLink(cfg)}
	d.life, d.end = context.WithCancel(context.Background())
	if d.client, err = d.link.client(); err != nil {
		return nil, configuration(shapes, "%w", err)
	}
	return d, nil
}

// Redacted returns the URL without its token.
func (d *Driver) Redacted() string { return d.cfg.url.Redacted() }

// String is Redacted.
func (d *Driver) String() string { return d.Redacted() }

// Prefix returns what the names of all keys begin with.
func (d *Driver) Prefix() string { return d.cfg.prefix }

// Limits implements backends.Driver. Consul ends a session after twice its TTL, and its lock-delay follows.
func (d *Driver) Limits() backends.Limits {
	return backends.Limits{
		MinTTL: minTTL, MaxTTL: maxTTL, MaxHint: maxHint, TellsLoss: true,
		ExpiryLag: func(ttl time.Duration) time.Duration { return ttl + lockDelay(ttl) + delayLook },
	}
}

// Acquire implements backends.Driver. The read comes before the session: of all hosts that claim a job at the same
// minute one needs a session, and making one costs a write of the whole cluster.
func (d *Driver) Acquire(ctx context.Context, c backends.Claim) (backends.Grant, error) {
	var spare string
	g, err := d.claim(ctx, c, &spare)
	if spare != "" {
		d.destroy(ctx, spare)
	}
	return g, about("claim", c.Job, err)
}

// claim decides a claim, again for as long as others change the keys meanwhile. spare is a session that it made
// and that certainly holds nothing.
func (d *Driver) claim(ctx context.Context, c backends.Claim, spare *string) (backends.Grant, error) {
	for tries := 0; ; tries++ {
		if err := pause(ctx, tries); err != nil {
			return backends.Grant{}, err
		}
		s, err := d.read(ctx, c.Job)
		if err != nil {
			return backends.Grant{}, err
		}
		decision := backends.Decide(s.view(), c)
		if !decision.Changed {
			return backends.Grant{}, decision.Refusal
		}
		next, err := d.carryOut(ctx, s, decision, c, spare)
		switch {
		case errors.Is(err, errConflict), errors.Is(err, errSession):
		case errors.Is(err, errDelayed):
			return backends.Grant{}, s.delayed()
		case err != nil:
			return backends.Grant{}, err
		case decision.Grant == nil:
			return backends.Grant{}, decision.Refusal
		default:
			return next.granted(*decision.Grant), nil
		}
	}
}

// carryOut writes what was decided about a claim, with a session that takes the lock if it is granted.
func (d *Driver) carryOut(ctx context.Context, s *state, decision backends.Decision, c backends.Claim, spare *string) (*state, error) {
	var step *api.KVTxnOp
	switch {
	case decision.Grant == nil:
	case s.lock.session != "": // it is granted already, and the reply was lost
		if s.lock.session == *spare { // on its way here the transaction was sent twice, or another answered for it
			*spare = ""
		}
		if err := d.renewSession(ctx, s.lock.session); err != nil {
			return nil, err
		}
	default:
		if *spare == "" {
			id, err := d.newSession(ctx, c)
			if err != nil {
				return nil, err
			}
			*spare = id
		}
		step = s.take(*spare, decision.Grant)
	}
	next, err := d.commit(ctx, s, decision.Record, step)
	if step != nil && !unapplied(err) {
		*spare = "" // it has the lock, or may have it
	}
	return next, err
}

// unapplied says that a transaction has certainly changed nothing.
func unapplied(err error) bool {
	p, ok := errors.AsType[*backends.PermanentError](err)
	return errors.Is(err, errConflict) || errors.Is(err, errDelayed) || ok && p.Kind == backends.Credentials
}

// granted completes a grant. The lock's index is that of the transaction that took it: renewals leave it alone.
func (s *state) granted(g backends.Grant) backends.Grant {
	g.Native = strconv.FormatUint(s.lock.index, 10)
	g.Private = &memory{last: s}
	return g
}

// delayed refuses a claim because of a lock-delay: a session that held the lock ended a moment ago.
func (s *state) delayed() *backends.Refusal {
	r := s.view().Record
	return &backends.Refusal{
		Verdict: backends.Vanished, Holder: r.Holder, Token: r.Token, Tick: r.Tick.Tick, Wait: delayLook,
		Seen: backends.Evidence{Token: r.Token, Beat: r.Beat},
	}
}

// memory is what a grant knows of its keys, so that a renewal need not read them. The transaction that follows
// finds out if it is wrong.
type memory struct {
	mu   sync.Mutex
	last *state // nil: not known
	busy int    // renewals in flight
}

// memoryOf returns the memory of a grant, empty if the grant has none.
func memoryOf(g backends.Grant) *memory {
	if m, ok := g.Private.(*memory); ok {
		return m
	}
	return &memory{}
}

// recall returns the last known state, or reads it.
func (m *memory) recall(ctx context.Context, d *Driver, job string) (*state, error) {
	m.mu.Lock()
	s := m.last
	m.mu.Unlock()
	if s != nil {
		return s, nil
	}
	return d.read(ctx, job)
}

// replace forgets what was known for what is known now, unless another renewal has learnt more.
func (m *memory) replace(was, is *state) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.last == was || m.last == nil || is != nil && is.index > m.last.index {
		m.last = is
	}
}

// enter notes a renewal in flight, and says whether there is another one.
func (m *memory) enter() (leave func(), alone bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.busy++
	return func() { m.mu.Lock(); m.busy--; m.mu.Unlock() }, m.busy == 1
}

// Renew implements backends.Driver. What counts is the transaction: it writes the beat while the lock is ours. The
// session is renewed in the leader's memory only, so that a leader that was deposed may renew it in vain once;
// twice the TTL bears that, and the proof by silence does not need it. For the same reason a session that is not
// found says nothing before a read has shown the lock without it.
func (d *Driver) Renew(ctx context.Context, g backends.Grant) (backends.Signal, error) {
	m := memoryOf(g)
	leave, alone := m.enter()
	defer leave()
	if !alone { // the other one stays silent: not on the same host again
		host, _ := d.link.current()
		d.link.skip(host)
	}
	for tries := 0; ; tries++ {
		err := pause(ctx, tries)
		var s, next *state
		if err == nil {
			s, err = m.recall(ctx, d, g.Claim.Job)
		}
		if err != nil {
			return backends.Signal{}, about("renew", g.Claim.Job, err)
		}
		r := backends.DecideRenew(s.view(), g)
		if r.Lost {
			return backends.Signal{}, backends.ErrLost
		}
		if err = d.renewSession(ctx, s.lock.session); err == nil {
			next, err = d.commit(ctx, s, r.Record, nil)
		}
		m.replace(s, next)
		switch {
		case err == nil:
			return r.Signal, nil
		case !errors.Is(err, errConflict) && !errors.Is(err, errSession):
			return backends.Signal{}, about("renew", g.Claim.Job, err)
		}
	}
}

// Finish implements backends.Driver.
func (d *Driver) Finish(ctx context.Context, g backends.Grant, o backends.Outcome) error {
	return about("finish", g.Claim.Job, d.conclude(ctx, g.Claim.Job, memoryOf(g), func(v backends.View) backends.Ending {
		return backends.DecideFinish(v, g, o)
	}))
}

// Abandon implements backends.Driver.
func (d *Driver) Abandon(ctx context.Context, c backends.Claim) error {
	return about("abandon", c.Job, d.conclude(ctx, c.Job, &memory{}, func(v backends.View) backends.Ending {
		return backends.DecideAbandon(v, c)
	}))
}

// conclude writes the end of a run or claim, or an order, and frees the lock in one step. The session goes afterwards:
// if it went first, it would leave a lock-delay behind.
func (d *Driver) conclude(ctx context.Context, job string, m *memory, decide func(backends.View) backends.Ending) error {
	for tries := 0; ; tries++ {
		if err := pause(ctx, tries); err != nil {
			return err
		}
		s, err := m.recall(ctx, d, job)
		if err != nil {
			return err
		}
		e := decide(s.view())
		switch {
		case e.Lost:
			return backends.ErrLost
		case !e.Changed:
			return nil
		}
		var step *api.KVTxnOp
		if e.Release {
			step = s.free()
		}
		_, err = d.commit(ctx, s, e.Record, step)
		m.replace(s, nil)
		switch {
		case errors.Is(err, errConflict):
			continue
		case err == nil && e.Release:
			d.destroy(ctx, s.lock.session)
		}
		return err
	}
}

// Close implements backends.Driver. Requests in flight end by their contexts.
func (d *Driver) Close() error {
	d.end()
	d.link.transport.CloseIdleConnections()
	return nil
}
