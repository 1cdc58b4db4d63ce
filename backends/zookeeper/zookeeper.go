// Package zookeeper keeps leases and records in ZooKeeper: two nodes per job, changed together by one multi. The
// record is a lasting node; the lease is an ephemeral one below it, which goes with the session of its holder.
//
// Every step reads the nodes, decides, and writes if the record is still of the version that was read; else it decides
// again. Whoever gives or takes a lease writes the record in the same multi, so that its version tells of the lease too.
// A renewal writes the record in a multi that finds the lease, and then looks at the lease once more. Each grant has a
// session of its own, whose timeout is the TTL and which nothing keeps alive but renewals.
//
// A session ends when its server thinks so, which can be earlier than its holder thinks; an operator may delete the node.
// So a lease that is gone without a release proves nothing: a candidate is granted when it has seen no sign of life for
// the record's TTL on its own clock. Who writes the record by hand delays that, and no more.
//
// What it does not promise: whoever deletes both nodes by hand, or brings back an older snapshot, has removed every
// trace of a run.
package zookeeper

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"time"

	"github.com/leaderrun/leaderrun/backends"
	"github.com/leaderrun/leaderrun/backends/zookeeper/wire"
)

const (
	// The shortest session is of two ticks, of two seconds each unless it is configured (minSessionTimeout).
	minTTL = 4 * time.Second
	// The leader ends sessions at the next tick (ExpiryQueue.java), and may have heard of the last renewal from
	// another server half a tick after it.
	expiryLag = 3 * time.Second
	// How long a session that holds nothing may take to say goodbye.
	tidying = 500 * time.Millisecond
	// The timeout of a session for a few requests.
	briefly = 4 * time.Second
)

var (
	_ backends.Driver    = (*Driver)(nil)
	_ backends.Watcher   = (*Driver)(nil)
	_ backends.Inspector = (*Driver)(nil)
	_ backends.Operator  = (*Driver)(nil)
)

// Driver is one client of one ZooKeeper ensemble.
type Driver struct {
	cfg     *config
	life    context.Context // ends with Close, and all watches with it
	endLife context.CancelFunc
	spoken  atomic.Bool // a server has answered as one of ZooKeeper

	mu       sync.Mutex
	host     int               // of the URL, that is tried first
	sessions map[*session]bool // that may have an open connection
	// between, where a test sets it, is called before and after the calls of a session are sent; an error loses the
	// replies.
	between func(calls []*wire.Call, send func() error) error
}

// Open returns a driver for a backend URL. It reads the certificates that the URL names and asks nobody. Its
// errors are *backends.PermanentError and never show a password.
func Open(rawURL string) (*Driver, error) {
	cfg, err := parseURL(rawURL)
	if err != nil {
		return nil, err
	}
	d := &Driver{cfg: cfg, sessions: map[*session]bool{}}
	d.life, d.endLife = context.WithCancel(context.Background())
	return d, nil
}

// Redacted returns the URL without its password.
func (d *Driver) Redacted() string { return d.cfg.url.Redacted() }

// String is Redacted.
func (d *Driver) String() string { return d.Redacted() }

// Prefix returns what the names of all nodes begin with.
func (d *Driver) Prefix() string { return d.cfg.dir }

// Limits implements backends.Driver. How long a session may be at most only the servers know.
func (d *Driver) Limits() backends.Limits {
	return backends.Limits{
		MinTTL:        minTTL,
		ExpiryLag:     func(time.Duration) time.Duration { return expiryLag },
		HolderWatches: true,
	}
}

// holding is what a grant knows of its nodes and the session that its lease goes with.
type holding struct {
	*backends.Holding[*state]
	session *session

	mu   sync.Mutex
	over bool // the run was finished, and the session is ended

	finishing chan struct{} // holds one while the run is being finished: renewals, which write the same node, wait
}

// end notes that the run was finished.
func (h *holding) end() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.over = true
}

// quiet waits until no Finish is on its way, and with keep holds renewals back until done is called.
func (h *holding) quiet(ctx context.Context, keep bool) (done func(), err error) {
	done = func() { <-h.finishing }
	select {
	case h.finishing <- struct{}{}:
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	if !keep {
		done()
	}
	return done, nil
}

func (h *holding) isOver() bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.over
}

func newHolding(s *session, last *state) *holding {
	return &holding{Holding: backends.NewHolding(last, newer), session: s, finishing: make(chan struct{}, 1)}
}

// newer orders what two renewals of one grant have left.
func newer(last, now *state) bool { return last.written < now.written }

// held returns what a grant knows, and what to do after the step. A grant that does not come from a driver of this process,
// or whose driver is closed, knows nothing: its lease gets a new session, which is left to expire, as the grant cannot
// remember it.
func (d *Driver) held(ctx context.Context, g backends.Grant) (h *holding, done func(), err error) {
	if h, ok := g.Private.(*holding); ok && !h.session.d.isClosed() {
		return h, func() {}, nil
	}
	s := d.newSession(g.TTL)
	last, err := s.read(ctx, g.Claim.Job)
	if err != nil {
		s.drop()
		return nil, nil, err
	}
	return newHolding(s, last), s.drop, nil
}

