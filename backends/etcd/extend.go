package etcd

import (
	"context"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/leaderrun/leaderrun/backends"
	"github.com/leaderrun/leaderrun/internal/panics"
)

// Extend implements backends.Tx: a keep-alive of the lease of etcd's that the asker's key is attached to, or a new lease.
// A renewal goes on with the one that it began with. A member that knows no such lease may be behind: one that led before it
// was frozen, and wakes up, answers from what it knew then, for a moment (seen with 3.6.16). So the next one is asked.
func (t *tx) Extend(ctx context.Context, now backends.Snapshot) (time.Duration, error) {
	s := of(now)
	if !s.heldBy(t.q.Holder.ID) {
		return t.spare.get(ctx)
	}
	if t.mine != nil {
		same := s.sameLease(t.mine)
		switch {
		case same && t.ttl > 0:
			return t.ttl, nil
		case same:
			t.client.RotateEndpoint()
		case t.q.Op == backends.ToRenew:
			return 0, backends.ErrLost
		}
	}
	if s.lease == t.spare.id { // of this very claim, whose transaction was said not to be applied
		t.spare.used = true
	}
	var err error
	t.mine = s
	t.ttl, err = t.keepAlive(ctx, s.lease)
	return t.ttl, err
}

// keepAlive gives a lease its whole TTL again.
func (s *store) keepAlive(ctx context.Context, lease int64) (time.Duration, error) {
	reply, err := s.client.KeepAlive(ctx, lease)
	switch {
	case err != nil:
		return 0, s.classify(err)
	case reply.ID != lease:
		return 0, errReply
	case reply.TTL <= 0:
		return 0, backends.ErrNoLease
	}
	return time.Duration(reply.TTL) * time.Second, nil
}

// revoke ends a lease that holds no key any more. If that fails, it expires by itself.
func (s *store) revoke(ctx context.Context, lease int64) {
	ctx, cancel := context.WithTimeout(ctx, tidying)
	defer cancel()
	_ = s.client.Revoke(ctx, lease)
}

// spare is a new lease of etcd's that a claim may need. It is asked for once, and given back if it is not used.
type spare struct {
	store *store
	ttl   time.Duration // that is asked for, and then as granted
	used  bool          // a transaction that puts a key under it may have been applied

	id     int64
	err    error
	done   chan struct{} // closed when the answer is there; nil: nobody has asked
	cancel context.CancelFunc
}

// request asks for the lease. Its id is ours to choose, so that a reply which is lost leaves nothing in doubt.
func (s *spare) request(ctx context.Context) {
	ctx, s.cancel = context.WithCancel(ctx)
	s.id, s.done = 1+rand.Int64N(1<<63-1), make(chan struct{}) //nolint:gosec // it only has to be unused
	panics.Go(func() {
		defer close(s.done)
		seconds := int64((s.ttl + time.Second - 1) / time.Second)
		reply, err := s.store.client.Grant(ctx, s.id, seconds)
		switch {
		case err != nil:
			s.err = s.store.classify(err)
		case reply.ID != s.id:
			s.err = errReply
		default:
			s.ttl = time.Duration(reply.TTL) * time.Second
		}
	})
}

// get returns the TTL of the lease, which the server may have made longer.
func (s *spare) get(ctx context.Context) (time.Duration, error) {
	if s.done == nil {
		s.request(ctx)
	}
	<-s.done // the request ends with ctx
	if s.err != nil {
		return 0, fmt.Errorf("lease: %w", s.err)
	}
	return s.ttl, nil
}

// discard gives the lease back if it is not used: hosts that are refused every minute would pile them up.
func (s *spare) discard(ctx context.Context) {
	if s.done == nil {
		return
	}
	defer s.cancel()
	select {
	case <-s.done:
	case <-time.After(tidying):
		s.cancel()
		<-s.done
	}
	if s.err == nil && !s.used {
		s.store.revoke(ctx, s.id)
	}
}
