package operate

import (
	"cmp"
	"context"
	"errors"
	"time"

	"github.com/leaderrun/leaderrun/backends"
	"github.com/leaderrun/leaderrun/internal/cli"
	"github.com/leaderrun/leaderrun/runner"
)

// aLittle is what the requests themselves may take while a holder's time is waited out.
const aLittle = 5 * time.Second

// Forget is `leaderrun forget`.
func Forget() *cli.Command {
	return &cli.Command{
		Name: "forget", Args: "JOB", Brief: "forget a job that nobody runs",
		About: `Forgets the history of a job, its last tick, its keys and its schedule. Only its token is kept, so that the
next one is greater. A job that somebody runs is left as it is: exit code 76, and who it is. A holder whose
lease is gone may still run: its time is waited out. All slots or shards of a job are forgotten, but
those that somebody has; JOB#3 is one of them. So are the hosts that shared its workers and are gone.
The exit code is 1 for an unknown job. To forget only a tick, a key or the schedule: break.`,
		Examples: []cli.ExampleLine{{Does: "a job that is no more", Line: "leaderrun forget nightly-report"}},
		Options:  cli.CommonOptions(), Run: runForget,
	}
}

func runForget(c *cli.Call) (cli.ExitStatus, error) {
	job, err := oneJob(c)
	if err != nil {
		return cli.ExitStatus{}, err
	}
	return c.OnStore(func(ctx context.Context, store backends.Backend) error {
		names, places, err := namesOf(ctx, store, job)
		if err != nil {
			return err
		}
		var first error
		for _, name := range names {
			failed := forget(ctx, c, store, name)
			if len(places) > 0 && name == job && errors.Is(failed, backends.ErrUnknownJob) { // its hosts have not begun anything
				continue
			}
			first = cmp.Or(first, failed) // a slot that somebody has does not keep the others
		}
		for _, name := range places {
			first = cmp.Or(first, forgetPlace(ctx, c, store, job, name))
		}
		return first
	})
}

// forgetPlace forgets a place of those who share the shards of a job.
func forgetPlace(ctx context.Context, c *cli.Call, store backends.Backend, job, place string) error {
	err := forget(ctx, c, store, place)
	if r, ok := errors.AsType[*backends.Refusal](err); ok && r.Verdict == backends.Held {
		return &cli.Fault{
			Code: cli.CodeNotRun, What: job, Err: err, Why: runner.HolderText(r.Holder) + " shares its shards",
			Hint: "end leaderrun there, which gives its place back",
		}
	}
	return err
}

// forget forgets a job. A holder that died is waited for once: one that gives a new sign of life meanwhile is not dead.
func forget(ctx context.Context, c *cli.Call, store backends.Backend, job string) error {
	o := backends.Order{Job: job, Kind: backends.ForgetJob}
	err := orderJob(ctx, store, o)
	r, ok := errors.AsType[*backends.Refusal](err)
	if ok && r.Verdict == backends.Vanished {
		err = orderWhenSafe(ctx, c, store, o, r.Wait+aLittle)
		r, ok = errors.AsType[*backends.Refusal](err)
	}
	switch {
	case ok:
		return refused(job, r)
	case err == nil, errors.Is(err, backends.ErrOver):
		remark(c, job, job+" is forgotten")
		return nil
	}
	return err
}
