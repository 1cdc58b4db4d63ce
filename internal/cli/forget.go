package cli

import (
	"cmp"
	"context"
	"errors"
	"time"

	"github.com/leaderrun/leaderrun/backends"
	"github.com/leaderrun/leaderrun/runner"
)

// aLittle is what the requests themselves may take while a holder's time is waited out.
const aLittle = 5 * time.Second

func forgetCommand() *command {
	return &command{
		name: "forget", args: "JOB", brief: "forget a job that nobody runs",
		about: `Forgets the history of a job, its last tick, its keys and its schedule. Only its token is kept, so that the
next one is greater. A job that somebody runs is left as it is: exit code 76, and who it is. A holder whose
lease is gone may still run: its time is waited out. All slots or shards of a job are forgotten, but
those that somebody has; JOB#3 is one of them. So are the hosts that shared its workers and are gone.
The exit code is 1 for an unknown job. To forget only a tick, a key or the schedule: break.`,
		examples: []exampleLine{{"a job that is no more", "leaderrun forget nightly-report"}},
		options:  commonOptions(), run: runForget,
	}
}

func runForget(c *call) (ExitStatus, error) {
	job, err := c.oneJob()
	if err != nil {
		return ExitStatus{}, err
	}
	return c.onStore(func(ctx context.Context, store backends.Backend) error {
		names, places, err := namesOf(ctx, store, job)
		if err != nil {
			return err
		}
		var first error
		for _, name := range names {
			failed := c.forget(ctx, store, name)
			if len(places) > 0 && name == job && errors.Is(failed, backends.ErrUnknownJob) { // its hosts have not begun anything
				continue
			}
			first = cmp.Or(first, failed) // a slot that somebody has does not keep the others
		}
		for _, name := range places {
			first = cmp.Or(first, c.forgetPlace(ctx, store, job, name))
		}
		return first
	})
}

// forgetPlace forgets a place of those who share the shards of a job.
func (c *call) forgetPlace(ctx context.Context, store backends.Backend, job, place string) error {
	err := c.forget(ctx, store, place)
	if r, ok := errors.AsType[*backends.Refusal](err); ok && r.Verdict == backends.Held {
		return &fault{
			code: codeNotRun, what: job, err: err, why: runner.HolderText(r.Holder) + " shares its shards",
			hint: "end leaderrun there, which gives its place back",
		}
	}
	return err
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
