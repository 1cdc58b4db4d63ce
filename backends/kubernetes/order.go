package kubernetes

import (
	"context"

	"github.com/leaderrun/leaderrun/backends"
)

// Order implements backends.Operator: two round trips. A reply that is lost costs nothing: asked again, it is decided
// on what is there then.
func (d *Driver) Order(ctx context.Context, o backends.Order) error {
	ctx, cancel := d.during(ctx)
	defer cancel()
	return about(string(o.Kind), o.Job, d.order(ctx, o))
}

func (d *Driver) order(ctx context.Context, o backends.Order) error {
	s, err := d.read(ctx, o.Job)
	for err == nil {
		answer := backends.DecideOrder(s.view("", o.Seen), o)
		if !answer.Changed {
			return answer.Err
		}
		// A tombstone has a beat of its own.
		c := change{record: answer.Record, beat: answer.Record.Beat != s.record.Beat, release: answer.Release}
		var done bool
		if s, done, err = d.swap(ctx, o.Job, s, c); done {
			return answer.Err
		}
	}
	return err
}
