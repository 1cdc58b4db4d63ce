package consul

import (
	"context"

	"github.com/leaderrun/leaderrun/backends"
)

// Order implements backends.Operator. A lock that is taken from its holder is unlocked, which leaves no lock-delay
// behind. One that follows the end of a session is Consul's own, and nobody can shorten it.
func (d *Driver) Order(ctx context.Context, o backends.Order) error {
	return backends.About(string(o.Kind), o.Job, d.steps(nil).Order(ctx, o))
}
