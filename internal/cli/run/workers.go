package run

import (
	"errors"
	"fmt"
	"slices"

	"github.com/leaderrun/leaderrun/backends"
	"github.com/leaderrun/leaderrun/internal/cli"
	"github.com/leaderrun/leaderrun/internal/launch"
	"github.com/leaderrun/leaderrun/internal/shards"
	"github.com/leaderrun/leaderrun/runner"
)

// runWorkers shares the shards of a job with other hosts until a signal ends the program.
func runWorkers(c *cli.Call, plan *runPlan, store backends.Backend) (cli.ExitStatus, error) {
	w, err := newCrew(c, plan, store)
	if err != nil {
		return cli.ExitStatus{}, err
	}
	workers := shards.Workers{
		Job: plan.job, Shards: plan.request.Trigger.Parts, Host: w.host, TTL: plan.timeline.TTL,
		Store: w.leases, Run: w.run, Tell: w.tellWorkers, Inside: w.inside,
	}
	results, err := workers.Keep(w.wanted)
	end := w.endOfWorkers(results)
	if refusal, refused := errors.AsType[*backends.Refusal](err); refused {
		result := runner.Result{Ending: runner.Refused, Refusal: refusal}
		end, err = cli.EndOf(result, plan.conflict), nil
		(&launch.Reporter{Console: c.Console, Job: plan.job}).Tell(result, end)
	}
	if err != nil {
		err = notDivided(plan.job, err)
		end = cli.ExitStatus{Code: cli.ErrorCode(err)}
	}
	w.close(end)
	return end, err
}

// tellWorkers tells what concerns the workers of all shards. A host that stands by, with a place but without a shard, is ready.
func (w *crew) tellWorkers(e runner.Event) {
	w.mu.Lock()
	if e.Name == shards.EventMember && w.notify != nil && (w.notify.Told || w.plan.ready == launch.ReadyStandby) {
		w.notify.IsReady(e.Text)
	}
	w.mu.Unlock()
	w.commands.Call.Console.Event(e)
}

// endOfWorkers is the end of a program that a signal has ended: the first code by which a command answered to it, or else the signal.
func (w *crew) endOfWorkers(results []runner.Result) cli.ExitStatus {
	var ends []cli.ExitStatus
	for _, r := range results {
		if r.Grant.Token != 0 && r.Ending != runner.Interrupted { // it was started
			ends = append(ends, cli.EndOf(r, w.plan.conflict))
		}
	}
	answered := func(e cli.ExitStatus) bool { return e.Code != 0 && e.Signal == 0 }
	bySame := func(e cli.ExitStatus) bool { return e.Signal != 0 }
	for _, first := range []func(cli.ExitStatus) bool{answered, bySame} {
		if i := slices.IndexFunc(ends, first); i >= 0 {
			return ends[i]
		}
	}
	if len(ends) > 0 {
		return cli.ExitStatus{Code: 0}
	}
	return cli.BySignal(w.signal())
}

// notDivided is why this host cannot share the shards of a job with others.
func notDivided(job string, err error) error {
	if d, ok := errors.AsType[*shards.Differs](err); ok {
		return cli.Usage("--shards", fmt.Sprintf("%s divides %s into %d shards, and this host into %d", d.Host, job, d.Theirs, d.Ours),
			"give all hosts the same --shards; to change it, end all workers first")
	}
	return cli.Asked(err)
}

// checkMembers refuses the names under which the store keeps who shares a job's shards.
func checkMembers(job string) error {
	if of, is := shards.IsMembers(job); is {
		return cli.Usage("JOB", fmt.Sprintf("%q is where the hosts are kept that share %s", job, of), "a job's own name does not end like that")
	}
	return nil
}
