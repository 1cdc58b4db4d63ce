package zookeeper

import (
	"context"
	"time"

	"github.com/leaderrun/leaderrun/backends"
	"github.com/leaderrun/leaderrun/backends/zookeeper/wire"
)

// watchTimeout is how long a watch's session lives without a request, unless the servers grant less; it is pinged three times
// as often.
const watchTimeout = 9 * time.Second

// watching is one session's watch on a job.
type watching struct {
	*session
	keys   keys
	leased int64             // the lease that was seen last; 0: none
	seen   backends.LastSeen // the beat that was told last
}

// Follow implements backends.Store by watches on both nodes, on a session of its own, which holds nothing and is pinged. It
// says Look when the watches stand: who looks then sees what happened before.
func (s *store) Follow(ctx context.Context, job string, tell func(backends.News)) error {
	// A watch tells once and is gone until it is set anew: there are never more events than watches.
	changed := make(chan string, 4)
	session := s.newIdle(watchTimeout)
	session.changed = func(path string) {
		select {
		case changed <- path:
		default:
		}
	}
	defer session.close()
	w := &watching{session: session, keys: s.cfg.keys(job)}
	if err := w.limited(ctx, wire.NewCall(wire.Sync(w.keys.record))); err != nil {
		return err
	}
	w.mu.Lock()
	dead := w.conn.Dead() // the connection that the watches are on: no other one tells
	w.mu.Unlock()
	stands := backends.News{Look: true}
	for _, path := range []string{w.keys.lease, w.keys.record} {
		n, err := w.look(ctx, path)
		if err != nil {
			return err
		}
		if path == w.keys.record {
			stands.Seen = n.Seen
		}
	}
	tell(stands)
	ping := time.NewTicker(min(watchTimeout, w.granted()) / 3)
	defer ping.Stop()
	for {
		var n backends.News
		var err error
		select {
		case path := <-changed:
			n, err = w.look(ctx, path)
		case <-ping.C:
			err = w.limited(ctx, wire.NewCall(wire.Ping()))
		case <-dead:
			return errReply
		case <-ctx.Done():
			return ctx.Err()
		}
		if err != nil {
			return err
		}
		if n != (backends.News{}) {
			tell(n)
		}
	}
}

// limited is one round trip that does not take for ever.
func (w *watching) limited(ctx context.Context, calls ...*wire.Call) error {
	ctx, cancel := context.WithTimeout(ctx, watchTimeout/3)
	defer cancel()
	return w.do(ctx, calls...)
}

// look sets a watch anew, reads the node, and returns what is new about it. The watch stands before the node is read: that
// is one request at each beat, and two more where there is no node.
func (w *watching) look(ctx context.Context, path string) (backends.News, error) {
	watch := wire.NewCall(wire.WatchData(path))
	read := watch
	if err := w.limited(ctx, watch); err != nil {
		return backends.News{}, err
	}
	if wire.Is(watch.Err, wire.NoNode) {
		watch, read = wire.NewCall(wire.Exists(path, true)), wire.NewCall(wire.GetData(path))
		if err := w.limited(ctx, watch, read); err != nil {
			return backends.News{}, err
		}
	}
	for _, err := range []error{watch.Err, read.Err} {
		if err != nil && !wire.Is(err, wire.NoNode) {
			return backends.News{}, w.store.classify(err)
		}
	}
	if path == w.keys.lease {
		return w.ofLease(read), nil
	}
	return w.ofRecord(read), nil
}

// ofLease says what is new about the lease. That of the next holder is no reason to look, if there was none before; one
// that was written by hand is.
func (w *watching) ofLease(read *wire.Call) backends.News {
	before := w.leased
	w.leased = read.Stat.Czxid
	return backends.News{Look: read.Err != nil || before != 0 && before != w.leased || read.Stat.Version != 0}
}

// ofRecord says what is new about the record.
func (w *watching) ofRecord(read *wire.Call) backends.News {
	r, err := readRecord(read)
	if read.Err != nil || err != nil || len(read.Data) == 0 {
		return backends.News{Look: true}
	}
	n := backends.News{Look: r.Free() || r.AsksToStop()}
	if seen := (backends.LastSeen{Token: r.Token, Beat: r.Beat}); seen != w.seen {
		n.Seen, w.seen = seen, seen
	}
	return n
}
