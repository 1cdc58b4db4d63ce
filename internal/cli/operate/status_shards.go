package operate

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/leaderrun/leaderrun/backends"
	"github.com/leaderrun/leaderrun/internal/cli"
	"github.com/leaderrun/leaderrun/internal/launch"
	"github.com/leaderrun/leaderrun/internal/shards"
	"github.com/leaderrun/leaderrun/internal/slots"
)

// whole is a job that is divided into shards, as a whole: for a tick or key, or for workers that do not end. The names are a contract.
type whole struct {
	Tick *string `json:"tick"`
	Once *string `json:"once"`
	launch.Sum
}

// line is what status says first of a divided job; "": nothing.
func (j jobStatus) line() string {
	w := j.Shards
	switch {
	case w == nil:
	case w.Once != nil:
		return fmt.Sprintf("key %q of %s: %s", *w.Once, cli.OneLine(j.Job), w.Text())
	case w.Tick != nil:
		return fmt.Sprintf("tick %s of %s: %s", *w.Tick, cli.OneLine(j.Job), w.Text())
	case len(j.Members) > 0:
		return membersText(j.Job, j.Members)
	}
	return ""
}

// cell is the same in a table that has the job's name already.
func (w whole) cell() string {
	switch {
	case w.Once != nil:
		return fmt.Sprintf("key %q: %s", *w.Once, w.Text())
	case w.Tick != nil:
		return *w.Tick + ": " + w.Text()
	}
	return fmt.Sprintf("%d of %d running", w.Running, w.Shards)
}

// divided is what is known of the jobs that are divided, by name.
type divided map[string]*division

// division is one of them.
type division struct {
	shards map[int]backends.Status
	roll   []shards.Member // who shares them
}

func (d divided) of(job string) *division {
	if d[job] == nil {
		d[job] = &division{shards: map[int]backends.Status{}}
	}
	return d[job]
}

func (d divided) add(name string, s backends.Status) {
	if job, n, ok := slots.Split(name); ok {
		d.of(job).shards[n] = s
	}
}

// sumUp puts a line for the whole before the shards of each divided job. alone: the shards themselves are left out then.
func (d divided) sumUp(jobs []jobStatus, store backends.Backend, alone bool) []jobStatus {
	out := []jobStatus{}
	hasWhole := map[string]bool{}
	for _, j := range jobs {
		job := slots.Whole(j.Job)
		if v := d[job]; j.Shard != nil && v != nil {
			_, told := hasWhole[job]
			if !told {
				var w jobStatus
				if w, hasWhole[job] = v.status(job, store); hasWhole[job] {
					out = append(out, w)
				}
			}
			if alone && hasWhole[job] {
				continue
			}
		}
		out = append(out, j)
	}
	return out
}

// lastDivided returns what the last run of shard 0 was for. Every tick and key is begun there. If its record is gone, the shard tells
// that was granted last.
func lastDivided(statuses map[int]backends.Status) (t backends.Trigger, known bool) {
	s := statuses[0]
	if len(s.Record.Runs) == 0 {
		for _, other := range statuses {
			if other.Record.Granted > s.Record.Granted && other.Record.Parts > 0 {
				s = other
			}
		}
	}
	r := &s.Record
	i := slices.IndexFunc(r.Runs, isForTickOrKey)
	if i < 0 {
		return t, false
	}
	t = backends.Trigger{Tick: r.Runs[i].Tick, Once: r.Runs[i].Key}
	o := r.LastTick()
	if t.Once != "" {
		at := slices.IndexFunc(r.Once, func(o backends.Occurrence) bool { return o.Key == t.Once })
		if at < 0 {
			return t, false
		}
		o = r.Once[at]
	} else if o.Tick != t.Tick { // a later one that was missed, or one that was forgotten: by all shards, or by shard 0 alone
		last := t.Tick
		t.Tick = o.Tick
		for _, other := range statuses {
			if x := other.Record.Tick; x.Tick == last && x.Parts > 0 {
				t.Tick, o = last, x
			}
		}
	}
	t.OnLost, t.Parts = o.Policy, o.Parts
	return t, t.Parts > 0 && t.Parts <= shards.Most && t.Given()
}

// status is the line of a job as a whole. false: it is for a tick or key of which shard 0 says nothing.
func (d *division) status(job string, store backends.Backend) (jobStatus, bool) {
	j := jobStatus{
		Job: job, State: stateFree, Backend: store.Redacted(), Prefix: store.Prefix(), Notes: []string{}, Shards: &whole{},
	}
	var last backends.Record // of the shard that was granted last
	for _, s := range d.shards {
		j.Token = max(j.Token, s.Record.Token)
		if s.Record.Granted >= last.Granted {
			last = s.Record
		}
	}
	for _, m := range d.roll {
		last.TTL = m.TTL
		last.Parts = cmp.Or(m.Shards, last.Parts)
	}
	j.TTL = last.TTL
	j.TakeOver = store.Limits().TakeOver(time.Duration(j.TTL) * time.Millisecond).Milliseconds()
	t, known := lastDivided(d.shards)
	switch {
	case len(d.roll) == 0 && known:
		j.sumUpTick(shards.Sum(t, d.shards))
	case len(d.roll) == 0 && len(last.Runs) > 0 && isForTickOrKey(last.Runs[0]):
		return j, false
	default:
		j.Members = membersOf(d.roll, d.shards)
		j.sumUpWorkers(last.Parts, d.shards)
	}
	return j, true
}

// sumUpTick fills in what became of a whole tick or key.
func (j *jobStatus) sumUpTick(o shards.Outcome) {
	t := o.Trigger
	j.Shards.Once, j.Shards.Sum = known(t.Once), launch.SumOf(o)
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
		j.Shards.Tick = new(cli.TickText(t.Tick))
		j.Tick, j.TickState, j.Policy = j.Shards.Tick, new(string(state)), known(string(t.OnLost))
	}
}

// sumUpWorkers fills in how many of n workers run.
func (j *jobStatus) sumUpWorkers(n int, statuses map[int]backends.Status) {
	running := 0
	for number, s := range statuses {
		if s.Lease != nil && number < n {
			running++
		}
	}
	if running > 0 {
		j.State = stateRunning
	}
	j.Shards.Sum = launch.Sum{Shards: n, Running: running, Open: n - running}
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
		parts = append(parts, fmt.Sprintf("%s %d", cli.HolderText(m.Host, m.PID, m.User, &m.Holder), len(m.Shards)))
	}
	return "shards of " + cli.OneLine(job) + ": " + strings.Join(parts, ", ")
}
