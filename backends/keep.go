package backends

import (
	"slices"
	"time"
)

// Renewal is the answer to a renewal. Lost leaves the store as it is.
type Renewal struct {
	Record Record
	Lost   bool
	Signal Signal
}

// DecideRenew answers a renewal: the lease is extended by the grant's TTL from now, if it is still the
// grant's by holder and token.
func DecideRenew(v View, g Grant) Renewal {
	if !owns(v.Lease, g) {
		return Renewal{Record: v.Record, Lost: true}
	}
	r := v.Record.clone()
	now := v.Now.UnixMilli()
	restore(&r, g.Claim, g.Token, g.Tick, g.Attempt, now)
	extend(&r, g.TTL, now)
	out := Renewal{Record: r}
	if r.Break != nil && r.Break.Token == g.Token {
		out.Signal.Break = r.Break
	}
	return out
}

// Ending is the answer to the end of a run or of a claim.
type Ending struct {
	Record  Record
	Changed bool // Record differs from the one in the view
	Release bool // the lease is to be removed
	Lost    bool // it is not the holder's to end; the store stays as it is
}

// DecideFinish records the outcome of a run and releases its lease. A run whose lease vanished may still
// finish if nobody was granted since; a run that has finished already is answered without a change.
func DecideFinish(v View, g Grant, o Outcome) Ending {
	holder := g.Claim.Holder
	if run := v.Record.run(g.Token); run != nil && run.Ended != 0 && run.Holder.ID == holder.ID {
		return Ending{Record: v.Record}
	}
	mine := owns(v.Lease, g)
	named := v.Lease == nil && v.Record.Token == g.Token && v.Record.Holder.ID == holder.ID
	if !mine && !named {
		return Ending{Record: v.Record, Lost: true}
	}
	r := v.Record.clone()
	now := v.Now.UnixMilli()
	restore(&r, g.Claim, g.Token, g.Tick, g.Attempt, now)
	if r.Token != g.Token {
		return Ending{Record: v.Record, Lost: true}
	}
	end(&r, holder.ID, o, now)
	return Ending{Record: r, Changed: true, Release: mine}
}

// DecideAbandon takes a claim back whose run never started. It compares the holder alone, because the
// wrapper that gives up may not know its token, and it remembers the holder, so that the claim is refused if
// it arrives only now.
func DecideAbandon(v View, c Claim) Ending {
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
	return Ending{Record: r, Changed: true, Release: held}
}

func owns(l *Lease, g Grant) bool {
	return l != nil && l.Holder == g.Claim.Holder.ID && l.Token == g.Token
}

// restore writes what a valid lease tells into a record that was lost or rolled back: whose it is, and the tick or
// key that the run is for, so that nobody starts that again. A record may have the token and not the run: where a
// lock that outlived its session told of the token (test/model: consul/tick-record-deleted). Its beats go on
// above all that there were, one a millisecond at most: a sign of life that somebody has seen must not come again.
func restore(r *Record, c Claim, token, tick int64, attempt int, now int64) {
	if r.Token > token || r.run(token) != nil {
		return
	}
	r.Job, r.Token, r.Holder, r.Granted = c.Job, token, c.Holder, now
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

// occurrence returns what is recorded of a tick or key when the claim is granted.
func (c Claim) occurrence(tick int64, attempt int) Occurrence {
	return Occurrence{
		Tick: tick, Key: c.Once, State: Claimed, Claimant: c.Holder,
		Policy: c.OnLost, Attempt: attempt, MaxAttempts: c.MaxAttempts,
	}
}

// extend writes down that the lease was renewed for ttl from now.
func extend(r *Record, ttl time.Duration, now int64) {
	r.TTL = ttl.Milliseconds()
	r.Until = now + r.TTL
	r.Beat++
}

// end closes the run of the record's token: the release mark, the history, and the tick or key if this
// holder claimed it.
func end(r *Record, holder string, o Outcome, now int64) {
	asked := r.Break
	r.Released, r.Ended, r.Break = r.Token, now, nil
	run := r.run(r.Token)
	if run == nil { // fell out of the history
		r.note(Run{Token: r.Token, Holder: r.Holder, Attempt: 1, Started: r.Granted})
		run = &r.Runs[0]
	}
	run.State, run.Exit, run.Ended = o.State, o.Exit, now
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

// settle writes the end of a tick or key that the holder claimed. One that never started is open again, and
// the attempt does not count; where an earlier attempt did start, it is that one's loss that remains.
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
