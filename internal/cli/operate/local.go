package operate

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"syscall"
	"time"

	"github.com/leaderrun/leaderrun/backends"
	"github.com/leaderrun/leaderrun/internal/cli"
	"github.com/leaderrun/leaderrun/internal/supervise"
	"github.com/leaderrun/leaderrun/runner"
)

const (
	askAgain    = 300 * time.Millisecond // between two SIGTERM: the first must have arrived, for the second to kill
	wrapperTime = 5 * time.Second        // for leaderrun to end its run
	lastTime    = 10 * time.Second       // for what was sent SIGKILL to be gone
	lookHolders = 20 * time.Millisecond
)

// killHere ends a run of this machine, whose lease is free when its processes are gone, and not before. Each step is
// for the case that the one before it did not help:
//
//  1. leaderrun is asked by SIGTERM, twice: it kills the whole tree, confirms that it is dead and records it.
//  2. leaderrun is killed: its guardian, which sees that, ends the tree.
//  3. All that still has the lease is killed.
//
// A daemon has other runs too. There the guardian of this one is killed, and the daemon sweeps up what it guarded.
func (b *breaking) killHere(ctx context.Context, s backends.Status, run *watchedRun) error {
	// The history is to say who did it and why.
	stop := backends.Order{Job: b.job, Kind: backends.Stop, Reason: b.reason, Token: run.token}
	err := orderJob(ctx, b.store, stop)
	if r, ok := errors.AsType[*backends.Refusal](err); ok {
		return refused(b.job, r)
	}
	if err != nil && !errors.Is(err, backends.ErrOver) {
		return err
	}
	q := &target{breaking: b, holders: b.store.Limits().LocalHolders, run: run, wrapper: s.Record.Holder.PID}
	q.daemon = isDaemon(supervise.ArgumentsOf(q.wrapper))
	pids, err := q.holders(b.job)
	if err != nil {
		return q.unseen(err)
	}
	ttl := time.Duration(s.Record.TTL) * time.Millisecond
	steps := []struct {
		act   func() error
		time  time.Duration
		again time.Duration // how often it is repeated meanwhile
	}{
		{func() error { return q.signal(q.isWrapper, syscall.SIGTERM, syscall.SIGCONT) }, wrapperTime, askAgain},
		{func() error { return q.signal(q.isGuard, syscall.SIGKILL) }, ttl/3 + wrapperTime, wrapperTime + ttl},
		{func() error { return q.signal(q.isAny, syscall.SIGKILL) }, lastTime, askAgain},
	}
	if q.daemon || !slices.Contains(pids, q.wrapper) {
		steps = steps[1:]
	}
	for _, step := range steps {
		over, err := q.insist(ctx, step.act, step.time, step.again)
		if over || err != nil {
			return err
		}
	}
	if pids, err = q.holders(b.job); err != nil {
		return q.unseen(err)
	}
	return &cli.Fault{Code: cli.CodeNotRun, What: b.job, Why: fmt.Sprintf("processes that survive SIGKILL still hold it: %v", pids)}
}

// target is a run of this machine that is being ended.
type target struct {
	*breaking
	holders func(job string) ([]int, error) // Limits.LocalHolders
	run     *watchedRun
	wrapper int  // the process that claimed the job
	daemon  bool // it has other runs too
}

func (q *target) isWrapper(pid int) bool { return pid == q.wrapper && !q.daemon }

// isGuard tells the one of wrapper and guardian after whose death the other one ends the run.
func (q *target) isGuard(pid int) bool {
	if q.daemon {
		return supervise.IsGuardian(pid)
	}
	return pid == q.wrapper
}

func (q *target) isAny(pid int) bool { return pid != q.wrapper || !q.daemon }

// isDaemon tells `leaderrun cron` from `leaderrun run` by its arguments. In doubt it is a daemon: the run is ended in
// another way then.
func isDaemon(argv []string) bool {
	i := slices.IndexFunc(argv, func(word string) bool { return word == "cron" || word == "run" })
	return i < 0 || argv[i] == "cron"
}

// insist acts, again and again, until the run is over or the time is.
func (q *target) insist(ctx context.Context, act func() error, limit, again time.Duration) (over bool, err error) {
	end, next := time.Now().Add(limit), time.Time{}
	for {
		now := time.Now()
		if now.After(end) {
			return false, nil
		}
		if !now.Before(next) {
			if err := act(); err != nil {
				return false, err
			}
			next = now.Add(again)
		}
		s, err := inspectJob(ctx, q.store, q.job)
		if err != nil {
			return false, err
		}
		if q.run.over(s, time.Now()) {
			q.tellEnd(s, q.run)
			return true, nil
		}
		select {
		case <-time.After(lookHolders):
		case <-ctx.Done():
			return false, ctx.Err()
		}
	}
}

// signal sends signals to those holders of the lease that are meant, never to this process. A process that holds the
// lease when it was taken hold of is the one that is meant.
func (q *target) signal(meant func(pid int) bool, signals ...syscall.Signal) error {
	taken, err := q.take(meant)
	defer func() {
		for _, o := range taken {
			o.Close()
		}
	}()
	if err != nil {
		return err
	}
	still, err := q.holders(q.job)
	if err != nil {
		return q.unseen(err)
	}
	for _, o := range taken {
		if !slices.Contains(still, o.PID()) {
			continue
		}
		for _, n := range signals {
			if err := o.Signal(n); err != nil && !errors.Is(err, syscall.ESRCH) {
				return q.untouchable(o.PID(), err)
			}
		}
	}
	return nil
}

// take takes hold of those holders of the lease that are meant, also where it returns an error.
func (q *target) take(meant func(pid int) bool) ([]*supervise.Outsider, error) {
	pids, err := q.holders(q.job)
	if err != nil {
		return nil, q.unseen(err)
	}
	var taken []*supervise.Outsider
	for _, pid := range pids {
		if pid == os.Getpid() || !meant(pid) {
			continue
		}
		o, err := supervise.OpenOutsider(pid)
		switch {
		case err == nil:
			taken = append(taken, o)
		case !errors.Is(err, syscall.ESRCH):
			return taken, q.untouchable(pid, err)
		}
	}
	return taken, nil
}

// unseen is the fault of a system that does not tell who holds a lock.
func (q *target) unseen(err error) error {
	return &cli.Fault{
		Code: cli.CodeNotRun, What: q.job, Why: "cannot find the processes of its run: " + err.Error(), Err: err,
		Hint: "end the process yourself: `leaderrun status` names it",
	}
}

func (q *target) untouchable(pid int, err error) error {
	return &cli.Fault{
		Code: cli.CodeNotRun, What: q.job, Why: fmt.Sprintf("process %d of its run cannot be signalled: %v", pid, err), Err: err,
		Hint: "do it as root, or as the user that runs the job",
	}
}

// aliveHere refuses to believe that a holder is dead that is seen to live.
func aliveHere(job string, s backends.Status) error {
	return &cli.Fault{
		Code: cli.CodeNotRun, What: job, Why: "its run is on this machine and not dead: " + runner.HolderText(s.Record.Holder),
		Hint: "--force kills it",
	}
}
