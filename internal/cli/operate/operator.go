// Package operate has the commands of those who operate jobs: status, history, next, break and forget.
package operate

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/leaderrun/leaderrun/backends"
	"github.com/leaderrun/leaderrun/internal/cli"
	"github.com/leaderrun/leaderrun/internal/launch"
	"github.com/leaderrun/leaderrun/internal/shards"
	"github.com/leaderrun/leaderrun/internal/value"
	"github.com/leaderrun/leaderrun/runner"
)

// oneJob returns the argument of a command that is about one job.
func oneJob(c *cli.Call) (string, error) {
	hint := "usage: " + c.Cmd.UsageLine()
	switch {
	case len(c.Args) == 0:
		return "", cli.Usage("JOB is missing", "", hint)
	case len(c.Args) > 1:
		return "", cli.Usage(c.Cmd.Name, "one job at a time", hint)
	}
	if value.NotName(c.Args[0]) != "" {
		return "", cli.Usage("JOB", "no job can have this name", "")
	}
	return c.Args[0], nil
}

// inspectJob returns what the store keeps about a job.
func inspectJob(ctx context.Context, store backends.Backend, job string) (status backends.Status, err error) {
	err = cli.Patiently(ctx, func(ctx context.Context) error {
		status, err = store.Inspect(ctx, job)
		return err
	})
	return status, cli.Answered(store, job, err)
}

// inspectJobs does so for several jobs, some at a time: a job has up to 10,000 slots or shards.
func inspectJobs(ctx context.Context, store backends.Backend, jobs []string) ([]backends.Status, error) {
	all := make([]backends.Status, len(jobs))
	return all, shards.Together(len(jobs), func(i int) (err error) {
		all[i], err = inspectJob(ctx, store, jobs[i])
		return err
	})
}

// orderJob gives an order in the name of this process. One that may or may not have arrived is repeated under the same
// id, and changes nothing then.
func orderJob(ctx context.Context, store backends.Backend, o backends.Order) error {
	o.By = launch.ThisOperator()
	err := cli.Answered(store, o.Job, cli.Patiently(ctx, func(ctx context.Context) error { return store.Order(ctx, o) }))
	if f, ok := errors.AsType[*cli.Fault](err); ok && f.Code == cli.CodeUnavailable {
		f.Hint = "the order may have arrived: `leaderrun status` and `history` show it"
	}
	return err
}

// lookAgain is how long an operator's command waits before it asks again.
const lookAgain = time.Second

// orderWhenSafe gives an order that is refused as long as a holder may live whose lease is gone, again and again until
// it is safe, or would only be after more than the given time. Some stores only know how long that is for whoever looks
// for the first time: the order says what was watched since.
func orderWhenSafe(ctx context.Context, c *cli.Call, store backends.Backend, o backends.Order, most time.Duration) error {
	var since time.Time
	for began := time.Now(); ; {
		err := orderJob(ctx, store, o)
		r, ok := errors.AsType[*backends.Refusal](err)
		now := time.Now()
		if !ok || r.Verdict != backends.Vanished || now.Add(r.Wait).Sub(began) > most {
			return err
		}
		if since.IsZero() {
			remark(c, o.Job, fmt.Sprintf("waiting %s: the lease of %s vanished, and it may still run", cli.Millis(r.Wait.Milliseconds()), runner.HolderText(r.Holder)))
		}
		if seen := r.Seen; seen.Token != o.Seen.Token || seen.Beat != o.Seen.Beat || since.IsZero() {
			o.Seen, since = seen, now
		}
		if err := pause(ctx, min(lookAgain, r.Wait)); err != nil {
			return err
		}
		o.Seen.For = time.Since(since)
	}
}

// pause returns an error if the context ends first.
func pause(ctx context.Context, d time.Duration) error {
	select {
	case <-time.After(d):
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// refused is a refusal of what an operator wants, with who is in the way and for how long.
func refused(job string, r *backends.Refusal) *cli.Fault {
	f := &cli.Fault{Code: cli.CodeNotRun, What: job, Err: r}
	who := runner.HolderText(r.Holder)
	switch r.Verdict {
	case backends.Held:
		f.Why = "runs on " + who
		f.Hint = "`leaderrun break` ends the run"
		if r.Wait > 0 {
			f.Why += ", and its lease has " + cli.Millis(r.Wait.Milliseconds()) + " left"
		}
	case backends.Vanished:
		f.Why = fmt.Sprintf("the lease of %s vanished, and it may still run for %s", who, cli.Millis(r.Wait.Milliseconds()))
		f.Hint = "wait, or answer for its death: `leaderrun break --holder-is-dead`"
	case backends.Quarantined:
		f.Why = "the backend may have forgotten a lease, and gives none for " + cli.Millis(r.Wait.Milliseconds())
	default:
		f.Why = r.Error()
	}
	return f
}

// remark says what an operator on a terminal wants to see, and a script does not.
func remark(c *cli.Call, job, text string) {
	e := runner.Event{Name: "operator", Job: job, Level: slog.LevelInfo, Text: text}
	if c.Console.Terminal && !c.Console.JSON {
		e.Level = slog.LevelWarn
	}
	c.Console.Event(e)
}
