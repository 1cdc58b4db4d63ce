package runner

import (
	"github.com/leaderrun/leaderrun/backends"
)

// triggers is how many triggers are told apart: two ticks and a key.
const triggers = 3

const onlyKey = "key"

// past is what became of a tick or key. A store that has lost its record has forgotten that. What it forgot may be run again, once, and
// that run is not counted. But from the moment at which a step of the holder is answered the store must know it again.
type past struct {
	started   int  // how often
	once      bool // by a wrapper whose policy is skip
	done      bool // some wrapper knows that it is done
	forgotten bool // by the store
}

// pastOf returns what became of a trigger; nil: it is none that counts.
func (w *orders) pastOf(tick int64, key string) *past {
	switch {
	case tick >= firstTick && tick < firstTick+triggers-1:
		return &w.past[tick-firstTick]
	case key == onlyKey:
		return &w.past[triggers-1]
	}
	return nil
}

// mayStart counts a start, and says whether it may be.
func (w *orders) mayStart(p *process, g *backends.Grant) {
	x := w.pastOf(g.Tick, g.Claim.Once)
	if x == nil || p.isExcused {
		return
	}
	t := &p.m.request.Trigger
	x.started++
	x.once = x.once || t.OnLost == backends.Skip
	switch {
	case x.done:
		w.fail("ticks: one that is done starts again")
	case x.once && x.started > 1:
		w.fail("ticks: one starts again under skip")
	case x.started > t.MaxAttempts:
		w.fail("ticks: one starts more often than it may")
	}
}

// hasEnded notes that a process knows how its run has ended.
func (w *orders) hasEnded(p *process, asks any, err error) {
	a, isEnd := asks.(doFinish)
	if !isEnd || err != nil || p.isExcused || a.outcome.State != backends.Done {
		return
	}
	if x := w.pastOf(a.grant.Tick, a.grant.Claim.Once); x != nil {
		x.done = true
	}
}

// checkLoss looks at a refusal. Where nobody has started a tick or key, and its claimant asks itself or has taken its claim back,
// nothing was lost.
func (w *orders) checkLoss(p *process, r *backends.Refusal) {
	t := &p.m.request.Trigger
	x := w.pastOf(t.Tick, t.Once)
	if x == nil || x.started > 0 || w.e.unasked || r.Verdict != backends.IsLost && r.Verdict != backends.IsStopped {
		return
	}
	for i := range w.procs {
		if q := &w.procs[i]; q.m != nil && q.m.claim.Holder.ID == r.Holder.ID && (q.isDone || q == p && r.First) {
			w.fail("lost: a tick that nobody started, and whose claim was taken back")
		}
	}
}

// checkWrite looks at what a swap is to write, which was decided on what there is.
func (w *orders) checkWrite(p *process, k *kept, asks any, c call) {
	var was backends.Record
	if k.record != nil {
		was = k.record.Record
	}
	is := &c.w.Record
	switch c.op {
	case backends.ToClaim:
		t := &was.Tick
		unfinished := t.State == backends.Claimed || t.State == backends.Lost || t.State == backends.Stopped
		again := t.Policy == backends.Rerun && is.Tick.Policy == backends.Rerun && t.Attempt < t.MaxAttempts
		if unfinished && again && is.Tick.Tick > t.Tick {
			w.fail("passed: an unfinished tick is passed over under rerun")
		}
	case backends.ToFinish:
		g := &p.m.lease.grant
		isOthers := k.isValid(serverTime(w.now)) && (k.holder != p.m.claim.Holder.ID || k.token != g.Token)
		if is.Released != was.Released && (was.Token > g.Token || isOthers) {
			w.fail("stale: an end is recorded that is not of the last run")
		}
	case backends.ToOrder:
		if o, ok := asks.(backends.Order); ok {
			w.pardon(o.Kind, was.Tick.Tick)
		}
		return
	}
	if run := is.Runs; c.w.Lease != nil && len(run) > 0 && run[0].Token == c.w.Lease.Token || c.op == backends.ToFinish && len(run) > 0 {
		w.recalls(p, k, c, w.pastOf(run[0].Tick, run[0].Key))
	}
}

// recalls notes that the store knows of a run, or that it grants what it has forgotten.
func (w *orders) recalls(p *process, k *kept, c call, x *past) {
	if x == nil || !x.forgotten {
		return
	}
	x.forgotten = false
	if isNew := c.w.Lease != nil && (k.holder != c.w.Lease.Holder || k.token != c.w.Lease.Token); isNew {
		p.isExcused = true
	}
}

// pardon begins the count of what an operator wants to run again anew. The order is refused as long as a grant from before may still start
// it; but an end from before may still arrive.
func (w *orders) pardon(kind backends.OrderKind, tick int64) {
	if kind != backends.ForgetJob && kind != backends.ForgetTick {
		return
	}
	for i := range w.past {
		x := &w.past[i]
		if kind == backends.ForgetTick && x != w.pastOf(tick, "") {
			continue
		}
		*x = past{}
		for k := range w.procs {
			if p := &w.procs[k]; p.m != nil && p.m.lease.grant.Token != 0 && w.pastOf(p.m.request.Trigger.Tick, p.m.request.Trigger.Once) == x {
				p.isExcused = true
			}
		}
	}
}

// forgets notes that the store has forgotten what was run, and who has ended.
func (w *orders) forgets() {
	for i := range w.procs {
		w.procs[i].isDone = false
	}
	if w.e.strict {
		return
	}
	for i := range w.past {
		w.past[i].forgotten = true
	}
}