// Renew implements backends.Driver: one round trip. A renewal beside one that stays silent opens a connection of its own,
// to another server where there are several.
func (d *Driver) Renew(ctx context.Context, g backends.Grant) (backends.Signal, error) {
	h, done, err := d.held(ctx, g)
	if err == nil {
		defer done()
		defer h.Hedge(h.session.elsewhere)()
		var signal backends.Signal
		signal, err = d.renew(ctx, h, g)
		if err == nil {
			return signal, nil
		}
		switch {
		case h.isOver(): // whatever became of its connection
			err = backends.ErrLost
		case errors.Is(err, wire.ErrExpired):
			err = d.confirmLoss(ctx, g, err)
		}
	}
	return backends.Signal{}, backends.About("renew", g.Claim.Job, err)
}

func (d *Driver) renew(ctx context.Context, h *holding, g backends.Grant) (backends.Signal, error) {
	known := h.Last()
	for old := known; ; {
		if _, err := h.quiet(ctx, false); err != nil {
			return backends.Signal{}, err
		}
		if h.isOver() || !old.held || old.label != backends.LabelOf(g) {
			return backends.Signal{}, backends.ErrLost
		}
		renewal := backends.DecideRenew(old.view(g.TTL), g)
		if renewal.Lost {
			return backends.Signal{}, backends.ErrLost
		}
		now, done, err := h.session.swap(ctx, g.Claim.Job, old, change{record: renewal.Record, alive: true, lease: hold, label: backends.LabelOf(g)})
		switch {
		case errors.Is(err, errReborn): // and the lease, which was below it, was deleted before
			return backends.Signal{}, backends.ErrLost
		case err != nil:
			return backends.Signal{}, err
		case done:
			h.Saw(known, now)
			return renewal.Signal, nil
		}
		old = now
	}
}

// confirmLoss looks whether the lease of a session that has expired is gone, too. If not, it will be in a moment.
func (d *Driver) confirmLoss(ctx context.Context, g backends.Grant, expired error) error {
	s := d.newIdle(briefly)
	defer s.farewell()
	now, err := s.read(ctx, g.Claim.Job)
	switch {
	case err != nil:
		return err
	case !now.held, now.label != backends.LabelOf(g):
		return backends.ErrLost
	}
	return expired
}

// Finish implements backends.Driver: two round trips. It reads the nodes first: where somebody has deleted them, the
// versions of those that came after them begin anew, and could be what was known.
func (d *Driver) Finish(ctx context.Context, g backends.Grant, o backends.Outcome) error {
	decide := func(v backends.View) backends.Ending { return backends.DecideFinish(v, g, o) }
	h, known := g.Private.(*holding)
	err := wire.ErrExpired
	if known && !h.session.d.isClosed() {
		var done func()
		if done, err = h.quiet(ctx, true); err == nil {
			defer done()
			err = h.session.steps().End(ctx, g.Claim.Job, nil, decide)
		}
	}
	if errors.Is(err, wire.ErrExpired) {
		err = d.briefly(func(s *session) error { return s.steps().End(ctx, g.Claim.Job, nil, decide) })
	}
	if errors.Is(err, errReborn) {
		err = backends.ErrLost
	}
	if over := err == nil || errors.Is(err, backends.ErrLost); known && over {
		if h.Last().label == backends.LabelOf(g) { // the session, if it is this grant's, holds nothing any more
			h.end()
			h.session.farewell()
		}
	}
	if err != nil {
		return backends.About("finish", g.Claim.Job, err)
	}
	return nil
}

// Abandon implements backends.Driver.
func (d *Driver) Abandon(ctx context.Context, c backends.Claim) error {
	err := d.briefly(func(s *session) error {
		return s.steps().End(ctx, c.Job, nil, func(v backends.View) backends.Ending { return backends.DecideAbandon(v, c) })
	})
	if err != nil {
		return backends.About("abandon", c.Job, err)
	}
	d.dismiss(c.Holder.ID)
	return nil
}

// dismiss ends the sessions of a holder that runs nothing.
func (d *Driver) dismiss(holder string) {
	var over []*session
	d.mu.Lock()
	for s := range d.sessions {
		if s.holder == holder {
			over = append(over, s)
		}
	}
	d.mu.Unlock()
	for _, s := range over {
		s.farewell()
	}
}

// briefly does something with a session that holds nothing.
func (d *Driver) briefly(f func(s *session) error) error {
	s := d.newIdle(briefly)
	defer s.farewell()
	return f(s)
}

// steps are how ends and orders are carried out.
func (s *session) steps() backends.Steps[*state] {
	return backends.Steps[*state]{
		Read: s.read, View: func(now *state) backends.View { return now.view(0) }, Foreign: func(now *state) error { return now.foreign },
		Swap: func(ctx context.Context, job string, old *state, w backends.Write) (*state, bool, error) {
			c := change{record: w.Record, alive: w.Beat}
			if w.Release {
				c.lease = release
			}
			return s.swap(ctx, job, old, c)
		},
	}
}

// Close implements backends.Driver. It ends requests that are on their way.
func (d *Driver) Close() error {
	d.endLife()
	for _, s := range d.all() {
		s.hangUp()
	}
	return nil
}

func (d *Driver) isClosed() bool { return d.life.Err() != nil }
