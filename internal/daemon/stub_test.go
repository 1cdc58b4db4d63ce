package daemon

import (
	"context"

	"github.com/leaderrun/leaderrun/backends"
)

func (s cutStore) Order(context.Context, backends.Order) error { return errCut }
