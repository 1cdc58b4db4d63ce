package cli

import (
	"cmp"
	"context"
	"errors"
	"time"

	"github.com/leaderrun/leaderrun/backends"
)

// aLittle is what the requests themselves may take while a holder's time is waited out.
const aLittle = 5 * time.Second

func forgetCommand() *command {
	return &command{
		name: "forget", args: "JOB", brief: "forget a job that nobody runs",
		about: `Forgets the history of a job, its last tick, its keys and its schedule. Only its token is kept, so that the
next one is greater. A job that somebody runs is left as it is: exit code 76, and who it is. A holder whose
lease is gone may still run: its time is waited out. All slots or shards of a job are forgotten, but
those that somebody has; JOB#3 is one of them. The exit code is 1 for an unknown job. To forget only a
tick, a key or the schedule: break.`,
		examples: []exampleLine{{"a job that is no more", "leaderrun forget nightly-report"}},
		options:  commonOptions(), run: runForget,
	}
}

func runForget(c *call) (End, error) {
	job, err := c.oneJob()
	if err != nil {
		return End{}, err
	}
	store, err := c.openStore()
	if err != nil {
		return End{}, err
	}
	defer store.Close()
	ctx, cancel := c.context()
	defer cancel()
	names, err := expand(ctx, store, job)
	if err != nil {
		return End{}, err
	}
	var first error
	for _, name := range names {
		first = cmp.Or(first, c.forget(ctx, store, name)) // a slot that somebody has does not keep the others
	}
	return End{}, first
}

// forget forgets a job. A holder that died is waited for once: one that gives a new sign of life meanwhile is not dead.
func (c *call) forget(ctx context.Context, store backends.Backend, job string) error {
	o := backends.Order{Job: job, Kind: backends.ForgetJob}
	err := orderJob(ctx, store, o)
	r, ok := errors.AsType[*backends.Refusal](err)
	if ok && r.Verdict == backends.Vanished {
		err = c.orderWhenSafe(ctx, store, o, r.Wait+aLittle)
		r, ok = errors.AsType[*backends.Refusal](err)
	}
	switch {
	case ok:
		return refused(job, r)
	case err == nil, errors.Is(err, backends.ErrOver):
		c.remark(job, job+" is forgotten")
		return nil
	}
	return err
}
