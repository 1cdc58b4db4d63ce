package postgres

import (
	"context"

	"github.com/leaderrun/leaderrun/backends"
)

// Acquire implements backends.Driver: two round trips, and one more for the first claim of all, which makes the table.
//
// The lease lasts from the time at which the row was read. Whatever a statement waits for, and however late it arrives, it
// grants nothing for longer than its sender believes, and nothing at all if anything has changed since.
func (d *Driver) Acquire(ctx context.Context, c backends.Claim) (backends.Grant, error) {
	g, err := d.acquire(ctx, c)
	if err != nil {
		return backends.Grant{}, backends.About("claim", c.Job, err)
	}
	return g, nil
}

func (d *Driver) acquire(ctx context.Context, c backends.Claim) (backends.Grant, error) {
	if c.TTL > d.cfg.longest {
		return backends.Grant{}, backends.Misconfigured(longestHint, "a TTL of %v is longer than this store allows (%v)", c.TTL, d.cfg.longest)
	}
	s, err := d.read(ctx, c.Job)
	for err == nil {
		if s.missing {
			s, _, err = d.swap(ctx, c.Job, s, change{})
			continue
		}
		mark, quarantine := s.server.admit(d.cfg.longest)
		seen := s.bounded()
		decision := backends.Decide(seen.view(quarantine), c)
		change := seen.keep(decision.Record)
		change.claim = true
		if mark != s.server.mark {
			change.mark = &mark
		}
		if decision.Grant == nil && !decision.Changed && seen == s {
			if change.mark == nil {
				return backends.Grant{}, decision.Refusal
			}
			if done, err := d.note(ctx, s, mark); err != nil || done {
				return backends.Grant{}, orRefusal(err, decision.Refusal)
			}
			s, err = d.read(ctx, c.Job)
			continue
		}
		if g := decision.Grant; g != nil {
			change.holder, change.token = c.Holder.ID, g.Token
		}
		now, done, errSwap := d.swap(ctx, c.Job, s, change)
		switch {
		case errSwap != nil:
			return backends.Grant{}, errSwap
		case !done:
			s = now // what was decided on is no more
		case decision.Grant == nil:
			return backends.Grant{}, decision.Refusal
		default:
			g := *decision.Grant
			g.Private = backends.NewHolding(now, newer)
			return g, nil
		}
	}
	return backends.Grant{}, err
}

func orRefusal(err error, r *backends.Refusal) error {
	if err != nil {
		return err
	}
	return r
}
