package cli

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/leaderrun/leaderrun/backends"
	"github.com/leaderrun/leaderrun/internal/shards"
	"github.com/leaderrun/leaderrun/runner"
)

// runWorkers shares the shards of a job with other hosts until a signal ends the program.
func (c *call) runWorkers(plan *runPlan, store backends.Backend) (ExitStatus, error) {
	w, err := newCrew(c, plan, store)
	if err != nil {
		return ExitStatus{}, err
	}
	workers := shards.Workers{
		Job: plan.job, Shards: plan.request.Trigger.Parts, Host: w.host, TTL: plan.timeline.TTL,
		Store: w.leases, Run: w.run, Tell: w.tellWorkers, Inside: w.inside,
	}
	results, err := workers.Keep(w.wanted)
	end := w.endOfWorkers(results)
	if refusal, refused := errors.AsType[*backends.Refusal](err); refused {
		result := runner.Result{Ending: runner.Refused, Refusal: refusal}
		end, err = endOf(result, plan.conflict), nil
		(&reporter{console: c.console, job: plan.job}).tell(result, end)
	}
	if err != nil {
		err = notDivided(plan.job, err)
		end = ExitStatus{Code: errorCode(err)}
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
func (w *crew) endOfWorkers(results []runner.Result) ExitStatus {
	var ends []ExitStatus
	for _, r := range results {
		if r.Grant.Token != 0 && r.Ending != runner.Interrupted { // it was started
			ends = append(ends, endOf(r, w.plan.conflict))
		}
	}
	answered := func(e ExitStatus) bool { return e.Code != 0 && e.Signal == 0 }
	bySame := func(e ExitStatus) bool { return e.Signal != 0 }
	for _, first := range []func(ExitStatus) bool{answered, bySame} {
		if i := slices.IndexFunc(ends, first); i >= 0 {
			return ends[i]
		}
	}
	if len(ends) > 0 {
		return ExitStatus{Code: 0}
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

// member is a host that shares the shards of a job. The names are a contract.
type member struct {
	Place  int     `json:"place"`
	Holder string  `json:"holder"`
	Host   *string `json:"host"`
	PID    *int    `json:"pid"`
	User   *string `json:"user"`
	Shards []int   `json:"shards"` // that it runs now
}

// membersOf says which of a job's shards each member runs. One that is run by somebody who has no place now is nobody's.
func membersOf(roll []shards.Member, statuses map[int]backends.Status) []member {
	type process struct {
		host, user string
		pid        int
	}
	having := map[process][]int{}
	for _, n := range slices.Sorted(maps.Keys(statuses)) {
		s := statuses[n]
		if h := s.Record.Holder; s.Lease != nil && s.Lease.Holder == h.ID {
			p := process{h.Host, h.User, h.PID}
			having[p] = append(having[p], n)
		}
	}
	members := []member{}
	for _, m := range roll {
		h := m.Holder
		one := member{Place: m.Place, Holder: h.ID, Shards: []int{}}
		if h.Host != "" {
			one.Host, one.PID, one.User = &h.Host, &h.PID, &h.User
			one.Shards = append(one.Shards, having[process{h.Host, h.User, h.PID}]...)
		}
		members = append(members, one)
	}
	return members
}

// membersText is what status says first of a job whose shards are shared: who shares them, and how many each runs.
func membersText(job string, members []member) string {
	var parts []string
	for _, m := range members {
		parts = append(parts, fmt.Sprintf("%s %d", holderText(m.Host, m.PID, m.User, &m.Holder), len(m.Shards)))
	}
	return "shards of " + oneLine(job) + ": " + strings.Join(parts, ", ")
}

// checkMembers refuses the names under which the store keeps who shares a job's shards.
func checkMembers(job string) error {
	if of, is := shards.IsMembers(job); is {
		return usage("JOB", fmt.Sprintf("%q is where the hosts are kept that share %s", job, of), "a job's own name does not end like that")
	}
	return nil
}
