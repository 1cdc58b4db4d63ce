package cli

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/leaderrun/leaderrun/backends"
	"github.com/leaderrun/leaderrun/internal/shards"
	"github.com/leaderrun/leaderrun/internal/slots"
)

// whole is a tick or key that is divided into shards, as a whole. The names are a contract.
type whole struct {
	Tick *string `json:"tick"`
	Once *string `json:"once"`
	sum
}

// line is what status says first of a divided job.
func (w whole) line(job string) string {
	if w.Once != nil {
		return fmt.Sprintf("key %q of %s: %s", *w.Once, oneLine(job), w.text())
	}
	return fmt.Sprintf("tick %s of %s: %s", *w.Tick, oneLine(job), w.text())
}

// cell is the same in a table that has the job's name already.
func (w whole) cell() string {
	if w.Once != nil {
		return fmt.Sprintf("key %q: %s", *w.Once, w.text())
	}
	return *w.Tick + ": " + w.text()
}

// divided collects the shards among the jobs that are shown.
type divided map[string]map[int]backends.Status

func (d *divided) add(name string, s backends.Status) {
	job, n, ok := slots.Split(name)
	if !ok || !isPart(s.Record) {
		return
	}
	if *d == nil {
		*d = divided{}
	}
	if (*d)[job] == nil {
		(*d)[job] = map[int]backends.Status{}
	}
	(*d)[job][n] = s
}

// sumUp puts a line for the whole before the shards of each job whose last run was for a tick or key, if all of them are there. alone:
// the shards themselves are left out then.
func (d divided) sumUp(jobs []jobStatus, alone bool) []jobStatus {
	out := []jobStatus{}
	for _, j := range jobs {
		job := wholeJob(j.Job)
		statuses, isPart := d[job], j.Shard != nil
		t, known := lastDivided(statuses)
		switch {
		case !isPart || !known:
			out = append(out, j)
			continue
		case *j.Shard == 0:
			out = append(out, wholeStatus(job, j, t, statuses))
		}
		if !alone {
			out = append(out, j)
		}
	}
	return out
}

// lastDivided returns what the last run of shard 0 was for. Every tick and key is begun there.
func lastDivided(statuses map[int]backends.Status) (t backends.Trigger, known bool) {
	s, ok := statuses[0]
	if !ok {
		return t, false
	}
	r := &s.Record
	i := slices.IndexFunc(r.Runs, func(run backends.Run) bool { return run.Tick != 0 || run.Key != "" })
	if i < 0 {
		return t, false
	}
	t = backends.Trigger{Tick: r.Runs[i].Tick, Once: r.Runs[i].Key}
	o := r.Tick
	if t.Once != "" {
		at := slices.IndexFunc(r.Once, func(o backends.Occurrence) bool { return o.Key == t.Once })
		if at < 0 {
			return t, false
		}
		o = r.Once[at]
	} else if o.Tick != t.Tick { // a later one that was missed, or one that was forgotten
		t.Tick = o.Tick
	}
	t.OnLost, t.Parts = o.Policy, o.Parts
	return t, t.Parts > 0 && t.Parts <= shards.Most && t.Given()
}

// wholeStatus is the line of a whole tick or key.
func wholeStatus(job string, first jobStatus, t backends.Trigger, statuses map[int]backends.Status) jobStatus {
	o := shards.Sum(t, statuses)
	w := &whole{Once: known(t.Once), sum: sumOf(o)}
	j := jobStatus{
		Job: job, State: stateFree, TTL: first.TTL, TakeOver: first.TakeOver, Backend: first.Backend, Prefix: first.Prefix, Notes: []string{}, Shards: w,
	}
	for _, s := range statuses {
		j.Token = max(j.Token, s.Record.Token)
	}
	state := backends.Open
	switch {
	case o.Running > 0:
		j.State, state = stateRunning, backends.Claimed
	case o.IsDone():
		state = backends.Done
	case o.IsOver():
		state = cmp.Or(worst(o.Ended), backends.Missed)
	}
	if t.Tick != 0 {
		w.Tick = new(tickText(t.Tick))
		j.Tick, j.TickState, j.Policy = w.Tick, new(string(state)), known(string(t.OnLost))
	}
	return j
}

// worst is how a tick ended of which not all shards are done.
func worst(ended map[backends.State]int) backends.State {
	for _, s := range []backends.State{backends.Failed, backends.Lost, backends.Stopped, backends.Missed} {
		if ended[s] > 0 {
			return s
		}
	}
	return ""
}
