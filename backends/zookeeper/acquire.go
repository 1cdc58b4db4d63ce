package zookeeper

import (
	"context"
	"errors"
	"strconv"

	"github.com/leaderrun/leaderrun/backends"
)

// Acquire implements backends.Driver: a connection with a new session, one round trip to read and one to write. The
// session is the grant's, or is closed.
func (d *Driver) Acquire(ctx context.Context, c backends.Claim) (backends.Grant, error) {
	s := d.newSession(c.TTL)
	d.mu.Lock()
	s.holder = c.Holder.ID
	d.mu.Unlock()
	g, err := s.acquire(ctx, c)
	switch {
	case err == nil:
		return g, nil
	case backends.IsAnswer(err), errors.Is(err, errReborn): // nobody else is to wait for a lease that is no grant
		s.farewell()
	default:
		s.drop()
	}
	return backends.Grant{}, backends.About("claim", c.Job, err)
}

func (s *session) acquire(ctx context.Context, c backends.Claim) (backends.Grant, error) {
	old, err := s.read(ctx, c.Job)
	if err != nil {
		return backends.Grant{}, err
	}
	asked := c
	c.TTL = s.granted() // for so long others wait for the holder if it vanishes
	for {
		if old.foreign != nil {
			return backends.Grant{}, old.foreign
		}
		decision := backends.Decide(old.view(c.TTL), c)
		if decision.Grant == nil && !decision.Changed {
			return backends.Grant{}, decision.Refusal
		}
		change := change{record: decision.Record}
		if g := decision.Grant; g != nil {
			change.alive, change.lease, change.label = true, hold, backends.LabelOf(*g)
		}
		now, done, err := s.swap(ctx, c.Job, old, change)
		switch {
		case err != nil:
			return backends.Grant{}, err
		case !done:
			old = now // what was decided on is no more
		case decision.Grant == nil:
			return backends.Grant{}, decision.Refusal
		default:
			g := *decision.Grant
			g.Claim = asked
			g.Native = strconv.FormatInt(now.leased, 10)
			g.Private = newHolding(s, now)
			return g, nil
		}
	}
}
