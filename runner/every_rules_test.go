package runner

import (
	"slices"

	"github.com/leaderrun/leaderrun/backends"
)

// Each of these leaves a rule out of the decisions, by changing what one is shown or what it has answered.

func claimRule(f func(backends.View, backends.Claim) backends.ClaimDecision) func(*backends.Rules) {
	return func(r *backends.Rules) { r.Claim = f }
}

func renewRule(f func(backends.View, backends.Grant) backends.RenewDecision) func(*backends.Rules) {
	return func(r *backends.Rules) { r.Renew = f }
}

func finishRule(f func(backends.View, backends.Grant, backends.Outcome) backends.EndDecision) func(*backends.Rules) {
	return func(r *backends.Rules) { r.Finish = f }
}

func abandonRule(f func(backends.View, backends.Claim) backends.EndDecision) func(*backends.Rules) {
	return func(r *backends.Rules) { r.Abandon = f }
}

func orderRule(f func(backends.View, backends.Order) backends.OrderDecision) func(*backends.Rules) {
	return func(r *backends.Rules) { r.Order = f }
}

var vanishedIsFree = claimRule(func(v backends.View, c backends.Claim) backends.ClaimDecision {
	v.Record.Released = v.Record.Token
	return backends.Decide(v, c)
})

var renewKeepsUntil = renewRule(func(v backends.View, g backends.Grant) backends.RenewDecision {
	answer := backends.DecideRenew(v, g)
	answer.Record.Until = v.Record.Until
	return answer
})

func isAgain(v backends.View, c backends.Claim) bool {
	return v.Lease != nil && v.Lease.Holder == c.Holder.ID
}

var againKeepsUntil = claimRule(func(v backends.View, c backends.Claim) backends.ClaimDecision {
	d := backends.Decide(v, c)
	if isAgain(v, c) {
		d.Record.Until = v.Record.Until
	}
	return d
})

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

var (
	tokensCount = granting(func(v backends.View) int64 { return v.Record.Token + 1 })
	tokensTell  = granting(func(v backends.View) int64 { return v.Now.UnixMilli() })
)

func granting(token func(backends.View) int64) func(*backends.Rules) {
	return claimRule(func(v backends.View, c backends.Claim) backends.ClaimDecision {
		d := backends.Decide(v, c)
		if d.Grant != nil && !isAgain(v, c) {
			t := token(v)
			d.Record.Token, d.Record.Runs[0].Token, d.Grant.Token = t, t, t
		}
		return d
	})
}

var tickApart = claimRule(func(v backends.View, c backends.Claim) backends.ClaimDecision {
	d := backends.Decide(v, c)
	d.Record.Tick, d.Record.Once = v.Record.Tick, v.Record.Once
	return d
})

var lostIsOpen = claimRule(func(v backends.View, c backends.Claim) backends.ClaimDecision {
	if v.Lease == nil && v.Record.Tick.State == backends.Claimed {
		v.Record.Tick.State = backends.Open
	}
	return backends.Decide(v, c)
})

var finishAnybody = finishRule(func(v backends.View, g backends.Grant, o backends.Outcome) backends.EndDecision {
	if v.Lease != nil {
		g.Token, g.Claim.Holder = v.Lease.Token, backends.Holder{ID: v.Lease.Holder}
	}
	return backends.DecideFinish(v, g, o)
})

var revokeReleases = orderRule(func(v backends.View, o backends.Order) backends.OrderDecision {
	a := backends.DecideOrder(v, o)
	if o.Kind == backends.Revoke && a.Changed {
		a.Record.Released = a.Record.Token
	}
	return a
})

var forgetLiving = orderRule(func(v backends.View, o backends.Order) backends.OrderDecision {
	if o.Kind == backends.ForgetJob {
		v.Record.Released = v.Record.Token
	}
	return backends.DecideOrder(v, o)
})

// ownClaimIsForeign treats a tick that the candidate itself has claimed as that of somebody who vanished.
var ownClaimIsForeign = claimRule(func(v backends.View, c backends.Claim) backends.ClaimDecision {
	t := &v.Record.Tick
	was, mine := t.Claimant, t.Claimant.ID == c.Holder.ID && v.Lease == nil
	if mine {
		t.Claimant.ID = "nobody"
	}
	x := backends.Decide(v, c)
	if mine && x.Grant == nil {
		x.Record.Tick.Claimant, x.Refusal.Holder = was, was
	}
	return x
})

// endedMayClaim grants late arrivals of a claim whose wrapper is gone.
var endedMayClaim = claimRule(func(v backends.View, c backends.Claim) backends.ClaimDecision {
	refused := v.Record.Refused
	v.Record.Refused, v.Record.Runs = nil, slices.Clone(v.Record.Runs)
	for i := range v.Record.Runs {
		if run := &v.Record.Runs[i]; run.Holder.ID == c.Holder.ID {
			run.Ended = 0
		}
	}
	x := backends.Decide(v, c)
	x.Record.Refused = refused
	return x
})

// attemptsBeginAnew does not count how often a tick was started.
var attemptsBeginAnew = claimRule(func(v backends.View, c backends.Claim) backends.ClaimDecision {
	v.Record.Tick.Attempt = 0
	return backends.Decide(v, c)
})

