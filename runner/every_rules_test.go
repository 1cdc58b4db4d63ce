package runner

import (
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
		d.Record.Tick = v.Record.Tick
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
