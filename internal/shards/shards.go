// Package shards divides the work of a job among the hosts that come: a tick or key that is worked through by all of them together.
//
// Shard 3 of the job "invoices" is the job "invoices#3" of the store (package slots), with its own lease, record and token. So that
// no shard is run twice is decided where it is for every job. What is new is who takes which shard, and when. Hosts do not talk to
// each other: each looks at the records of all.
package shards

import (
	"context"
	"time"

	"github.com/leaderrun/leaderrun/backends"
	"github.com/leaderrun/leaderrun/internal/slots"
	"github.com/leaderrun/leaderrun/runner"
)

// Most is the largest number of shards that a job can have.
const Most = slots.Most

// Store is what is needed of the store that keeps the leases, beside what a run does with it.
type Store interface {
	Inspect(ctx context.Context, job string) (backends.Status, error)
	Watch(ctx context.Context, job string) (<-chan backends.News, error)
}

// Shard is one shard for which the command is to be run.
type Shard struct {
	Number int
	// Trigger is what the run is for. Its Parts is the number of shards.
	Trigger backends.Trigger
	// Wait is how long to stand by for the shard to become free, as in a runner.Request. 0: it is run if its lease can be had now.
	Wait time.Duration
	// Wanted ends when nothing may start any more: then no claim is made, and a command that runs goes on.
	Wanted context.Context //nolint:containedctx // it is narrower than that of Run
	// Observe is told of every event of the run, in order, from one goroutine; nil: nobody is. It must not block.
	Observe func(runner.Event)
}

// Run runs the command for one shard, and returns when the run is over: its whole tree is dead, and its lease released. When ctx
// ends, a command that runs is asked to end, as by SIGTERM. It is called by several goroutines at once, for one shard by one at a
// time.
type Run func(ctx context.Context, s Shard) runner.Result
