package consul

import (
	"context"
	"errors"
	"strconv"

	"github.com/hashicorp/consul/api"

	"github.com/leaderrun/leaderrun/backends"
)

// Acquire implements backends.Driver. The read comes before the session: of all hosts that claim a job at the same
// minute one needs a session, and making one costs a write of the whole cluster.
func (d *Driver) Acquire(ctx context.Context, c backends.Claim) (backends.Grant, error) {
	var spare string
	g, err := d.claim(ctx, c, &spare)
	if spare != "" {
		d.destroy(ctx, spare)
	}
	return g, backends.About("claim", c.Job, err)
}

// claim decides a claim, again for as long as others change the keys meanwhile. spare is a session that it made
// and that certainly holds nothing.
func (d *Driver) claim(ctx context.Context, c backends.Claim, spare *string) (backends.Grant, error) {
	for tries := 0; ; tries++ {
		if err := pause(ctx, tries); err != nil {
			return backends.Grant{}, err
		}
		s, err := d.read(ctx, c.Job)
		if err != nil {
			return backends.Grant{}, err
		}
		decision := backends.Decide(s.view(), c)
		if !decision.Changed {
			return backends.Grant{}, decision.Refusal
		}
		next, err := d.carryOut(ctx, s, decision, c, spare)
		switch {
		case errors.Is(err, errConflict), errors.Is(err, errSession):
		case errors.Is(err, errDelayed):
			return backends.Grant{}, s.delayed()
		case err != nil:
			return backends.Grant{}, err
		case decision.Grant == nil:
			return backends.Grant{}, decision.Refusal
		default:
			return next.granted(*decision.Grant), nil
		}
	}
}

// carryOut writes what was decided about a claim, with a session that takes the lock if it is granted.
func (d *Driver) carryOut(ctx context.Context, s *state, decision backends.Decision, c backends.Claim, spare *string) (*state, error) {
	var step *api.KVTxnOp
	switch {
	case decision.Grant == nil:
	case s.lock.session != "": // it is granted already, and the reply was lost
		if s.lock.session == *spare { // on its way here the transaction was sent twice, or another answered for it
			*spare = ""
		}
		if err := d.renewSession(ctx, s.lock.session); err != nil {
			return nil, err
		}
	default:
		if *spare == "" {
			id, err := d.newSession(ctx, c)
			if err != nil {
				return nil, err
			}
			*spare = id
		}
		step = s.take(*spare, decision.Grant)
	}
	next, err := d.commit(ctx, s, decision.Record, step)
	if step != nil && !unapplied(err) {
		*spare = "" // it has the lock, or may have it
	}
	return next, err
}

// unapplied says that a transaction has certainly changed nothing.
func unapplied(err error) bool {
	p, ok := errors.AsType[*backends.PermanentError](err)
	return errors.Is(err, errConflict) || errors.Is(err, errDelayed) || ok && p.Kind == backends.Credentials
}

// granted completes a grant. The lock's index is that of the transaction that took it: renewals leave it alone.
func (s *state) granted(g backends.Grant) backends.Grant {
	g.Native = strconv.FormatUint(s.lock.index, 10)
	g.Private = backends.NewHolding(s, newer)
	return g
}

// delayed refuses a claim because of a lock-delay: a session that held the lock ended a moment ago.
func (s *state) delayed() *backends.Refusal {
	r := s.view().Record
	return &backends.Refusal{
		Verdict: backends.Vanished, Holder: r.Holder, Token: r.Token, Tick: r.Tick.Tick, Wait: delayLook,
		Seen: backends.Evidence{Token: r.Token, Beat: r.Beat},
	}
}
