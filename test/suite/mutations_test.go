package suite

import (
	"context"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/leaderrun/leaderrun/backends"
)

func leaseMutants() []mutant {
	return []mutant{
		{"grants less than was claimed", "refuses while held", deciding(func(v backends.View, c backends.Claim) backends.ClaimDecision {
			d := backends.Decide(v, c)
			if d.Grant != nil {
				d.Grant.TTL /= 2
			}
			return d
		})},
		{"grants although held", "refuses while held", deciding(func(v backends.View, c backends.Claim) backends.ClaimDecision {
			return backends.Decide(free(v), c)
		})},
		{
			"a reservation is forgotten", "a reservation keeps the job for its host",
			deciding(func(v backends.View, c backends.Claim) backends.ClaimDecision {
				v.Record.Reserved = nil
				return backends.Decide(v, c)
			}),
		},
		{"one lease for all jobs", "names are never mixed up", in(func(m *Mem) { m.key = func(string) string { return "" } })},
		{
			"a new token for the same holder", "the same holder gets the same grant",
			deciding(func(v backends.View, c backends.Claim) backends.ClaimDecision {
				if v.Lease != nil && v.Lease.Holder == c.Holder.ID {
					v = free(v)
				}
				return backends.Decide(v, c)
			}),
		},
		{
			"a renewal that writes nothing", "a renewal extends the lease",
			renewing(func(v backends.View, g backends.Grant) backends.RenewDecision {
				r := backends.DecideRenew(v, g)
				r.Record = v.Record
				return r
			}),
		},
		{
			"a renewal that only says so", "a renewal counts until the lease expires",
			wrapped(func(m *Mem) backends.Backend { return lazyRenewal{m} }),
		},
		{
			"one renewal is enough", "a lost reply of a renewal costs nothing",
			renewing(func(v backends.View, g backends.Grant) backends.RenewDecision {
				r := backends.DecideRenew(v, g)
				r.Lost = r.Lost || v.Record.Beat > 1
				return r
			}),
		},
		{
			"no compare of holders in renew", "a stale renewal touches nothing",
			renewing(func(v backends.View, g backends.Grant) backends.RenewDecision {
				if v.Lease != nil && v.Lease.Token == g.Token {
					v = owned(v, g)
				}
				return backends.DecideRenew(v, g)
			}),
		},
		{
			"no compare of tokens in renew", "a stale renewal touches nothing",
			renewing(func(v backends.View, g backends.Grant) backends.RenewDecision {
				if v.Lease != nil && v.Lease.Holder == g.Claim.Holder.ID {
					v = owned(v, g)
				}
				return backends.DecideRenew(v, g)
			}),
		},
		{
			"check, then renew", "a renewal never revives a finished lease",
			wrapped(func(m *Mem) backends.Backend { return raceRenewal{m} }),
		},
		{"no floor", "the token grows", deciding(func(v backends.View, c backends.Claim) backends.ClaimDecision {
			c.Floor = 0
			return backends.Decide(v, c)
		})},
		{
			"a counter that starts at one", "the token grows although the record was lost",
			deciding(func(v backends.View, c backends.Claim) backends.ClaimDecision {
				d := backends.Decide(v, c)
				if d.Grant != nil {
					d.Grant.Token = v.Record.Token + 1
					d.Record.Token = d.Grant.Token
				}
				return d
			}),
		},
		{"a lease without end", "expiry hands over", wrapped(func(m *Mem) backends.Backend { return endlessLease{m} })},
		{
			"a renewal that restores nothing", "a renewal restores a lost record",
			renewing(func(v backends.View, g backends.Grant) backends.RenewDecision {
				r := backends.DecideRenew(v, g)
				r.Record.Token = v.Record.Token
				return r
			}),
		},
		{
			"a renewal that restores no tick", "what ran while its record was lost does not run again",
			renewing(func(v backends.View, g backends.Grant) backends.RenewDecision {
				r := backends.DecideRenew(v, g)
				r.Record.Tick, r.Record.Once = v.Record.Tick, v.Record.Once
				return r
			}),
		},
		{"no evidence", "a vanished lease is waited for", deciding(func(v backends.View, c backends.Claim) backends.ClaimDecision {
			v.Proof = backends.ByRelease
			return backends.Decide(v, c)
		})},
		{
			"the grant's end as evidence", "a vanished lease is waited for",
			renewing(func(v backends.View, g backends.Grant) backends.RenewDecision {
				r := backends.DecideRenew(v, g)
				r.Record.Until = v.Record.Until
				return r
			}),
		},
	}
}

