package zookeeper

import (
	"context"

	"github.com/leaderrun/leaderrun/backends"
)

// Order implements backends.Operator: two round trips. A reply that is lost costs nothing: asked again, it is decided on
// what is there then.
func (d *Driver) Order(ctx context.Context, o backends.Order) error {
	err := d.briefly(func(s *session) error { return s.order(ctx, o) })
	if err != nil {
		return about(string(o.Kind), o.Job, err)
	}
	return nil
}

func (s *session) order(ctx context.Context, o backends.Order) error {
	old, err := s.read(ctx, o.Job)
	for err == nil {
		if old.foreign != nil {
			return old.foreign
		}
		answer := backends.DecideOrder(old.view(0), o)
		if !answer.Changed {
			return answer.Err
		}
		// A tombstone has a beat of its own: whoever counts the silence of its predecessor begins anew.
		c := change{record: answer.Record, alive: answer.Record.Beat != old.record.Beat}
		if answer.Release {
			c.lease = release
		}
		var done bool
		if old, done, err = s.swap(ctx, o.Job, old, c); done {
			return answer.Err
		}
	}
	return err
}
