package cli

import (
	"context"
	"fmt"
	"log/slog"
	"strings"

	"github.com/leaderrun/leaderrun/backends"
	"github.com/leaderrun/leaderrun/internal/shards"
	"github.com/leaderrun/leaderrun/internal/slots"
	"github.com/leaderrun/leaderrun/internal/value"
	"github.com/leaderrun/leaderrun/runner"
)

// checkShards says whether a run can be divided as the command line says, and takes out of the request what does not go with that.
func checkShards(s *settings, job string, r *runner.Request) error {
	n := r.Trigger.Parts
	switch {
	case n == 0 && s.typed("parallel"):
		return usage("--parallel", "the work is not divided", "--shards N says into how many parts")
	case n == 0:
		return nil
	case s.typed("slots"):
		return usage("--slots, --shards", "a run has either a slot or a shard", "--slots N is for up to N runs of one command, --shards N for one work in N parts")
	case !r.Trigger.Given() && r.Wait != runner.Forever:
		return usage("--shards", "the run is for no tick or key", "for work that ends, add --schedule, --every, --tick or --once; for workers that do not, --wait forever")
	case !r.Trigger.Given() && s.typed("parallel"):
		return usage("--parallel", "workers without a tick or key are divided evenly among the hosts", "leave it out")
	case s.typed("min-hold"):
		return usage("--min-hold", "the work is divided among hosts", "leave it out")
	case s.typed("prefer"):
		return usage("--prefer", "the work is divided among hosts", "start it only on those that are to do it")
	case len(slots.Name(job, n-1)) > value.LongestName:
		return usage("JOB", fmt.Sprintf("the names of its shards are longer than %d bytes", value.LongestName), "")
	}
	r.MinHold, r.Yield = 0, 0 // settings for other jobs
	return nil
}

// runShards works through a tick or key together with other hosts.
func (c *call) runShards(plan *runPlan, store backends.Backend) (ExitStatus, error) {
	w, err := newCrew(c, plan, store)
	if err != nil {
		return ExitStatus{}, err
	}
	r := plan.request
	tick := shards.Tick{
		Store: w.leases, Job: plan.job, Trigger: r.Trigger, Parallel: plan.parallel, TTL: plan.timeline.TTL, Wait: r.Wait, BackendWait: r.BackendWait, Inside: w.inside,
		Run: w.run, Warn: func(_, text, hint string) { c.console.warn(text, hint) }, Wanted: w.wanted,
		Tell: func(e runner.Event) {
			w.follow(e)
			c.console.event(e)
		},
	}
	out := tick.Work(context.Background())
	end := w.endOf(out)
	w.tell(out, end)
	w.commands.whole(plan.job, out, end)
	w.close(end)
	return end, nil
}

// endOf is what the work on a whole tick or key comes to: well if every shard is done, whoever did it.
func (w *crew) endOf(o shards.Outcome) ExitStatus {
	conflict := w.plan.conflict
	sig := w.signal()
	switch {
	case o.Busy != nil:
		return w.endOfWait(runner.Result{Ending: runner.Refused, Refusal: o.Busy})
	case o.IsDone():
		return ExitStatus{Code: codeSkipped}
	case sig != 0:
		return bySignal(sig)
	case o.Stop != nil:
		return endOf(*o.Stop, conflict)
	case o.Bad != nil && (o.Bad.Ending != runner.Refused || o.IsOver() || o.Differs()):
		return endOf(*o.Bad, conflict)
	}
	return w.endOfWait(runner.Result{Ending: runner.Refused, Refusal: &backends.Refusal{Verdict: backends.Held}})
}

// endOfWait is the end of who leaves a tick to others: in good hands, unless a wait for them was asked for and is over.
func (w *crew) endOfWait(r runner.Result) ExitStatus {
	if w.plan.request.Wait > 0 {
		r.Ending = runner.WaitOver
	}
	return endOf(r, w.plan.conflict)
}

