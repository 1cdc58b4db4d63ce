package postgres

import (
	"context"

	"github.com/leaderrun/leaderrun/backends"
)

// Order implements backends.Operator: two round trips. A reply that is lost costs nothing: asked again, it is decided on
// what is there then. What changes nothing is written too, as the end of a run is.
func (d *Driver) Order(ctx context.Context, o backends.Order) error {
	s, err := d.read(ctx, o.Job)
	if err == nil {
		err = d.order(ctx, s, o)
	}
	if err != nil {
		return about(string(o.Kind), o.Job, err)
	}
	return nil
}

func (d *Driver) order(ctx context.Context, s *state, o backends.Order) error {
	for {
		answer := backends.DecideOrder(s.view(d.quarantine(s)), o)
		if answer.Err != nil && !answer.Changed {
			return answer.Err
		}
		now, done, err := d.swap(ctx, o.Job, s, s.release(answer.Record, answer.Release))
		switch {
		case err != nil:
			return err
		case done:
			return answer.Err
		}
		s = now // what was decided on is no more
	}
}
