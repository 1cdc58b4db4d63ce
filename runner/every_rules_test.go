package runner

import (
	"slices"

	"github.com/leaderrun/leaderrun/backends"
)

// Each of these leaves a rule out of the decisions, by changing what one is shown or what it has answered.

func vanishedIsFree(r *backends.Rules) {
	r.Claim = func(v backends.View, c backends.Claim) backends.ClaimDecision {
		v.Record.Released = v.Record.Token
		return backends.Decide(v, c)
	}
}

func renewKeepsUntil(r *backends.Rules) {
	r.Renew = func(v backends.View, g backends.Grant) backends.RenewDecision {
		answer := backends.DecideRenew(v, g)
		answer.Record.Until = v.Record.Until
		return answer
	}
}

func isAgain(v backends.View, c backends.Claim) bool {
	return v.Lease != nil && v.Lease.Holder == c.Holder.ID
}

func againKeepsUntil(r *backends.Rules) {
	r.Claim = func(v backends.View, c backends.Claim) backends.ClaimDecision {
		d := backends.Decide(v, c)
		if isAgain(v, c) {
			d.Record.Until = v.Record.Until
		}
		return d
	}
}

func askedTTL(r *backends.Rules) {
	r.Claim = func(v backends.View, c backends.Claim) backends.ClaimDecision {
		granted := c.TTL
		c.TTL = MinTTL
		d := backends.Decide(v, c)
		if d.Grant != nil {
			d.Grant.TTL = granted
		}
		return d
	}
	r.Renew = func(v backends.View, g backends.Grant) backends.RenewDecision {
		g.TTL = MinTTL
		return backends.DecideRenew(v, g)
	}
}

func tokensCount(r *backends.Rules) {
	r.Claim = granting(func(v backends.View) int64 { return v.Record.Token + 1 })
}

func tokensTell(r *backends.Rules) {
	r.Claim = granting(func(v backends.View) int64 { return v.Now.UnixMilli() })
}

func granting(token func(backends.View) int64) func(backends.View, backends.Claim) backends.ClaimDecision {
	return func(v backends.View, c backends.Claim) backends.ClaimDecision {
		d := backends.Decide(v, c)
		if d.Grant != nil && !isAgain(v, c) {
			t := token(v)
			d.Record.Token, d.Record.Runs[0].Token, d.Grant.Token = t, t, t
		}
		return d
	}
}

func tickApart(r *backends.Rules) {
	r.Claim = func(v backends.View, c backends.Claim) backends.ClaimDecision {
		d := backends.Decide(v, c)
		d.Record.Tick, d.Record.Once = v.Record.Tick, v.Record.Once
		return d
	}
}

func lostIsOpen(r *backends.Rules) {
	r.Claim = func(v backends.View, c backends.Claim) backends.ClaimDecision {
		if v.Lease == nil && v.Record.Tick.State == backends.Claimed {
			v.Record.Tick.State = backends.Open
		}
		return backends.Decide(v, c)
	}
}

func finishAnybody(r *backends.Rules) {
	r.Finish = func(v backends.View, g backends.Grant, o backends.Outcome) backends.EndDecision {
		if v.Lease != nil {
			g.Token, g.Claim.Holder = v.Lease.Token, backends.Holder{ID: v.Lease.Holder}
		}
		return backends.DecideFinish(v, g, o)
	}
}

func revokeReleases(r *backends.Rules) {
	r.Order = func(v backends.View, o backends.Order) backends.OrderDecision {
		a := backends.DecideOrder(v, o)
		if o.Kind == backends.Revoke && a.Changed {
			a.Record.Released = a.Record.Token
		}
		return a
	}
}

func forgetLiving(r *backends.Rules) {
	r.Order = func(v backends.View, o backends.Order) backends.OrderDecision {
		if o.Kind == backends.ForgetJob {
			v.Record.Released = v.Record.Token
		}
		return backends.DecideOrder(v, o)
	}
}

// ownClaimIsForeign treats a tick that the candidate itself has claimed as that of somebody who vanished.
func ownClaimIsForeign(r *backends.Rules) {
	decide := r.Claim
	r.Claim = func(v backends.View, c backends.Claim) backends.ClaimDecision {
		t := &v.Record.Tick
		was, mine := t.Claimant, t.Claimant.ID == c.Holder.ID && v.Lease == nil
		if mine {
			t.Claimant.ID = "nobody"
		}
		x := decide(v, c)
		if mine && x.Grant == nil {
			x.Record.Tick.Claimant, x.Refusal.Holder = was, was
		}
		return x
	}
}

// endedMayClaim grants late arrivals of a claim whose wrapper is gone.
func endedMayClaim(r *backends.Rules) {
	decide := r.Claim
	r.Claim = func(v backends.View, c backends.Claim) backends.ClaimDecision {
		refused := v.Record.Refused
		v.Record.Refused, v.Record.Runs = nil, slices.Clone(v.Record.Runs)
		for i := range v.Record.Runs {
			if run := &v.Record.Runs[i]; run.Holder.ID == c.Holder.ID {
				run.Ended = 0
			}
		}
		x := decide(v, c)
		x.Record.Refused = refused
		return x
	}
}

// attemptsBeginAnew does not count how often a tick was started.
func attemptsBeginAnew(r *backends.Rules) {
	decide := r.Claim
	r.Claim = func(v backends.View, c backends.Claim) backends.ClaimDecision {
		v.Record.Tick.Attempt = 0
		return decide(v, c)
	}
}

