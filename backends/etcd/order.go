package etcd

import (
	"context"

	"github.com/leaderrun/leaderrun/backends"
	"github.com/leaderrun/leaderrun/backends/etcd/rpc"
)

// Order implements backends.Operator: two round trips, and one to tidy up where the lease was removed. A reply that is
// lost costs nothing: asked again, it is decided on what is there then.
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
		if s.foreign != nil {
			return s.foreign
		}
		answer := backends.DecideOrder(s.view(0), o)
		if !answer.Changed {
			return answer.Err
		}
		// A tombstone has a beat of its own: whoever counts the silence of its predecessor begins anew.
		c := change{record: answer.Record, alive: answer.Record.Beat != s.record.Beat, still: true}
		if answer.Release {
			c.more = []rpc.Op{{Delete: d.cfg.keys(o.Job).lease}}
		}
		now, done, err := d.swap(ctx, o.Job, s, c)
		switch {
		case err != nil:
			return err
		case !done:
			s = now // what was decided on is no more
			continue
		case answer.Release:
			d.revoke(ctx, s.lease)
		}
		return answer.Err
	}
}
