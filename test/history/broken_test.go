package history

import (
	"context"
	"errors"
	"os"
	"testing"
	"time"

	"github.com/leaderrun/leaderrun/backends"
	"github.com/leaderrun/leaderrun/test/servers"
)

// liar says that a renewal was made though the lease is lost.
type liar struct{ backends.Driver }

func (d liar) Renew(ctx context.Context, g backends.Grant) (backends.RenewAnswer, error) {
	s, err := d.Driver.Renew(ctx, g)
	if errors.Is(err, backends.ErrLost) {
		return s, nil
	}
	return s, err
}

// changeling claims again as another holder where it does not know what became of the first claim.
type changeling struct{ backends.Driver }

func (d changeling) Acquire(ctx context.Context, c backends.Claim) (backends.Grant, error) {
	g, err := d.Driver.Acquire(ctx, c)
	if err != nil && !backends.IsAnswer(err) {
		c.Holder.ID = newID()
		return d.Driver.Acquire(context.WithoutCancel(ctx), c)
	}
	return g, err
}

// boaster tells of a longer lease than the store gave.
type boaster struct{ backends.Driver }

func (d boaster) Acquire(ctx context.Context, c backends.Claim) (backends.Grant, error) {
	c.TTL /= 3
	g, err := d.Driver.Acquire(ctx, c)
	g.TTL *= 3
	return g, err
}

func (d boaster) Renew(ctx context.Context, g backends.Grant) (backends.RenewAnswer, error) {
	g.TTL /= 3
	return d.Driver.Renew(ctx, g)
}

// yielder releases the lease of a run that goes on.
type yielder struct{ backends.Driver }

func (d yielder) Renew(ctx context.Context, g backends.Grant) (backends.RenewAnswer, error) {
	s, err := d.Driver.Renew(ctx, g)
	if err == nil {
		_ = d.Finish(ctx, g, backends.Outcome{State: backends.Done})
	}
	return s, err
}

// divider takes every claim for one of as many parts, whatever the client believes.
type divider struct{ backends.Driver }

func (d divider) Acquire(ctx context.Context, c backends.Claim) (backends.Grant, error) {
	if c.Parts != 0 {
		c.Parts = partsOfJob
	}
	return d.Driver.Acquire(ctx, c)
}

// TestBrokenDrivers: the same clients, faults and checker that find nothing wrong with the drivers notice what is
// wrong with each of these.
func TestBrokenDrivers(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name string
		wrap func(d backends.Driver) backends.Driver
	}{
		{"a lost lease is renewed", func(d backends.Driver) backends.Driver { return liar{d} }},
		{"a claim is repeated by another holder", func(d backends.Driver) backends.Driver { return changeling{d} }},
		{"a lease is shorter than it is told", func(d backends.Driver) backends.Driver { return boaster{d} }},
		{"a tick is divided in two ways", func(d backends.Driver) backends.Driver { return divider{d} }},
		{"a lease is released before the run ends", func(d backends.Driver) backends.Driver { return yielder{d} }},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			w := redisWorld(t)
			open := w.open
			w.open = func(t *testing.T) (backends.Driver, *servers.Proxy) {
				t.Helper()
				d, p := open(t)
				return c.wrap(d), p
			}
			contest := newContest(t, w, newSeed(t))
			contest.found = func(j judgement) {
				page, err := os.ReadFile(j.picture)
				if err != nil || len(page) == 0 || len(j.rest) == 0 {
					t.Errorf("picture %q: %v; what does not follow: %v", j.picture, err, j.rest)
				}
				_ = os.Remove(j.picture)
			}
			contest.last(2 * time.Minute)
			contest.skipIfBusy()
			if !contest.illegal.Load() {
				t.Errorf("nobody has noticed: %v", &contest.total)
			}
		})
	}
}
