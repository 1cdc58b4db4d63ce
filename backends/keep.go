package backends

import (
	"slices"
	"time"
)

// RenewDecision is what is decided on a renewal. If Lost is set, the store stays as it is.
type RenewDecision struct {
	Record Record
	Lost   bool
	Answer RenewAnswer
}

// DecideRenew answers a renewal. If the lease still has the grant's holder and token, it lasts for the grant's TTL from now. If
// not, the renewal fails and writes nothing: a lease that is gone never comes back, because others may count on its end.
func DecideRenew(v View, g Grant) RenewDecision {
	if !owns(v.Lease, g) {
		return RenewDecision{Record: v.Record, Lost: true}
	}
	r := v.Record.clone()
	now := v.Now.UnixMilli()
	restore(&r, g.Claim, g.Token, g.Tick, g.Attempt, now)
	extend(&r, g.TTL, now)
	out := RenewDecision{Record: r}
	if r.Break != nil && r.Break.Token == g.Token {
		out.Answer.Break = r.Break
	}
	return out
}

// EndDecision is what is decided on Finish and Abandon.
type EndDecision struct {
	Record  Record
	Changed bool // Record differs from the one in the view
	Release bool // the lease is to be removed
	Lost    bool // somebody else was granted the job since; the store stays as it is
}

// DecideFinish records the outcome of a run and releases its lease. If the lease is gone, the run may still
// finish as long as nobody was granted the job since. If the run has finished already, nothing changes.
func DecideFinish(v View, g Grant, o Outcome) EndDecision {
	holder := g.Claim.Holder
	if run := v.Record.run(g.Token); run != nil && run.Ended != 0 && run.Holder.ID == holder.ID {
		return EndDecision{Record: v.Record}
	}
	mine := owns(v.Lease, g)
	named := v.Lease == nil && v.Record.Token == g.Token && v.Record.Holder.ID == holder.ID
	if !mine && !named {
		return EndDecision{Record: v.Record, Lost: true}
	}
	r := v.Record.clone()
	now := v.Now.UnixMilli()
	restore(&r, g.Claim, g.Token, g.Tick, g.Attempt, now)
	if r.Token != g.Token {
		return EndDecision{Record: v.Record, Lost: true}
	}
	end(&r, holder.ID, o, now)
	return EndDecision{Record: r, Changed: true, Release: mine}
}

// DecideAbandon takes a claim back whose command never started. It compares only the holder, because a
// wrapper that gives up may not know its token. It always writes, so that a claim in flight finds another
// record than the one that it was decided on. It also remembers the holder, in case that a client goes on
// with the claim and reads again.
func DecideAbandon(v View, c Claim) EndDecision {
	id := c.Holder.ID
	r := v.Record.clone()
	held := v.Lease != nil && v.Lease.Holder == id
	named := v.Lease == nil && r.Token != 0 && r.Holder.ID == id && !r.Free()
	if held || named {
		now := v.Now.UnixMilli()
		if held {
			restore(&r, c, v.Lease.Token, c.Tick, 1, now)
		}
		end(&r, id, Outcome{State: Open}, now)
	}
	if !slices.Contains(r.Refused, id) {
		r.Job = c.Job
		r.Refused = keep(slices.Insert(r.Refused, 0, id), KeptAbandoned)
	}
	return EndDecision{Record: r, Changed: true, Release: held}
}

func owns(l *Lease, g Grant) bool {
	return l != nil && l.Holder == g.Claim.Holder.ID && l.Token == g.Token
}

// restore mends a record that was lost or rolled back while the lease is valid: it writes whose lease it is, and the tick or key
// of the run, so that nobody starts that again. A record can have the token but not the run, if the token is only known from a
// lock that outlived its session (TestEveryOrder: without/run-restored). A beat that somebody has seen must not come again, so
// the beats go on above the milliseconds since 1970: there was at most one beat in each millisecond.
func restore(r *Record, c Claim, token, tick int64, attempt int, now int64) {
	if r.Token > token || r.run(token) != nil {
		return
	}
	r.Job, r.Token, r.Holder, r.Parts, r.Granted = c.Job, token, c.Holder, c.Parts, now
	r.Beat = max(r.Beat, now)
	reserve(r, c, now)
	r.note(Run{Token: token, Holder: c.Holder, Tick: tick, Key: c.Once, Attempt: attempt, Started: now, State: Claimed})
	o := c.occurrence(tick, attempt)
	if tick > r.Tick.Tick {
		r.Tick = o
	}
	if c.Once != "" && !slices.ContainsFunc(r.Once, func(x Occurrence) bool { return x.Key == c.Once }) {
		r.Once = keep(slices.Insert(r.Once, 0, o), KeptKeys)
	}
}

// occurrence returns the tick or key as the record keeps it when the claim is granted.
func (c Claim) occurrence(tick int64, attempt int) Occurrence {
	return Occurrence{
		Tick: tick, Key: c.Once, State: Claimed, Claimant: c.Holder,
		Policy: c.OnLost, Attempt: attempt, MaxAttempts: c.MaxAttempts, Parts: c.Parts,
	}
}

// extend writes into the record that the lease lasts for ttl from now, with a new beat.
func extend(r *Record, ttl time.Duration, now int64) {
	r.TTL = ttl.Milliseconds()
	r.Until = now + r.TTL
	r.Beat++
}

// end closes the run of the record's token: it makes the record free, and writes the outcome into the history and, if this
// holder has claimed a tick or key, there too.
func end(r *Record, holder string, o Outcome, now int64) {
	asked := r.Break
	r.Released, r.Ended, r.Break = r.Token, now, nil
	run := r.run(r.Token)
	if run == nil { // it is too old for the history
		r.note(Run{Token: r.Token, Holder: r.Holder, Attempt: 1, Started: r.Granted})
		run = &r.Runs[0]
	}
	run.State, run.Exit, run.Note, run.Ended = o.State, o.Exit, o.Note, now
	if o.State == Open { // there was no run
		r.Reserved = nil
	}
	if o.State == Stopped && asked != nil && asked.Token == r.Token {
		run.Note = breakNote(asked.By, asked.Reason)
	}
	if run.Tick != 0 && r.Tick.Tick == run.Tick {
		settle(&r.Tick, holder, o.State)
	}
	if run.Key != "" {
		if i := slices.IndexFunc(r.Once, func(x Occurrence) bool { return x.Key == run.Key }); i >= 0 {
			settle(&r.Once[i], holder, o.State)
		}
	}
}

// settle writes how a tick or key ended, if the holder has claimed it. If the command never started, the attempt does not count: the
// tick or key is open again, or still lost if an earlier attempt had started it.
func settle(o *Occurrence, holder string, s State) {
	if o.Claimant.ID != holder {
		return
	}
	o.State = s
	if s == Open {
		o.Attempt--
		if o.Attempt > 0 {
			o.State = Lost
		}
	}
}