// eventShards is the end of the work on a tick or key that is divided.
const eventShards = "shards_worked"

// tell says what became of the whole tick or key. What became of each shard that was run here was told.
func (w *crew) tell(o shards.Outcome, end ExitStatus) {
	s := &reporter{console: w.commands.call.console, job: w.plan.job, trigger: o.Trigger}
	for _, before := range o.Before {
		w.tellSum(before, slog.LevelInfo)
	}
	switch {
	case o.Busy != nil:
		s.tell(runner.Result{Ending: runner.Refused, Refusal: o.Busy}, end)
		return
	case o.Stop != nil && o.Stop.Ending == runner.Interrupted:
		w.tellSum(o, slog.LevelInfo)
		return
	case o.Stop != nil && o.StopShard < 0:
		s.tell(*o.Stop, end)
		return
	}
	level := slog.LevelInfo
	if o.Bad != nil && o.Bad.Ending != runner.Refused {
		level = slog.LevelWarn
	}
	w.tellSum(o, level, slog.Int("code", end.Code))
}

// tellSum tells how many shards stand how.
func (w *crew) tellSum(o shards.Outcome, level slog.Level, more ...slog.Attr) {
	sum := sumOf(o)
	e := runner.Event{Name: eventShards, Level: level, Job: w.plan.job, Tick: o.Trigger.Tick}
	s := &reporter{job: w.plan.job, trigger: o.Trigger}
	e.Text = strings.TrimSuffix(s.which(), ",") + ": " + sum.text()
	if level > slog.LevelInfo {
		e.Hint = fmt.Sprintf("`leaderrun status %s` shows each shard", quoteWord(w.plan.job))
	}
	if o.Trigger.Once != "" {
		e.Fields = append(e.Fields, slog.String("once", o.Trigger.Once))
	}
	e.Fields = append(append(e.Fields, sum.fields()...), more...)
	w.commands.call.console.event(e)
}

// sum is how many shards of a tick or key stand how. The names are a contract.
type sum struct {
	Shards  int `json:"shards"`
	Done    int `json:"done"`
	Running int `json:"running"`
	Failed  int `json:"failed"`
	Stopped int `json:"stopped"`
	Lost    int `json:"lost"`
	Missed  int `json:"missed"`
	Open    int `json:"open"` // not begun, or to be run again
}

func sumOf(o shards.Outcome) sum {
	return sum{
		Shards: o.Trigger.Parts, Done: o.Done, Running: o.Running, Open: o.Open, Failed: o.Ended[backends.Failed],
		Stopped: o.Ended[backends.Stopped], Lost: o.Ended[backends.Lost], Missed: o.Ended[backends.Missed],
	}
}

// parts are the numbers that are not 0, beside that of all.
func (s sum) parts() (names []string, numbers []int) {
	for _, p := range []struct {
		name string
		n    int
	}{
		{"running", s.Running},
		{"failed", s.Failed},
		{"stopped", s.Stopped},
		{"lost", s.Lost},
		{"missed", s.Missed},
		{"open", s.Open},
	} {
		if p.n > 0 {
			names, numbers = append(names, p.name), append(numbers, p.n)
		}
	}
	return names, numbers
}

// text is what people read: "14 of 16 done, 1 running, 1 failed".
func (s sum) text() string {
	words := []string{fmt.Sprintf("%d of %d done", s.Done, s.Shards)}
	names, numbers := s.parts()
	for i, name := range names {
		words = append(words, fmt.Sprintf("%d %s", numbers[i], name))
	}
	return strings.Join(words, ", ")
}

func (s sum) fields() []slog.Attr {
	fields := []slog.Attr{slog.Int("shards", s.Shards), slog.Int("done", s.Done)}
	names, numbers := s.parts()
	for i, name := range names {
		fields = append(fields, slog.Int(name, numbers[i]))
	}
	return fields
}
