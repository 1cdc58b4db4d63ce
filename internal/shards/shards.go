// Package shards divides the work of a job into parts, and the parts among hosts.
//
// Shard 3 of the job "index" is the job "index#3" of the store, as a slot is (package slots): it has a lease, a record and tokens of its
// own, and nobody else decides who may run it. So nothing in this package can make two runs of one shard overlap. It only
// says which host tries to get which shard, and when a host gives one up.
package shards

import (
	"context"

	"github.com/leaderrun/leaderrun/backends"
	"github.com/leaderrun/leaderrun/runner"
)

// Store is what is needed of the store that keeps the leases.
type Store interface {
	backends.Driver
	Inspect(ctx context.Context, job string) (backends.Status, error)
}

// Shard is one part of a job.
type Shard struct {
	Job    string // its name in the store
	Number int
}

// Run runs the command for one shard, if its lease can be had now, and returns when the run is over. When stop ends, a
// running command is to be ended, and its lease released once it is dead.
type Run func(stop context.Context, shard Shard) runner.Result
