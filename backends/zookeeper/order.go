package zookeeper

import (
	"context"

	"github.com/leaderrun/leaderrun/backends"
)

// Order implements backends.Operator: a connection with a new session, and two round trips.
func (d *Driver) Order(ctx context.Context, o backends.Order) error {
	err := d.briefly(func(s *session) error { return s.steps().Order(ctx, o) })
	if err != nil {
		return backends.About(string(o.Kind), o.Job, err)
	}
	return nil
}