// claimsPolicyCounts asks only the claim for the policy, and not the tick.
var claimsPolicyCounts = claimRule(func(v backends.View, c backends.Claim) backends.ClaimDecision {
	if t := &v.Record.Tick; t.Tick != 0 {
		t.Policy, t.MaxAttempts = c.OnLost, c.MaxAttempts
	}
	return backends.Decide(v, c)
})

// laterFirst grants a later tick although the recorded one is unfinished and to run again.
var laterFirst = claimRule(func(v backends.View, c backends.Claim) backends.ClaimDecision {
	was := v.Record.Tick.Policy
	if c.Tick > v.Record.Tick.Tick {
		v.Record.Tick.Policy = backends.Skip
	}
	x := backends.Decide(v, c)
	if x.Grant == nil {
		x.Record.Tick.Policy = was
	}
	return x
})

// ticksGoBack grants a tick before the recorded one.
var ticksGoBack = claimRule(func(v backends.View, c backends.Claim) backends.ClaimDecision {
	if c.Tick != 0 && c.Tick < v.Record.Tick.Tick {
		v.Record.Tick = backends.Occurrence{}
	}
	return backends.Decide(v, c)
})

// finishByHolder compares the holder of a Finish, and not its token.
var finishByHolder = finishRule(func(v backends.View, g backends.Grant, o backends.Outcome) backends.EndDecision {
	if v.Lease != nil && v.Lease.Holder == g.Claim.Holder.ID {
		g.Token = v.Lease.Token
	}
	return backends.DecideFinish(v, g, o)
})

// finishKeepsTick releases the lease, but does not record what became of the tick.
var finishKeepsTick = finishRule(func(v backends.View, g backends.Grant, o backends.Outcome) backends.EndDecision {
	e := backends.DecideFinish(v, g, o)
	e.Record.Tick = v.Record.Tick
	return e
})

// finishRestoresByToken takes a run for known if the record has its token, though it does not have the run: its tick is
// not restored then.
var finishRestoresByToken = finishRule(func(v backends.View, g backends.Grant, o backends.Outcome) backends.EndDecision {
	known := slices.ContainsFunc(v.Record.Runs, func(r backends.Run) bool { return r.Token == g.Token })
	e := backends.DecideFinish(v, g, o)
	if v.Lease == nil && !known && !e.Lost {
		e.Record.Tick = v.Record.Tick
	}
	return e
})

// abandonNeedsLease reopens nothing where the lease is gone.
var abandonNeedsLease = abandonRule(func(v backends.View, c backends.Claim) backends.EndDecision {
	if v.Lease == nil {
		was := v.Record.Holder
		v.Record.Holder.ID = "nobody"
		e := backends.DecideAbandon(v, c)
		e.Record.Holder = was
		return e
	}
	return backends.DecideAbandon(v, c)
})

// abandonForgets does not remember who took a claim back.
var abandonForgets = abandonRule(func(v backends.View, c backends.Claim) backends.EndDecision {
	e := backends.DecideAbandon(v, c)
	e.Record.Refused = v.Record.Refused
	return e
})

// secondAttemptReopens opens a tick again whose second attempt did not start.
var secondAttemptReopens = abandonRule(func(v backends.View, c backends.Claim) backends.EndDecision {
	e := backends.DecideAbandon(v, c)
	if t := &e.Record.Tick; t.Claimant.ID == c.Holder.ID && t.State == backends.Lost {
		t.State = backends.Open
	}
	return e
})

// renewRestoresNothing leaves a record that was lost as it is.
var renewRestoresNothing = renewRule(func(v backends.View, g backends.Grant) backends.RenewDecision {
	x := backends.DecideRenew(v, g)
	if v.Record.Token < g.Token {
		x.Record.Tick, x.Record.Once = v.Record.Tick, v.Record.Once
	}
	return x
})

// beatsComeAgain counts the beats of a record that was lost from 1.
var beatsComeAgain = renewRule(func(v backends.View, g backends.Grant) backends.RenewDecision {
	x := backends.DecideRenew(v, g)
	if v.Record.Token < g.Token {
		x.Record.Beat = v.Record.Beat + 1
	}
	return x
})

// forgetTokens forgets the token with the job.
var forgetTokens = orderRule(func(v backends.View, o backends.Order) backends.OrderDecision {
	a := backends.DecideOrder(v, o)
	if o.Kind == backends.ForgetJob && a.Changed {
		a.Record.Token, a.Record.Released = 0, 0
	}
	return a
})

// forgetRefusals forgets with the job whose claims may still arrive.
var forgetRefusals = orderRule(func(v backends.View, o backends.Order) backends.OrderDecision {
	a := backends.DecideOrder(v, o)
	if o.Kind == backends.ForgetJob && a.Changed {
		a.Record.Refused = nil
	}
	return a
})

// ordersNameNobody lets an order fall on whoever runs when it arrives.
var ordersNameNobody = orderRule(func(v backends.View, o backends.Order) backends.OrderDecision {
	v.Record.Orders, o.Token = nil, v.Record.Token
	return backends.DecideOrder(v, o)
})
