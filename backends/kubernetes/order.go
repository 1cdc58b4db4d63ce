package kubernetes

import (
	"context"

	"github.com/leaderrun/leaderrun/backends"
)

// Order implements backends.Operator: two round trips.
func (d *Driver) Order(ctx context.Context, o backends.Order) error {
	ctx, cancel := d.during(ctx)
	defer cancel()
	return backends.About(string(o.Kind), o.Job, d.steps("", o.Seen).Order(ctx, o))
}