func endMutants() []mutant {
	return []mutant{
		{
			"finish without release", "agrees with the decision",
			finishing(func(v backends.View, g backends.Grant, o backends.Outcome) backends.EndDecision {
				e := backends.DecideFinish(v, g, o)
				e.Release = false
				return e
			}),
		},
		{
			"finish only once", "a lost reply of finish costs nothing",
			finishing(func(v backends.View, g backends.Grant, o backends.Outcome) backends.EndDecision {
				e := backends.DecideFinish(v, g, o)
				e.Lost = !e.Changed
				return e
			}),
		},
		{
			"no compare in finish", "a stale finish touches nothing",
			finishing(func(v backends.View, g backends.Grant, o backends.Outcome) backends.EndDecision {
				g.Token = v.Record.Token
				return backends.DecideFinish(owned(v, g), g, o)
			}),
		},
		{
			"abandon releases any lease", "a stale abandon touches no lease",
			abandoning(func(v backends.View, c backends.Claim) backends.EndDecision {
				e := backends.DecideAbandon(v, c)
				e.Release = true
				return e
			}),
		},
		{
			"finish needs the lease", "finish after the lease vanished",
			finishing(func(v backends.View, g backends.Grant, o backends.Outcome) backends.EndDecision {
				if v.Lease == nil {
					return backends.EndDecision{Record: v.Record, Lost: true}
				}
				return backends.DecideFinish(v, g, o)
			}),
		},
		{
			"finish needs no name", "finish after somebody else was granted",
			finishing(func(v backends.View, g backends.Grant, o backends.Outcome) backends.EndDecision {
				e := backends.DecideFinish(v, g, o)
				e.Lost = false
				return e
			}),
		},
		{
			"abandon does not reopen", "abandon reopens an applied claim",
			abandoning(func(v backends.View, c backends.Claim) backends.EndDecision {
				e := backends.DecideAbandon(v, c)
				e.Record.Tick = v.Record.Tick
				return e
			}),
		},
		{
			"abandon does not remember", "abandon refuses a delayed claim",
			abandoning(func(v backends.View, c backends.Claim) backends.EndDecision {
				e := backends.DecideAbandon(v, c)
				e.Record.Refused = nil
				return e
			}),
		},
		{"a swap compares nothing", "a claim in flight is refused once it was taken back", wrapped(func(m *Mem) backends.Backend {
			return backends.NewEngine(blind{m.memStore})
		})},
		{
			"abandon needs the lease", "abandon reopens a vanished claim",
			abandoning(func(v backends.View, c backends.Claim) backends.EndDecision {
				if v.Lease == nil {
					return backends.EndDecision{Record: v.Record}
				}
				return backends.DecideAbandon(v, c)
			}),
		},
	}
}

func tickMutants() []mutant {
	// claims builds a mutant that answers another claim than was made.
	claims := func(change func(r backends.Record, c *backends.Claim)) func(*Mem) Harness {
		return deciding(func(v backends.View, c backends.Claim) backends.ClaimDecision {
			change(v.Record, &c)
			return backends.Decide(v, c)
		})
	}
	return []mutant{
		{"ticks are forgotten", "a tick is granted once", claims(func(_ backends.Record, c *backends.Claim) { c.Tick = 0 })},
		{
			"open counts as failed", "agrees with the decision",
			finishing(func(v backends.View, g backends.Grant, o backends.Outcome) backends.EndDecision {
				if o.State == backends.Open {
					o.State = backends.Failed
				}
				return backends.DecideFinish(v, g, o)
			}),
		},
		{
			"never again", "a lost tick runs again if asked to",
			claims(func(_ backends.Record, c *backends.Claim) { c.OnLost = backends.Skip }),
		},
		{"ticks in any order", "ticks only go forward", deciding(func(v backends.View, c backends.Claim) backends.ClaimDecision {
			if v.Lease == nil && c.Tick < v.Record.Tick.Tick {
				v.Record.Tick = backends.Occurrence{}
			}
			return backends.Decide(v, c)
		})},
		{"a tick may be divided in several ways", "agrees with the decision", claims(func(r backends.Record, c *backends.Claim) {
			if c.Parts != 0 && r.Parts != 0 {
				c.Parts = r.Parts
			}
		})},
		{"no start deadline", "agrees with the decision", claims(func(_ backends.Record, c *backends.Claim) { c.StartDeadline = 0 })},
		{"keys are forgotten", "a once-key is granted once", claims(func(_ backends.Record, c *backends.Claim) { c.Once = "" })},
		{
			"no schedules", "agrees with the decision",
			claims(func(_ backends.Record, c *backends.Claim) { c.Schedule = backends.Schedule{} }),
		},
		{
			"attempts are counted twice", "agrees with the decision",
			deciding(func(v backends.View, c backends.Claim) backends.ClaimDecision {
				d := backends.Decide(v, c)
				if d.Grant != nil && d.Grant.Attempt > 1 {
					d.Grant.Attempt++
				}
				return d
			}),
		},
	}
}

