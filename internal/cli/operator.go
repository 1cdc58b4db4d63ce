package cli

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/leaderrun/leaderrun/backends"
	"github.com/leaderrun/leaderrun/internal/shards"
	"github.com/leaderrun/leaderrun/internal/value"
	"github.com/leaderrun/leaderrun/runner"
)

// oneJob returns the argument of a command that is about one job.
func (c *call) oneJob() (string, error) {
	hint := "usage: " + c.cmd.usageLine()
	switch {
	case len(c.args) == 0:
		return "", usage("JOB is missing", "", hint)
	case len(c.args) > 1:
		return "", usage(c.cmd.name, "one job at a time", hint)
	}
	if value.NotName(c.args[0]) != "" {
		return "", usage("JOB", "no job can have this name", "")
	}
	return c.args[0], nil
}

// inspectJob returns what the store keeps about a job.
func inspectJob(ctx context.Context, store backends.Backend, job string) (status backends.Status, err error) {
	err = patiently(ctx, func(ctx context.Context) error {
		status, err = store.Inspect(ctx, job)
		return err
	})
	return status, answered(store, job, err)
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
	o.By = thisOperator()
	err := answered(store, o.Job, patiently(ctx, func(ctx context.Context) error { return store.Order(ctx, o) }))
	if f, ok := errors.AsType[*fault](err); ok && f.code == codeUnavailable {
		f.hint = "the order may have arrived: `leaderrun status` and `history` show it"
	}
	return err
}

// lookAgain is how long an operator's command waits before it asks again.
const lookAgain = time.Second

// orderWhenSafe gives an order that is refused as long as a holder may live whose lease is gone, again and again until
// it is safe, or would only be after more than the given time. Some stores only know how long that is for whoever looks
// for the first time: the order says what was watched since.
func (c *call) orderWhenSafe(ctx context.Context, store backends.Backend, o backends.Order, most time.Duration) error {
	var since time.Time
	for began := time.Now(); ; {
		err := orderJob(ctx, store, o)
		r, ok := errors.AsType[*backends.Refusal](err)
		now := time.Now()
		if !ok || r.Verdict != backends.Vanished || now.Add(r.Wait).Sub(began) > most {
			return err
		}
		if since.IsZero() {
			c.remark(o.Job, fmt.Sprintf("waiting %s: the lease of %s vanished, and it may still run", millis(r.Wait.Milliseconds()), runner.HolderText(r.Holder)))
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

// answered makes what a store says of a job a fault with an exit code. A refusal, and that there is nothing left to
// do, are for the caller to judge.
func answered(store backends.Backend, job string, err error) error {
	switch {
	case err == nil, errors.Is(err, backends.ErrOver):
		return err
	case errors.Is(err, backends.ErrUnknownJob):
		return unknownJob(store, job)
	case backends.IsAnswer(err):
		return err
	}
	return asked(err)
}

// thisOperator is who gives orders: this process, under an id of its own.
func thisOperator() backends.Holder {
	h := thisHolder()
	var id [16]byte
	_, _ = rand.Read(id[:]) // never fails since Go 1.24
	h.ID = hex.EncodeToString(id[:])
	return h
}

// refused is a refusal of what an operator wants, with who is in the way and for how long.
func refused(job string, r *backends.Refusal) *fault {
	f := &fault{code: codeNotRun, what: job, err: r}
	who := runner.HolderText(r.Holder)
	switch r.Verdict {
	case backends.Held:
		f.why = "runs on " + who
		f.hint = "`leaderrun break` ends the run"
		if r.Wait > 0 {
			f.why += ", and its lease has " + millis(r.Wait.Milliseconds()) + " left"
		}
	case backends.Vanished:
		f.why = fmt.Sprintf("the lease of %s vanished, and it may still run for %s", who, millis(r.Wait.Milliseconds()))
		f.hint = "wait, or answer for its death: `leaderrun break --holder-is-dead`"
	case backends.Quarantined:
		f.why = "the backend may have forgotten a lease, and gives none for " + millis(r.Wait.Milliseconds())
	default:
		f.why = r.Error()
	}
	return f
}

// remark says what an operator on a terminal wants to see, and a script does not.
func (c *call) remark(job, text string) {
	e := runner.Event{Name: "operator", Job: job, Level: slog.LevelInfo, Text: text}
	if c.console.terminal && !c.console.json {
		e.Level = slog.LevelWarn
	}
	c.console.event(e)
}
