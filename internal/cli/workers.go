package cli

import (
	"errors"
	"fmt"
	"strings"

	"github.com/leaderrun/leaderrun/backends"
	"github.com/leaderrun/leaderrun/internal/shards"
	"github.com/leaderrun/leaderrun/runner"
)

// runWorkers shares the shards of a job with other hosts until a signal ends the program.
func (c *call) runWorkers(plan *runPlan, store backends.Backend) (End, error) {
	if c.ahead != nil {
		c.ahead.close() // each run has a guardian of its own, with other files
	}
	w, err := newCrew(c, plan, store)
	if err != nil {
		return End{}, err
	}
	leases := shards.Remember(store)
	w.runner.Driver = leases
	workers := shards.Workers{
		Job: plan.job, Shards: plan.request.Trigger.Parts, Host: w.host, TTL: plan.timeline.TTL,
		Store: leases, Run: w.run, Tell: w.tellWorkers,
	}
	results, err := workers.Keep(w.wanted)
	end := w.endOfWorkers(results)
	if err != nil {
		err = notDivided(plan.job, err)
		end = End{Code: errorCode(err)}
	}
	w.close(end)
	return end, err
}

// tellWorkers tells what concerns the workers of all shards. A host that stands by, with a place but without a shard, is ready.
func (w *crew) tellWorkers(e runner.Event) {
	w.mu.Lock()
	if e.Name == shards.EventMember && w.notify != nil && !w.notify.told && w.plan.ready == readyStandby {
		w.notify.isReady(e.Text)
	}
	w.mu.Unlock()
	w.commands.call.console.event(e)
}

// endOfWorkers is the end of a program that a signal has ended: the first code by which a command answered to it, or else the signal.
func (w *crew) endOfWorkers(results []runner.Result) End {
	well := false
	for _, r := range results {
		end := endOf(r, w.plan.conflict)
		switch {
		case r.Grant.Token == 0 || end.Signal != 0: // it was not started, or ended by that signal
		case end.Code != 0:
			return end
		default:
			well = true
		}
	}
	for _, r := range results {
		if end := endOf(r, w.plan.conflict); r.Grant.Token != 0 && end.Signal != 0 {
			return end
		}
	}
	if well {
		return End{Code: 0}
	}
	return bySignal(w.signal())
}

// notDivided is why this host cannot share the shards of a job with others.
func notDivided(job string, err error) error {
	if d, ok := errors.AsType[*shards.Differs](err); ok {
		return usage("--shards", fmt.Sprintf("%s divides %s into %d shards, and this host into %d", d.Host, job, d.Theirs, d.Ours),
			"give all hosts the same --shards; to change it, end all workers first")
	}
	return asked(err)
}

// checkMembers refuses the names under which the store keeps who shares a job's shards.
func checkMembers(job string) error {
	if of, is := shards.IsMembers(job); is {
		return usage("JOB", fmt.Sprintf("%q is where the hosts are kept that share %s", job, strings.TrimSpace(of)), "a job's own name does not end like that")
	}
	return nil
}
