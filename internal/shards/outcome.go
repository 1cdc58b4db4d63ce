package shards

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/leaderrun/leaderrun/backends"
	"github.com/leaderrun/leaderrun/runner"
)

// ended takes the result of a run here.
func (w *work) ended(f finished) {
	w.running--
	w.mu.Lock()
	defer w.mu.Unlock()
	p, r := &w.parts[f.shard], f.result
	p.standing = unknown // how it ended is in the store
	p.ran = p.ran || r.Grant.Token != 0
	if !isElsewhere(r) {
		w.idle = time.Time{}
	}
	if r.Ending != runner.NotStarted {
		w.notBegun = 0
	}
	switch r.Ending {
	case runner.Refused, runner.WaitOver:
		w.refused(f, p)
		return
	case runner.Ran, runner.TimedOut:
		w.ran(p, r)
		w.heedLate(f)
		return
	case runner.Interrupted:
		if w.Wanted.Err() == nil {
			w.stop, w.stopShard = &r, f.shard
		}
		return
	case runner.Broken: // an operator wants it so; if it is to run again, another host does that
		p.standing, p.state = over, backends.Stopped
		if b, ok := errors.AsType[*runner.BrokenError](r.Err); ok && b.All {
			w.stop, w.stopShard = &r, f.shard
		}
		was := backends.Occurrence{State: p.state, Policy: w.trigger.OnLost, Attempt: r.Grant.Attempt, MaxAttempts: w.trigger.MaxAttempts}
		if r.Grant.Tick != w.trigger.Tick || was.MayRunAgain(w.trigger.OnLost) {
			p.standing = left
		}
	case runner.NotStarted:
		if w.notBegun++; w.notBegun == mostNotBegun {
			w.stop, w.stopShard = &r, f.shard
		}
	case runner.Unreachable, runner.Permanent, runner.StartFailed, runner.Unconfirmed:
		w.stop, w.stopShard = &r, f.shard
	}
	p.result = &r
}

// ran notes the end of a command. One that was asked to end may be run again, and so may one that ran for an earlier tick.
func (w *work) ran(p *part, r runner.Result) {
	well := r.Ending == runner.Ran && r.Status.Known && r.Status.ExitCode() == 0
	asked := r.Signal != 0 || r.Err != nil // to end, perhaps after the command had
	switch {
	case r.Grant.Tick != w.trigger.Tick:
		return
	case asked && well:
		return
	case well:
		p.standing, p.state, p.result = over, backends.Done, nil
		return
	case !asked:
		p.standing, p.state = over, backends.Failed
	}
	p.result = &r
}

// heedLate heeds an operator who has asked all shards to end, if the run was over before it heard of that: short ones never hear.
func (w *work) heedLate(f finished) {
	asked := backends.CacheOf(f.result.Grant).Asked()
	if asked == nil || !asked.All {
		return
	}
	r := f.result
	r.Ending, r.Err = runner.Broken, &runner.BrokenError{BreakRequest: *asked}
	w.stop, w.stopShard = &r, f.shard
	w.Warn(EventBroken, fmt.Sprintf("%s: no other shard is begun: %v", w.Job, r.Err), "")
}

// isElsewhere says whether a claim was refused because of another holder.
func isElsewhere(r runner.Result) bool {
	if r.Ending != runner.Refused || r.Refusal == nil {
		return false
	}
	switch r.Refusal.Verdict {
	case backends.Held, backends.Reserved, backends.Vanished, backends.Quarantined:
		return true
	}
	return false
}

