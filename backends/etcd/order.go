package etcd

import (
	"context"

	"github.com/leaderrun/leaderrun/backends"
)

// Order implements backends.Operator: two round trips, and one to tidy up where the lease was removed.
func (d *Driver) Order(ctx context.Context, o backends.Order) error {
	if err := d.steps().Order(ctx, o); err != nil {
		return backends.About(string(o.Kind), o.Job, err)
	}
	return nil
}