// claimsPolicyCounts asks only the claim for the policy, and not the tick.
func claimsPolicyCounts(r *backends.Rules) {
	decide := r.Claim
	r.Claim = func(v backends.View, c backends.Claim) backends.ClaimDecision {
		if t := &v.Record.Tick; t.Tick != 0 {
			t.Policy, t.MaxAttempts = c.OnLost, c.MaxAttempts
		}
		return decide(v, c)
	}
}

// laterFirst grants a later tick although the recorded one is unfinished and to run again.
func laterFirst(r *backends.Rules) {
	decide := r.Claim
	r.Claim = func(v backends.View, c backends.Claim) backends.ClaimDecision {
		was := v.Record.Tick.Policy
		if c.Tick > v.Record.Tick.Tick {
			v.Record.Tick.Policy = backends.Skip
		}
		x := decide(v, c)
		if x.Grant == nil {
			x.Record.Tick.Policy = was
		}
		return x
	}
}

// ticksGoBack grants a tick before the recorded one.
func ticksGoBack(r *backends.Rules) {
	decide := r.Claim
	r.Claim = func(v backends.View, c backends.Claim) backends.ClaimDecision {
		if c.Tick != 0 && c.Tick < v.Record.Tick.Tick {
			v.Record.Tick = backends.Occurrence{}
		}
		return decide(v, c)
	}
}

// finishByHolder compares the holder of a Finish, and not its token.
func finishByHolder(r *backends.Rules) {
	decide := r.Finish
	r.Finish = func(v backends.View, g backends.Grant, o backends.Outcome) backends.EndDecision {
		if v.Lease != nil && v.Lease.Holder == g.Claim.Holder.ID {
			g.Token = v.Lease.Token
		}
		return decide(v, g, o)
	}
}

// finishKeepsTick releases the lease, but does not record what became of the tick.
func finishKeepsTick(r *backends.Rules) {
	decide := r.Finish
	r.Finish = func(v backends.View, g backends.Grant, o backends.Outcome) backends.EndDecision {
		e := decide(v, g, o)
		e.Record.Tick = v.Record.Tick
		return e
	}
}

// finishRestoresByToken takes a run for known if the record has its token, though it does not have the run: its tick is
// not restored then.
func finishRestoresByToken(r *backends.Rules) {
	decide := r.Finish
	r.Finish = func(v backends.View, g backends.Grant, o backends.Outcome) backends.EndDecision {
		known := slices.ContainsFunc(v.Record.Runs, func(r backends.Run) bool { return r.Token == g.Token })
		e := decide(v, g, o)
		if v.Lease == nil && !known && !e.Lost {
			e.Record.Tick = v.Record.Tick
		}
		return e
	}
}

// abandonNeedsLease reopens nothing where the lease is gone.
func abandonNeedsLease(r *backends.Rules) {
	decide := r.Abandon
	r.Abandon = func(v backends.View, c backends.Claim) backends.EndDecision {
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
func abandonForgets(r *backends.Rules) {
	decide := r.Abandon
	r.Abandon = func(v backends.View, c backends.Claim) backends.EndDecision {
		e := decide(v, c)
		e.Record.Refused = v.Record.Refused
		return e
	}
}

// secondAttemptReopens opens a tick again whose second attempt did not start.
func secondAttemptReopens(r *backends.Rules) {
	decide := r.Abandon
	r.Abandon = func(v backends.View, c backends.Claim) backends.EndDecision {
		e := decide(v, c)
		if t := &e.Record.Tick; t.Claimant.ID == c.Holder.ID && t.State == backends.Lost {
			t.State = backends.Open
		}
		return e
	}
}

// renewRestoresNothing leaves a record that was lost as it is.
func renewRestoresNothing(r *backends.Rules) {
	decide := r.Renew
	r.Renew = func(v backends.View, g backends.Grant) backends.RenewDecision {
		x := decide(v, g)
		if v.Record.Token < g.Token {
			x.Record.Tick, x.Record.Once = v.Record.Tick, v.Record.Once
		}
		return x
	}
}

// beatsComeAgain counts the beats of a record that was lost from 1.
func beatsComeAgain(r *backends.Rules) {
	decide := r.Renew
	r.Renew = func(v backends.View, g backends.Grant) backends.RenewDecision {
		x := decide(v, g)
		if v.Record.Token < g.Token {
			x.Record.Beat = v.Record.Beat + 1
		}
		return x
	}
}

// forgetTokens forgets the token with the job.
func forgetTokens(r *backends.Rules) {
	decide := r.Order
	r.Order = func(v backends.View, o backends.Order) backends.OrderDecision {
		a := decide(v, o)
		if o.Kind == backends.ForgetJob && a.Changed {
			a.Record.Token, a.Record.Released = 0, 0
		}
		return a
	}
}

// forgetRefusals forgets with the job whose claims may still arrive.
func forgetRefusals(r *backends.Rules) {
	decide := r.Order
	r.Order = func(v backends.View, o backends.Order) backends.OrderDecision {
		a := decide(v, o)
		if o.Kind == backends.ForgetJob && a.Changed {
			a.Record.Refused = nil
		}
		return a
	}
}

// ordersNameNobody lets an order fall on whoever runs when it arrives.
func ordersNameNobody(r *backends.Rules) {
	decide := r.Order
	r.Order = func(v backends.View, o backends.Order) backends.OrderDecision {
		v.Record.Orders, o.Token = nil, v.Record.Token
		return decide(v, o)
	}
}