func storeMutants() []mutant {
	background := context.Background()
	return []mutant{
		{"names in lower case", "names are never mixed up", in(func(m *Mem) { m.key = strings.ToLower })},
		{"deaf to cancellation", "a cancelled context returns at once", wrapped(func(m *Mem) backends.Backend { return deaf{m} })},
		{"deaf in flight", "a context that ends in flight returns", wrapped(func(m *Mem) backends.Backend { return deafInFlight{m} })},
		{"two holders now and then", "a guarded counter loses no update", in(func(m *Mem) {
			var n atomic.Int64
			m.Rules.Claim = func(v backends.View, c backends.Claim) backends.ClaimDecision {
				if v.Lease != nil && n.Add(1)%4 == 1 {
					v = free(v)
				}
				return backends.Decide(v, c)
			}
			m.Rules.Finish = func(v backends.View, g backends.Grant, o backends.Outcome) backends.EndDecision {
				e := backends.DecideFinish(v, g, o)
				e.Lost = false
				return e
			}
		})},
		{
			"break requests are dropped", "a stop request reaches the holder",
			renewing(func(v backends.View, g backends.Grant) backends.RenewDecision {
				v.Record.Break = nil
				return backends.DecideRenew(v, g)
			}),
		},
		{"an end is taken for written in a newer record", "a record of a newer form stays as it is", wrapped(func(m *Mem) backends.Backend { return careless{m} })},
		{"nobody is woken", "finish wakes a waiter", in(func(m *Mem) { m.silent = true })},
		{"a watch without end", "a watch ends with its context, and with its client", wrapped(func(m *Mem) backends.Backend { return endlessWatch{m} })},
		{"an unknown job is shown", "inspect shows what is kept", wrapped(func(m *Mem) backends.Backend { return inventive{m} })},
		{
			"renewals never fail", "a stale renewal touches nothing",
			renewing(func(v backends.View, g backends.Grant) backends.RenewDecision {
				return backends.DecideRenew(owned(v, g), g)
			}),
		},
		{"closes once", "closing twice", wrapped(func(m *Mem) backends.Backend { return closesOnce{m, new(bool)} })},
		{"closing leaves requests", "closing ends what is on its way", wrapped(func(m *Mem) backends.Backend { return m })},
		{"closing leaves watches", "a watch ends with its context, and with its client", wrapped(func(m *Mem) backends.Backend { return m })},
		{"a goroutine stays", "no goroutine is left behind", wrapped(func(m *Mem) backends.Backend {
			go func() { <-background.Done() }()
			return m
		})},
		{"a restart loses leases", "a restart keeps its promises", func(m *Mem) Harness {
			h := forgetful(m)
			m.Longest = 0
			h.Restart = func(testing.TB) {
				m.Restart(true)
			}
			return h
		}},
		{"no quarantine", "an emptied store waits", func(m *Mem) Harness {
			h := forgetful(m)
			m.Longest = 0
			return h
		}},
		{"no quarantine after a start", "an empty restart waits", func(m *Mem) Harness {
			h := forgetful(m)
			m.Longest = 0
			return h
		}},
	}
}
