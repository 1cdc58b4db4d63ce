package file

import (
	"context"
	"fmt"
	"time"

	"github.com/leaderrun/leaderrun/backends"
	"github.com/leaderrun/leaderrun/internal/flock"
)

// holders is Limits.LocalHolders, on Linux. It sees the processes of this user, or as root all. Root is let into another
// user's directory by ?trust=shared only.
func (s *store) holders(job string) ([]int, error) {
	const patience = 5 * time.Second // for those who look at the lock for a moment
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	t := s.begin(backends.Request{Op: backends.ToOrder, Job: job})
	defer t.drop()
	if _, err := t.Read(ctx); err != nil || t.seen.lease == nil {
		return nil, err
	}
	pids, hidden, err := flock.Holders(t.record.Holder.PID, t.lock, t.tree)
	switch {
	case err != nil:
		return nil, fmt.Errorf("who holds the lock %s: %w", t.lock, err)
	case len(pids) == 0 && hidden:
		return nil, backends.Misconfigured("run as that user, or as root with ?"+trustShared, "the lock %s is held by processes of another user", t.lock)
	}
	return pids, nil
}
