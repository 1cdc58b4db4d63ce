package model

import (
	"slices"
	"strings"
	"time"

	"github.com/leaderrun/leaderrun/backends"
)

// Each of these leaves one rule out of the decisions, by changing what a decision is shown or what it has answered.

// vanishedIsFree takes a lease that vanished for one that was released.
func vanishedIsFree(d *decisions) {
	decide := d.claim
	d.claim = func(v backends.View, c backends.Claim) backends.ClaimDecision {
		v.Record.Released = v.Record.Token
		return decide(v, c)
	}
}

// noQuarantine trusts every server.
func noQuarantine(d *decisions) {
	d.admit = func(m backends.Mark, _ backends.Server, _ time.Duration, _ int64, _ bool) (backends.Mark, time.Duration) {
		return m, 0
	}
}

// countFromStart ends the quarantine of a server that forgot when it has been up for the longest TTL.
func countFromStart(d *decisions) {
	decide := d.admit
	d.admit = func(m backends.Mark, s backends.Server, longest time.Duration, now int64, hasRecord bool) (backends.Mark, time.Duration) {
		s.Forgot = false
		return decide(m, s, longest, now, hasRecord)
	}
}

// runIDOnly knows a server by its run id, and not by its replication history.
func runIDOnly(d *decisions) {
	decide := d.admit
	d.admit = func(m backends.Mark, s backends.Server, longest time.Duration, now int64, hasRecord bool) (backends.Mark, time.Duration) {
		known, _, _ := strings.Cut(m.Identity, ":")
		if run, _, _ := strings.Cut(s.Identity, ":"); run == known {
			m.Identity = s.Identity
		}
		return decide(m, s, longest, now, hasRecord)
	}
}

// noEvictions does not ask how many keys were evicted.
func noEvictions(d *decisions) {
	decide := d.admit
	d.admit = func(m backends.Mark, s backends.Server, longest time.Duration, now int64, hasRecord bool) (backends.Mark, time.Duration) {
		s.Evicted = m.Evicted
		return decide(m, s, longest, now, hasRecord)
	}
}

// tickApart does not write the tick or key in the step of the grant.
func tickApart(d *decisions) {
	decide := d.claim
	d.claim = func(v backends.View, c backends.Claim) backends.ClaimDecision {
		x := decide(v, c)
		x.Record.Tick, x.Record.Once = v.Record.Tick, v.Record.Once
		return x
	}
}

// ownClaimIsForeign treats a tick that the candidate itself has claimed as that of somebody who vanished.
func ownClaimIsForeign(d *decisions) {
	decide := d.claim
	d.claim = func(v backends.View, c backends.Claim) backends.ClaimDecision {
		t := &v.Record.Tick
		was, mine := t.Claimant, t.Claimant.ID == c.Holder.ID && v.Lease == nil
		if mine {
			t.Claimant.ID = "nobody"
		}
		x := decide(v, c)
		if mine && x.Grant == nil {
			x.Record.Tick.Claimant = was
		}
		return x
	}
}

// endedMayClaim grants late arrivals of a claim whose wrapper is gone.
func endedMayClaim(d *decisions) {
	decide := d.claim
	d.claim = func(v backends.View, c backends.Claim) backends.ClaimDecision {
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
func attemptsBeginAnew(d *decisions) {
	decide := d.claim
	d.claim = func(v backends.View, c backends.Claim) backends.ClaimDecision {
		v.Record.Tick.Attempt = 0
		return decide(v, c)
	}
}

// claimsPolicyCounts asks only the claim for the policy, and not the tick.
func claimsPolicyCounts(d *decisions) {
	decide := d.claim
	d.claim = func(v backends.View, c backends.Claim) backends.ClaimDecision {
		if t := &v.Record.Tick; t.Tick != 0 {
			t.Policy, t.MaxAttempts = c.OnLost, c.MaxAttempts
		}
		return decide(v, c)
	}
}

// laterFirst grants a later tick although the recorded one is unfinished and to run again.
func laterFirst(d *decisions) {
	decide := d.claim
	d.claim = func(v backends.View, c backends.Claim) backends.ClaimDecision {
		if c.Tick > v.Record.Tick.Tick {
			v.Record.Tick.Policy = backends.Skip
		}
		return decide(v, c)
	}
}

// ticksGoBack grants a tick before the recorded one.
func ticksGoBack(d *decisions) {
	decide := d.claim
	d.claim = func(v backends.View, c backends.Claim) backends.ClaimDecision {
		if c.Tick != 0 && c.Tick < v.Record.Tick.Tick {
			v.Record.Tick = backends.Occurrence{}
		}
		return decide(v, c)
	}
}
