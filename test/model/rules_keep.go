package model

import (
	"slices"

	"github.com/leaderrun/leaderrun/backends"
)

// The rules about renewals, ends and orders, left out in the same way as those in rules_claim.go.

// finishByHolder compares the holder of a Finish, and not its token.
func finishByHolder(d *decisions) {
	decide := d.finish
	d.finish = func(v backends.View, g backends.Grant, o backends.Outcome) backends.EndDecision {
		if v.Lease != nil && v.Lease.Holder == g.Claim.Holder.ID {
			g.Token = v.Lease.Token
		}
		return decide(v, g, o)
	}
}

// finishKeepsTick releases the lease, but does not record what became of the tick.
func finishKeepsTick(d *decisions) {
	decide := d.finish
	d.finish = func(v backends.View, g backends.Grant, o backends.Outcome) backends.EndDecision {
		e := decide(v, g, o)
		e.Record.Tick = v.Record.Tick
		return e
	}
}

// finishRestoresByToken takes a run for known if the record has its token, though it does not have the run: its tick is
// not restored then.
func finishRestoresByToken(d *decisions) {
	decide := d.finish
	d.finish = func(v backends.View, g backends.Grant, o backends.Outcome) backends.EndDecision {
		known := slices.ContainsFunc(v.Record.Runs, func(r backends.Run) bool { return r.Token == g.Token })
		e := decide(v, g, o)
		if v.Lease == nil && !known && !e.Lost {
			e.Record.Tick = v.Record.Tick
		}
		return e
	}
}

// abandonNeedsLease reopens nothing where the lease is gone.
func abandonNeedsLease(d *decisions) {
	decide := d.abandon
	d.abandon = func(v backends.View, c backends.Claim) backends.EndDecision {
		if v.Lease == nil {
			was := v.Record.Holder
			v.Record.Holder.ID = "nobody"
			e := decide(v, c)
			e.Record.Holder = was
			return e
		}
		return decide(v, c)
	}
}

// abandonForgets does not remember who took a claim back.
func abandonForgets(d *decisions) {
	decide := d.abandon
	d.abandon = func(v backends.View, c backends.Claim) backends.EndDecision {
		e := decide(v, c)
		e.Record.Refused = v.Record.Refused
		return e
	}
}

// secondAttemptReopens opens a tick again whose second attempt did not start.
func secondAttemptReopens(d *decisions) {
	decide := d.abandon
	d.abandon = func(v backends.View, c backends.Claim) backends.EndDecision {
		e := decide(v, c)
		if t := &e.Record.Tick; t.Claimant.ID == c.Holder.ID && t.State == backends.Lost {
			t.State = backends.Open
		}
		return e
	}
}

// renewRestoresNothing leaves a record that was lost as it is.
func renewRestoresNothing(d *decisions) {
	decide := d.renew
	d.renew = func(v backends.View, g backends.Grant) backends.RenewDecision {
		r := decide(v, g)
		if v.Record.Token < g.Token {
			r.Record.Tick, r.Record.Once = v.Record.Tick, v.Record.Once
		}
		return r
	}
}

// renewWithoutBeat extends the lease without a sign of life.
func renewWithoutBeat(d *decisions) {
	decide := d.renew
	d.renew = func(v backends.View, g backends.Grant) backends.RenewDecision {
		r := decide(v, g)
		r.Record.Beat = v.Record.Beat
		return r
	}
}

// beatsComeAgain counts the beats of a record that was lost from 1.
func beatsComeAgain(d *decisions) {
	decide := d.renew
	d.renew = func(v backends.View, g backends.Grant) backends.RenewDecision {
		r := decide(v, g)
		if v.Record.Token < g.Token {
			r.Record.Beat = v.Record.Beat + 1
		}
		return r
	}
}

// forgetTokens forgets the token with the job.
func forgetTokens(d *decisions) {
	decide := d.order
	d.order = func(v backends.View, o backends.Order) backends.OrderDecision {
		a := decide(v, o)
		if o.Kind == backends.ForgetJob && a.Changed {
			a.Record.Token, a.Record.Released = 0, 0
		}
		return a
	}
}

// forgetRefusals forgets with the job whose claims may still arrive.
func forgetRefusals(d *decisions) {
	decide := d.order
	d.order = func(v backends.View, o backends.Order) backends.OrderDecision {
		a := decide(v, o)
		if o.Kind == backends.ForgetJob && a.Changed {
			a.Record.Refused = nil
		}
		return a
	}
}

// ordersNameNobody lets an order fall on whoever runs when it arrives.
func ordersNameNobody(d *decisions) {
	decide := d.order
	d.order = func(v backends.View, o backends.Order) backends.OrderDecision {
		v.Record.Orders, o.Token = nil, v.Record.Token
		return decide(v, o)
	}
}
