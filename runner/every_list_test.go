package runner

import (
	"slices"
	"time"

	"github.com/leaderrun/leaderrun/backends"
)

const second = time.Second

func forTick(_ int, r *Request) {
	r.Trigger = backends.Trigger{Tick: firstTick, OnLost: backends.Skip, MaxAttempts: 1}
}

func forTicks(i int, r *Request) {
	forTick(i, r)
	r.Trigger.Tick += int64(i)
}

// orderCases are the cases: those that hold, and below each kind of store what it would be without a rule.
func orderCases() []*orderCase {
	const (
		serverTime = backends.ByUntil
		silence    = backends.ByBeat
		lock       = backends.ByRelease
	)
	vanishes := happen(losesLease, network)
	forgets := happen(wiped, network)
	return slices.Concat(redisCases(), postgresCases(), silenceCases(), fileCases(), tickCases(), operatorCases(), []*orderCase{
		{name: "server-time/network", why: "calls and replies are late or lost", proof: serverTime, hosts: 2, may: network, faults: 2, exits: 1, horizon: 6500 * time.Millisecond},
		{name: "server-time/deaths", why: "wrappers, guardians and hosts die or are stopped", proof: serverTime, hosts: 2, may: deaths, faults: 1, horizon: 7 * second},
		{name: "server-time/vanishes", why: "the lease vanishes", proof: serverTime, hosts: 2, may: vanishes, faults: 2, horizon: 8 * second},
		{name: "server-time/record", long: true, why: "the record vanishes", proof: serverTime, hosts: 2, may: happen(losesRecord, network), faults: 1, exits: 1, horizon: 8 * second},
		{name: "server-time/three", why: "three hosts", proof: serverTime, hosts: 3, may: happen(network, killed), faults: 1, exits: 1, horizon: 6 * second, long: true},
		{name: "server-time/orders", why: "an operator steps in, and the lease vanishes", proof: serverTime, hosts: 2, may: happen(ordersStop, ordersRevoke, ordersForget, losesLease), faults: 2, quick: 2, horizon: 6 * second},
		{name: "server-time/orders-network", long: true, why: "an operator steps in, and calls and replies are late or lost", proof: serverTime, hosts: 2, may: happen(ordersStop, ordersRevoke, network), faults: 1, exits: 1, horizon: 8 * second},
		{name: "server-time/tick", why: "two hosts come for a tick", proof: serverTime, hosts: 2, ask: forTick, may: happen(network, killed, signalled, stops), faults: 1, exits: 2, horizon: 7 * second},
		{name: "server-time/longer", long: true, why: "the store grants a longer TTL", proof: serverTime, hosts: 2, may: vanishes, faults: 1, exits: 1, horizon: 10 * second, out: leftOut{longer: 8 * second}},
		{name: "server-time/wiped", why: "the store forgets all", proof: serverTime, quarantines: true, hosts: 2, may: forgets, faults: 2, exits: 1, horizon: 6 * second},
		{name: "server-time/set-back", long: true, why: "the store is set back", proof: serverTime, quarantines: true, replicas: 1, hosts: 2, may: happen(stays, promoted, network), faults: 2, exits: 1, horizon: 8 * second},

		{name: "silence/network", long: true, why: "calls and replies are late or lost", proof: silence, hosts: 2, may: network, faults: 1, exits: 1, horizon: 8 * second},
		{name: "silence/deaths", long: true, why: "wrappers, guardians and hosts die or are stopped", proof: silence, hosts: 2, may: deaths, faults: 1, horizon: 7 * second},
		{name: "silence/vanishes", why: "the lease vanishes, or its session ends early", proof: silence, hosts: 2, may: vanishes, faults: 2, horizon: 8 * second},
		{name: "silence/orders", long: true, why: "an operator steps in", proof: silence, hosts: 2, may: happen(ordersStop, ordersRevoke, network), faults: 1, exits: 1, horizon: 8 * second},
		{name: "silence/tick", why: "two hosts come for a tick", proof: silence, hosts: 2, ask: forTick, may: happen(network, killed, signalled), faults: 1, exits: 2, horizon: 7 * second},

		{name: "lock/deaths", long: true, why: "wrappers, guardians and hosts die or are stopped", proof: lock, hosts: 2, may: happen(deaths, wrecked), faults: 1, horizon: 7 * second},
		{name: "lock/network", long: true, why: "calls and replies are late", proof: lock, hosts: 2, may: network, faults: 1, exits: 1, horizon: 6 * second},
		{name: "lock/tick", why: "two hosts come for a tick", proof: lock, hosts: 2, ask: forTick, may: happen(network, killed, signalled), faults: 1, exits: 2, horizon: 7 * second},

		// Rules of the runner and the guardian.
		{name: "without/sent-at", why: "the lease counts from before the request was sent", want: "overlap", only: "overlap", proof: serverTime, hosts: 2, may: happen(lateReply, cutOff), faults: 2, horizon: 7 * second, out: leftOut{countsFromReply: true}},
		{name: "without/margin", why: "a tree is dead a margin before its lease ends", want: "overlap", only: "overlap", proof: serverTime, slow: true, hosts: 2, may: happen(cutOff), faults: 1, horizon: 6 * second, out: leftOut{noMargin: true}},
		{name: "without/guard", why: "wrapper or guardian lives, a documented limit", want: "overlap", only: "overlap", proof: serverTime, hosts: 2, may: happen(wrecked), faults: 1, horizon: 6 * second},
		{name: "without/inheritance", why: "the command inherits the lock", want: "overlap", only: "overlap", proof: lock, hosts: 2, may: happen(wrecked), faults: 1, horizon: 3 * second, out: leftOut{notInherited: true}},
		{name: "without/silence-from-reply", long: true, why: "silence counts from the reply that showed the beat", want: "overlap", only: "overlap", proof: silence, hosts: 2, slow: true, begins: []time.Duration{0, 1200 * time.Millisecond}, may: happen(lateCall, losesLease, cutOff), whom: map[moveKind]int{lateCall: 1, cutOff: 0}, faults: 3, horizon: 6500 * time.Millisecond, out: leftOut{silenceFromRequest: true}},
		{name: "without/loss", why: "a definite loss ends the run at once", want: "1:", proof: serverTime, hosts: 1, may: happen(losesLease), faults: 1, horizon: 8 * second, out: leftOut{deafToLoss: true}},
		{name: "without/guardian", why: "the guardian starts nothing that comes too late", want: "1:", proof: serverTime, hosts: 2, may: deaths, faults: 2, horizon: 8 * second, out: leftOut{guardianBlind: true}},
		{name: "without/tree-dead", why: "a run is over when its tree is dead", want: "3:", proof: serverTime, hosts: 1, exits: 1, horizon: 8 * second, out: leftOut{deadEarly: true}},

		// Rules of a store.
		{name: "without/record-compared", why: "a swap compares the record", want: "a lease is given to H", proof: serverTime, hosts: 1, may: happen(lateCall, signalled), faults: 2, horizon: 4 * second, out: leftOut{anyRecord: true}},
		{name: "without/both-compared", why: "a swap compares what was read", want: "overlap", only: "overlap", proof: serverTime, hosts: 2, horizon: 2 * second, out: leftOut{anyRecord: true, anyLease: true}},
		{name: "without/mark-compared", why: "a grant compares the mark", want: "overlap", only: "overlap", proof: serverTime, quarantines: true, hosts: 2, may: forgets, faults: 2, horizon: 8 * second, out: leftOut{anyMark: true}},
		{name: "without/mark-seen", why: "nothing is decided on what a claim was shown before it has seen to the mark", want: "overlap", only: "overlap", proof: serverTime, quarantines: true, hosts: 2, may: forgets, faults: 2, horizon: 3 * second, out: leftOut{showsUnmarked: true}},
		{name: "without/numbers", why: "numbers never come again", want: "overlap", only: "overlap", proof: serverTime, quarantines: true, hosts: 2, may: forgets, faults: 2, horizon: 8 * second, out: leftOut{countsAnew: true}},
		{name: "without/beat-compared", why: "an order compares the beat", want: "overlap", only: "overlap", proof: serverTime, hosts: 2, may: happen(ordersRevoke, network), faults: 2, horizon: 8 * second, out: leftOut{anyBeat: true}},
		{name: "without/clock", why: "what is known is decided on at the time of now", want: "overlap", only: "overlap", proof: serverTime, hosts: 2, may: vanishes, faults: 2, horizon: 8 * second, out: leftOut{oldClock: true, readTime: true}},
		{name: "without/own-beats", long: true, why: "a note leaves the end that is recorded as it is", want: "overlap", only: "overlap", proof: serverTime, hosts: 2, slow: true, begins: []time.Duration{0, 1200 * time.Millisecond}, ask: forTicks, may: happen(lateCall, losesLease, cutOff), whom: map[moveKind]int{lateCall: 1, cutOff: 0}, faults: 3, horizon: 6 * second, out: leftOut{takesBeats: true}},
		{name: "without/beats", why: "a renewal is a sign of life", want: "overlap", only: "overlap", proof: silence, hosts: 2, may: vanishes, faults: 2, horizon: 8 * second, out: leftOut{beatless: true}},
		{name: "without/quarantine", why: "nobody is granted by a store that forgot before all leases have run out", want: "overlap", only: "overlap", proof: serverTime, quarantines: true, hosts: 2, may: forgets, faults: 1, horizon: 8 * second, out: leftOut{trusts: true}},
		{name: "without/first-sight", why: "a server that forgot is in quarantine from the first sight on", want: "overlap", only: "overlap", proof: serverTime, quarantines: true, replicas: 1, hosts: 2, may: happen(stays, promoted, network), faults: 3, horizon: 8 * second, out: leftOut{countsFromStart: true}},

		// Rules of the decisions.
		{name: "without/vanished", why: "a lease that vanished is not one that was released", want: "overlap", only: "overlap", proof: serverTime, hosts: 2, may: vanishes, faults: 1, horizon: 8 * second, rules: vanishedIsFree},
		{name: "without/vanished-silence", why: "a lease that vanished is not one that was released", want: "overlap", only: "overlap", proof: silence, hosts: 2, may: vanishes, faults: 1, horizon: 8 * second, rules: vanishedIsFree},
		{name: "without/until", why: "a renewal moves the end that is recorded", want: "overlap", only: "overlap", proof: serverTime, hosts: 2, may: vanishes, faults: 1, horizon: 8 * second, rules: renewKeepsUntil, out: leftOut{readTime: true}},
		{name: "without/again-until", why: "a repeated claim moves the end that is recorded", want: "overlap", only: "overlap", proof: serverTime, hosts: 2, may: vanishes, faults: 2, horizon: 8 * second, rules: againKeepsUntil, out: leftOut{readTime: true}},
		{name: "without/granted-ttl", why: "others wait for the TTL that was granted", want: "overlap", only: "overlap", proof: silence, hosts: 2, may: happen(losesLease, cutOff), faults: 2, horizon: 9 * second, rules: askedTTL, out: leftOut{longer: 8 * second}},
		{name: "without/tokens-count", why: "a token follows the clock: one that counts begins anew in a store that forgot", want: "tokens", only: "tokens", proof: serverTime, quarantines: true, hosts: 2, may: forgets, faults: 2, exits: 1, horizon: 8 * second, rules: tokensCount},
		{name: "without/tokens-tell", why: "a token is above the one before, in the same millisecond too", want: "tokens", only: "tokens", proof: serverTime, hosts: 2, exits: 1, horizon: 2 * second, rules: tokensTell},
		{name: "without/tick-claimed", why: "the tick is claimed in the step of the lease", want: "ticks", only: "ticks", proof: serverTime, hosts: 2, ask: forTick, exits: 2, may: network, faults: 1, horizon: 6 * second, rules: tickApart},
		{name: "without/tick-stays", why: "a tick that is lost stays so under skip", want: "ticks", only: "ticks", proof: serverTime, hosts: 2, ask: forTick, exits: 2, may: happen(killed), faults: 1, horizon: 8 * second, rules: lostIsOpen},
		{name: "without/holder", why: "a run is finished by its holder alone", want: "overlap", only: "overlap", proof: serverTime, hosts: 3, may: network, faults: 1, exits: 1, horizon: 6 * second, rules: finishAnybody},
		{name: "without/revoked", why: "a lease that an operator takes away has not been released", want: "overlap", only: "overlap", proof: serverTime, hosts: 2, may: happen(ordersRevoke), faults: 1, horizon: 6 * second, rules: revokeReleases},
		{name: "without/forgotten", why: "a job is forgotten only when it is free", want: "overlap", only: "overlap", proof: serverTime, hosts: 2, may: happen(losesLease, ordersForget), faults: 2, horizon: 6 * second, rules: forgetLiving},
	})
}
