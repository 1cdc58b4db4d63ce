package kubernetes

import (
	"context"

	"github.com/leaderrun/leaderrun/backends"
)

// Acquire implements backends.Driver: two round trips, one for a claim that is refused and changes nothing.
func (d *Driver) Acquire(ctx context.Context, c backends.Claim) (backends.Grant, error) {
	ctx, cancel := d.during(ctx)
	defer cancel()
	g, err := d.acquire(ctx, c)
	if err != nil {
		return backends.Grant{}, backends.About("claim", c.Job, err)
	}
	return g, nil
}

func (d *Driver) acquire(ctx context.Context, c backends.Claim) (backends.Grant, error) {
	s, err := d.read(ctx, c.Job)
	for err == nil {
		decision := backends.Decide(s.view(c.Holder.ID, c.Seen), c)
		if decision.Grant == nil && !decision.Changed {
			return backends.Grant{}, decision.Refusal
		}
		var done bool
		s, done, err = d.swap(ctx, c.Job, s, change{record: decision.Record, alive: decision.Grant != nil})
		switch {
		case !done: // what was decided on is no more
		case decision.Grant == nil:
			return backends.Grant{}, decision.Refusal
		default:
			g := *decision.Grant
			g.Claim, g.Native, g.Private = c, s.lease.ResourceVersion, backends.NewHolding(s, newer)
			return g, nil
		}
	}
	return backends.Grant{}, err
}
