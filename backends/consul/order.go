package consul

import (
	"context"
	"time"

	"github.com/leaderrun/leaderrun/backends"
)

// Order implements backends.Operator. A lock that is taken from its holder is unlocked, which leaves no lock-delay
// behind. One that follows the end of a session is Consul's own, and nobody can shorten it.
func (d *Driver) Order(ctx context.Context, o backends.Order) error {
	var answer backends.Ordered
	err := d.conclude(ctx, o.Job, &memory{}, func(v backends.View) backends.Ending {
		if v.Lease != nil { // the session lasts twice as long as its holder may believe that it leads
			v.Lease.Left = min(v.Lease.Left, time.Duration(v.Record.TTL)*time.Millisecond)
		}
		answer = backends.DecideOrder(v, o)
		return backends.Ending{Record: answer.Record, Changed: answer.Changed, Release: answer.Release}
	})
	if err == nil {
		err = answer.Err
	}
	return about(string(o.Kind), o.Job, err)
}
