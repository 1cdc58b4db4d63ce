package command

import (
	"errors"

	"github.com/leaderrun/leaderrun/backends"
)

func forgetCommand() *command {
	return &command{
		name: "forget", args: "JOB", brief: "forget a job that nobody runs",
		about: `Forgets the history of a job, its last tick, its keys and its schedule. Only its token is kept, so that the
next one is greater. A job that somebody runs, or may still run, is left as it is: exit code 76, and who
it is. The exit code is 1 for an unknown job. To forget only a tick, a key or the schedule: break.`,
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
	err = orderJob(ctx, store, backends.Order{Job: job, Kind: backends.ForgetJob})
	if r, ok := errors.AsType[*backends.Refusal](err); ok {
		return End{}, refused(job, r)
	}
	if err == nil || errors.Is(err, backends.ErrOver) {
		c.remark(job, job+" is forgotten")
		return End{}, nil
	}
	return End{}, err
}
