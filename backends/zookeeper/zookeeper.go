// Package zookeeper keeps leases and records in ZooKeeper. Each job has two nodes, which change together in one multi: a lasting node
// for the record, and below it an ephemeral one for the lease, which goes away with the session of its holder.
//
// Every grant and release also writes the record in the same multi, so the record's version tells of the lease, too. A renewal
// writes the record in a multi that requires the lease to be there, and then reads the lease once more. Each grant has a session of its
// own. Its timeout is the TTL, and nothing but renewals keeps it alive.
//
// A session ends when the server says so, perhaps before its holder thinks so, and an operator may delete the lease. So a lease
// that is gone without a release proves nothing: a candidate is granted when it has seen no sign of life for the record's TTL on its own
// clock. Writing the record by hand delays that, and does no more.
//
// The package does not promise that anything tells of a run whose nodes were both deleted by hand, or replaced by those of an older
// snapshot.
package zookeeper

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"time"

	"github.com/leaderrun/leaderrun/backends"
	"github.com/leaderrun/leaderrun/backends/zookeeper/wire"
	"github.com/leaderrun/leaderrun/internal/backendurl"
)

const (
	// The shortest session is of two ticks, of two seconds each unless it is configured (minSessionTimeout).
	minTTL = 4 * time.Second
	// The leader ends sessions at the next tick (ExpiryQueue.java), and may have heard of the last renewal from
	// another server half a tick after it.
	expiryLag = 3 * time.Second
)

// store is one client of one ZooKeeper ensemble.
type store struct {
	cfg    *config
	hosts  *backendurl.Rotation
	spoken atomic.Bool // a server has answered as one of ZooKeeper

	mu       sync.Mutex
	sessions map[*session]bool // that may have an open connection
	closed   bool
	// between, where a test sets it, is called before and after the calls of a session are sent; an error loses the
	// replies.
	between func(calls []*wire.Call, send func() error) error
}

// Open returns a driver for a backend URL. It reads the certificates that the URL names and asks nobody. Its
// errors are *backends.PermanentError and never show a password.
func Open(rawURL string) (*backends.Engine, error) { return backends.OpenEngine(newStore(rawURL)) }

func newStore(rawURL string) (*store, error) {
	cfg, err := parseURL(rawURL)
	if err != nil {
		return nil, err
	}
	return &store{cfg: cfg, hosts: backendurl.NewRotation(cfg.url.Addrs), sessions: map[*session]bool{}}, nil
}

// Traits implements backends.Store. How long a session may be at most only the servers know. A run's end begins with a
// read: where somebody has deleted the nodes, the versions of those that came after them begin anew, and could be what was
// known.
func (s *store) Traits() backends.Traits {
	return backends.Traits{
		URL: s.cfg.url.Redacted(), Prefix: s.cfg.dir, EndsRead: true,
		Limits: backends.Limits{
			MinTTL:        minTTL,
			ExpiryLag:     func(time.Duration) time.Duration { return expiryLag },
			BySilence:     true,
			HolderWatches: true,
		},
	}
}

// tx is one request: Read in read.go, Extend in extend.go, Swap in swap.go.
type tx struct {
	*store
	q       backends.Request
	session *session // that asks
	spare   *session // the same, if it was made for this request and is no grant's
	moved   error    // why another session than the one that it began with asks; nil: none does
	last    *state   // as it was read or written last
	holds   *session // of which it holds renewals back
}

// Begin implements backends.Store. A claim makes a session, which becomes that of its grant, and the holder's next steps go
// on with it. A hedge opens a connection of its own, to another server where there are several.
// A renewal whose grant is another process's, or whose driver is closed, puts the lease under a new session, which is left to
// expire, as the grant cannot remember it.
func (s *store) Begin(_ context.Context, q backends.Request) backends.Tx { return s.begin(q) }

func (s *store) begin(q backends.Request) *tx {
	t := &tx{store: s, q: q}
	known := of(q.Known)
	switch {
	case known != nil && known.session.isOpen():
		t.session = known.session
		if q.IsHedge {
			t.session.rotateEndpoint()
		}
	case q.Op == backends.ToClaim, q.Op == backends.ToRenew:
		t.session = s.newSession(q.TTL, q.Holder.ID)
		t.spare = t.session
	default:
		t.session = s.newIdle(briefly)
		t.spare = t.session
	}
	return t
}

// movesOn says whether a request that failed goes on with a read by another session, once: where that of the grant has
// expired, because its lease may be there for another moment, or was ended meanwhile, because the run was; and where nothing
// is to be written and one of several servers has failed.
func (t *tx) movesOn(ctx context.Context, err error) bool {
	if err == nil || t.moved != nil {
		return false
	}
	_, noServer := errors.AsType[*backendurl.Unreached](err)
	switch t.q.Op {
	case backends.ToRenew, backends.ToFinish:
		if !errors.Is(err, wire.ErrExpired) && t.session.isOpen() {
			return false
		}
	case backends.ToInspect:
		if len(t.cfg.url.Addrs) == 1 || noServer || backends.IsAnswer(err) || ctx.Err() != nil {
			return false
		}
	default:
		return false
	}
	if t.spare != nil {
		t.spare.drop()
	}
	t.moved, t.spare = err, t.newIdle(briefly)
	t.session = t.spare
	return true
}

// End implements backends.Tx. Sessions go when the run or the claim is over, unless they have the lease: that of another run
// of the same holder. A session that may hold a lease of which nobody knows is left to expire.
func (t *tx) End(_ context.Context, err error) {
	if t.q.Op == backends.ToFinish && (err == nil || errors.Is(err, backends.ErrLost)) || t.q.Op == backends.ToAbandon && err == nil {
		for _, s := range t.all() {
			if s.holder == t.q.Holder.ID && !t.last.isUnder(s) {
				s.close()
			}
		}
	}
	if t.holds != nil {
		<-t.holds.finishing
	}
	switch {
	case t.spare == nil:
	case t.spare.lease && !backends.IsAnswer(err) && !errors.Is(err, errReborn):
		t.spare.drop()
	default: // nobody else is to wait for a lease that is no grant
		t.spare.close()
	}
}

// Close implements backends.Store.
func (s *store) Close() error {
	s.mu.Lock()
	s.closed = true
	s.mu.Unlock()
	for _, x := range s.all() {
		x.hangUp()
	}
	return nil
}
