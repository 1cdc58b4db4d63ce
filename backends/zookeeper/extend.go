package zookeeper

import (
	"context"
	"time"

	"github.com/leaderrun/leaderrun/backends"
)

// Extend implements backends.Tx. A session is extended by each request, and so by the read or the multi; here it only has to
// be open, so that it is known for how long it lives.
func (t *tx) Extend(ctx context.Context, _ backends.Snapshot) (time.Duration, error) {
	if t.moved != nil {
		return 0, t.moved
	}
	if err := t.alone(ctx); err != nil {
		return 0, err
	}
	_, err := t.session.connection(ctx)
	if t.movesOn(ctx, err) {
		return 0, backends.ErrNoLease
	}
	return t.session.granted(), t.classify(err)
}

// alone waits until no end of the session's run is on its way, and holds renewals back if this is one: they write the same node.
func (t *tx) alone(ctx context.Context) error {
	s := t.session
	if s.finishing == nil || t.holds != nil {
		return nil
	}
	select {
	case s.finishing <- struct{}{}:
	case <-ctx.Done():
		return ctx.Err()
	}
	if t.q.Op == backends.ToFinish {
		t.holds = s
	} else {
		<-s.finishing
	}
	return nil
}
