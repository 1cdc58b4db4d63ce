package consul

import (
	"context"
	"fmt"
	"time"

	"github.com/hashicorp/consul/api"

	"github.com/leaderrun/leaderrun/backends"
)

const (
	maxLockDelay = time.Minute // Consul allows no longer one
	destroyLimit = time.Second // how long we try to destroy a session that nobody needs
)

// lockDelay returns for how long Consul itself gives the lock to nobody after a session that held it has ended.
// It is a second net below the proof by silence (see state.View): two thirds of the TTL are two renewals.
func lockDelay(ttl time.Duration) time.Duration {
	return min(max(2*ttl/3, time.Millisecond), maxLockDelay) // the client takes 0 for the default
}

// Extend implements backends.Tx: it renews the session that has the lock, or makes one. It comes after the read: of all
// hosts that claim a job at the same minute one needs a session, and making one costs a write of the whole cluster.
//
// A session is renewed in the leader's memory only, so that a leader that was deposed may renew it in vain once; twice the
// TTL bears that, and the proof by silence does not need it. What counts is the transaction that follows: it writes the beat
// while the lock is ours.
func (t *tx) Extend(ctx context.Context, now backends.Snapshot) (time.Duration, error) {
	var err error
	switch session := of(now).lock.session; {
	case session != "":
		if session == t.spare { // on its way here the transaction was sent twice, or another answered for it
			t.spare = ""
		}
		err = t.renewSession(ctx, session)
	case t.spare == "":
		t.spare, err = t.newSession(ctx, t.q)
	}
	return t.q.TTL, err
}

func write(ctx context.Context) *api.WriteOptions { return (&api.WriteOptions{}).WithContext(ctx) }

// newSession makes the session that is to hold a claim's lock. It has no health checks: they would end it for a
// network that flaps, long before its TTL.
func (s *store) newSession(ctx context.Context, q backends.Request) (string, error) {
	id, _, err := s.client.Session().CreateNoChecks(&api.SessionEntry{
		Name: fmt.Sprintf("leaderrun %s, %s, process %d", q.Job, q.Holder.Host, q.Holder.PID),
		TTL:  q.TTL.String(), LockDelay: lockDelay(q.TTL), Behavior: api.SessionBehaviorRelease,
	}, write(ctx))
	if err == nil && id == "" {
		err = s.roundTripper.notConsul()
	}
	return id, s.roundTripper.classify(err)
}

// renewSession keeps a session for its TTL from now; Consul waits for twice that.
func (s *store) renewSession(ctx context.Context, id string) error {
	entry, _, err := s.client.Session().Renew(id, write(ctx))
	if err == nil && entry == nil {
		return backends.ErrNoLease
	}
	return s.roundTripper.classify(err)
}

// destroy ends a session that holds nothing. Should that fail, it ends by itself.
func (s *store) destroy(ctx context.Context, id string) {
	ctx, cancel := context.WithTimeout(ctx, destroyLimit)
	defer cancel()
	_, _ = s.client.Session().Destroy(id, write(ctx))
}