// refused notes why the store has not granted a shard.
func (w *work) refused(run finished, p *part) {
	k, r, f := run.shard, run.result, run.result.Refusal
	if f == nil {
		w.stop, w.stopShard = &r, k
		return
	}
	if isElsewhere(r) {
		p.standing, p.holder, p.refusal = held, f.Holder, f
		p.tries++
		switch { // a look may show that it is free
		case f.Verdict == backends.Reserved:
			p.again = time.Now().Add(min(f.Wait, w.TTL))
		case p.tries%mostTries == 0:
			p.again = time.Now().Add(w.TTL / 3)
		}
		return
	}
	if run.earlier && f.Verdict != backends.Divided { // what it says is of that tick, and nothing of it is left to be run: ours is next
		return
	}
	p.holder = f.Holder
	switch f.Verdict {
	case backends.IsDone, backends.IsFailed, backends.IsStopped, backends.IsLost, backends.IsMissed:
		p.standing, p.state = over, backends.State(f.Verdict)
	case backends.IsEarlier:
		p.standing, p.state = over, backends.Missed
	case backends.Divided:
		if w.trigger.Tick != 0 && f.Tick != 0 && f.Tick < w.trigger.Tick { // that one first, as it was begun
			first := w.trigger
			first.Tick, first.Parts = f.Tick, f.Parts
			p.standing, p.first = free, &first
			return
		}
		p.standing, p.result = left, &r
	default: // it would be the same for every shard: too late, or a clock or schedule that is wrong
		w.stop, w.stopShard = &r, k
	}
}

// Outcome is what became of a tick or key, as far as this host knows.
type Outcome struct {
	Trigger backends.Trigger // the tick or key, with the number of shards that was settled
	// Done, Running and Open are numbers of shards: those that ended well, those that somebody runs or may run elsewhere, and those
	// that nobody runs and that may be run. Ended are the others, by how they ended.
	Done, Running, Open int
	Ended               map[backends.State]int
	// Bad is the first shard that did not end well: by number, of those that were run here or else of all; then it is the refusal
	// that a claim would get. nil: there is none. BadShard is its number.
	Bad      *runner.Result
	BadShard int
	// Stop is why this host gave up before the tick was over, as the result of an attempt; nil: it did not. StopShard is whose attempt
	// that was; -1: of none.
	Stop      *runner.Result
	StopShard int
	// Busy is why the tick could not be begun: an earlier tick, or another key, is in the way; nil: it was begun.
	Busy   *backends.Refusal
	Before []Outcome // of earlier ticks that had to be over first
}

// IsDone says whether every shard ended well.
func (o Outcome) IsDone() bool { return o.Done == o.Trigger.Parts }

// IsOver says whether no shard runs, and none will be run.
func (o Outcome) IsOver() bool { return o.Running+o.Open == 0 }

// Differs says whether the bad shard was refused here because its record has the tick or key with another number of shards.
func (o Outcome) Differs() bool {
	return o.Bad != nil && o.Bad.Ending == runner.Refused && o.Bad.Refusal != nil && o.Bad.Refusal.Verdict == backends.Divided
}

func (w *work) outcome() Outcome {
	w.mu.Lock()
	defer w.mu.Unlock()
	o := Outcome{Trigger: w.trigger, Ended: map[backends.State]int{}, Stop: w.stop, StopShard: w.stopShard, Busy: w.busy, Before: w.before}
	if w.stop == nil && w.Wanted.Err() != nil {
		o.Stop = &runner.Result{Ending: runner.Interrupted, Err: context.Cause(w.Wanted)}
	}
	badHere := false
	for k := range w.parts {
		p := &w.parts[k]
		switch {
		case p.standing == over && p.state == backends.Done:
			o.Done++
			continue
		case p.standing == over:
			o.Ended[p.state]++
		case p.standing == held, p.standing == vanished:
			o.Running++
		default:
			o.Open++
		}
		here := p.result != nil
		if !here && p.standing != over || o.Bad != nil && (badHere || !here) {
			continue
		}
		o.Bad, o.BadShard, badHere = p.result, k, here
		if !here {
			o.Bad = &runner.Result{Ending: runner.Refused, Refusal: &backends.Refusal{
				Verdict: backends.Verdict(p.state), Holder: p.holder, Tick: w.trigger.Tick,
			}}
		}
	}
	return o
}

// Sum says how a tick or key stands, by what the store keeps about its shards, by number. A shard that is not there was never run.
// What runs again is told by the policy of the trigger.
func Sum(t backends.Trigger, statuses map[int]backends.Status) Outcome {
	w := newWork(&Tick{Trigger: t, Wanted: context.Background()})
	for k := range w.parts {
		w.note(k, w.judge(k, statuses[k]))
	}
	return w.outcome()
}
