package cli

import (
	"context"
	"errors"
	"fmt"
	"slices"
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
	if e.Name == shards.EventMember && w.notify != nil && (w.notify.told || w.plan.ready == readyStandby) {
		w.notify.isReady(e.Text)
	}
	w.mu.Unlock()
	w.commands.call.console.event(e)
}

// endOfWorkers is the end of a program that a signal has ended: the first code by which a command answered to it, or else the signal.
func (w *crew) endOfWorkers(results []runner.Result) End {
	var ends []End
	for _, r := range results {
		if r.Grant.Token != 0 && r.Ending != runner.Interrupted { // it was started
			ends = append(ends, endOf(r, w.plan.conflict))
		}
	}
	answered := func(e End) bool { return e.Code != 0 && e.Signal == 0 }
	bySame := func(e End) bool { return e.Signal != 0 }
	for _, first := range []func(End) bool{answered, bySame} {
		if i := slices.IndexFunc(ends, first); i >= 0 {
			return ends[i]
		}
	}
	if len(ends) > 0 {
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

// membersText has a line for each of the jobs that were asked for whose shards are shared by hosts now: who they are, and how many
// each has.
func membersText(ctx context.Context, store backends.Backend, asked []string, jobs []jobStatus) string {
	var text strings.Builder
	for _, job := range asked {
		having := map[string]int{}
		divided := false
		for _, j := range jobs {
			if j.Shard == nil || wholeJob(j.Job) != job {
				continue
			}
			divided = true
			if j.State == stateRunning {
				having[holderText(j.Host, j.PID, j.User, j.Holder)]++
			}
		}
		if !divided {
			continue
		}
		limited, cancel := context.WithTimeout(ctx, statusPatience)
		roll, err := shards.Roll(limited, store, job)
		cancel()
		if err != nil || len(roll) == 0 {
			continue
		}
		var parts []string
		for _, m := range roll {
			name := holderText(&m.Host, &m.PID, &m.User, &m.ID)
			parts = append(parts, fmt.Sprintf("%s %d", name, having[name]))
		}
		fmt.Fprintf(&text, "shards of %s: %s\n", oneLine(job), strings.Join(parts, ", "))
	}
	return text.String()
}

// checkMembers refuses the names under which the store keeps who shares a job's shards.
func checkMembers(job string) error {
	if of, is := shards.IsMembers(job); is {
		return usage("JOB", fmt.Sprintf("%q is where the hosts are kept that share %s", job, of), "a job's own name does not end like that")
	}
	return nil
}
