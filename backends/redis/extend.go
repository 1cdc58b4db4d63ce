package redis

import (
	"context"
	"time"

	"github.com/leaderrun/leaderrun/backends"
)

// Extend implements backends.Tx. There is nothing to do: a lease and its end are written in one step.
func (t *tx) Extend(context.Context, backends.Snapshot) (time.Duration, error) { return t.q.TTL, nil }

// renew is the Swap of a renewal that changes nothing of the record but what a renewal always does.
func (t *tx) renew(ctx context.Context, s *state, w backends.Write) (backends.Snapshot, bool, error) {
	r, err := t.ask(ctx, request{
		script: renewScript, job: t.q.Job, acks: s.replicas,
		args: []any{leaseText(w.Lease), w.Lease.Token, w.TTL.Milliseconds(), s.stop},
	})
	if err != nil {
		return nil, false, err
	}
	return t.swapped(r, s, w, true)
}
