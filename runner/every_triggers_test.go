package runner

import (
	"github.com/leaderrun/leaderrun/backends"
)

func forRerun(_ int, r *Request) {
	r.Trigger = backends.Trigger{Tick: firstTick, OnLost: backends.Rerun, MaxAttempts: 2}
}

func forReruns(i int, r *Request) {
	forRerun(i, r)
	r.Trigger.Tick += int64(i)
}

func forOneRerun(i int, r *Request) {
	forRerun(i, r)
	r.Trigger.MaxAttempts = 1
}

// rerunOrSkip has the last of so many hosts skip a tick that others rerun.
func rerunOrSkip(last int) func(int, *Request) {
	return func(i int, r *Request) {
		if forRerun(i, r); i == last {
			r.Trigger.OnLost = backends.Skip
		}
	}
}

func skipOrRerun(i int, r *Request) {
	if forRerun(i, r); i == 0 {
		forTick(i, r)
	}
}

func forKey(_ int, r *Request) {
	r.Trigger = backends.Trigger{Once: onlyKey, OnLost: backends.Skip, MaxAttempts: 1}
}

func forKeyRerun(_ int, r *Request) {
	r.Trigger = backends.Trigger{Once: onlyKey, OnLost: backends.Rerun, MaxAttempts: 2}
}

// backAndForth has the second host come for a later tick than the others.
func backAndForth(i int, r *Request) {
	if forTick(i, r); i == 1 {
		r.Trigger.Tick++
	}
}

// tickCases are about ticks and keys.
func tickCases() []*orderCase {
	timed := func(c orderCase) *orderCase {
		c.proof = backends.ByUntil
		return &c
	}
	gives := happen(signalled, network)
	return []*orderCase{
		timed(orderCase{name: "tick/skip", why: "two hosts come for a tick", starves: true, long: true, hosts: 2, ask: forTick, may: happen(gives, crashes, losesRecord), faults: 2, exits: 2, horizon: 7 * second}),
		timed(orderCase{name: "tick/skip-three", why: "three hosts come for a tick", long: true, hosts: 3, ask: forTick, may: gives, faults: 1, exits: 2, horizon: 6 * second}),
		timed(orderCase{name: "tick/later", why: "hosts come for two ticks", long: true, starves: true, hosts: 2, ask: forTicks, may: gives, faults: 2, exits: 1, horizon: 7 * second}),
		timed(orderCase{name: "tick/rerun", why: "two hosts come for a tick that runs again", long: true, starves: true, hosts: 2, ask: forRerun, may: happen(gives, killed, losesLease), faults: 2, exits: 2, horizon: 7 * second}),
		timed(orderCase{name: "tick/rerun-three", why: "three hosts come for a tick, at most two start it", long: true, hosts: 3, ask: forRerun, may: happen(signalled, killed, lateCall), faults: 1, exits: 2, horizon: 7 * second}),
		timed(orderCase{name: "tick/rerun-later", why: "hosts come for two ticks that run again", long: true, starves: true, hosts: 2, ask: forReruns, may: happen(gives, killed), faults: 2, exits: 1, horizon: 8 * second}),
		timed(orderCase{name: "tick/mixed", why: "one host says rerun, the other skip", unasked: true, hosts: 2, ask: rerunOrSkip(1), may: happen(gives, killed), faults: 2, exits: 2, horizon: 8 * second}),
		timed(orderCase{name: "tick/key", why: "two hosts come for a key", starves: true, hosts: 2, ask: forKey, may: happen(gives, killed, losesRecord), faults: 2, exits: 2, horizon: 7 * second}),
		timed(orderCase{name: "tick/key-rerun", why: "two hosts come for a key that runs again", long: true, hosts: 2, ask: forKeyRerun, may: happen(gives, killed), faults: 1, exits: 2, horizon: 8 * second}),
		timed(orderCase{name: "tick/record", why: "the record vanishes, and a renewal or a repeated claim restores it", long: true, unasked: true, hosts: 2, ask: forTick, may: happen(losesRecord, signalled, lateReply), faults: 2, exits: 1, horizon: 7 * second}),
		timed(orderCase{name: "tick/promoted", why: "a replica that lags is promoted", long: true, quarantines: true, replicas: 1, acks: true, hosts: 2, ask: forTick, may: happen(stays, promoted, signalled), whom: map[moveKind]int{signalled: 0}, faults: 3, exits: 1, horizon: 6 * second}),
		timed(orderCase{name: "tick/promoted-rerun", why: "a replica that lags is promoted", long: true, quarantines: true, replicas: 1, acks: true, hosts: 2, ask: forRerun, may: happen(stays, promoted), faults: 2, exits: 2, horizon: 7 * second}),

		timed(orderCase{name: "limit/wiped-tick", why: "a store that forgot all has forgotten its ticks, a documented limit", want: "ticks", quarantines: true, strict: true, hosts: 2, ask: forTick, may: happen(wiped), faults: 1, exits: 2, horizon: 8 * second}),

		timed(orderCase{name: "without/key-claimed", why: "the key is claimed in the step of the lease", want: "ticks", only: "ticks", hosts: 2, ask: forKey, exits: 2, may: network, faults: 1, horizon: 6 * second, rules: tickApart}),
		timed(orderCase{name: "without/forward", why: "ticks only go forward", want: "ticks", only: "ticks", hosts: 3, ask: backAndForth, exits: 3, horizon: 6 * second, rules: ticksGoBack}),
		timed(orderCase{name: "without/end-of-tick", why: "an end records the tick in the step of the release", want: "ticks", only: "ticks", hosts: 2, ask: forRerun, exits: 2, horizon: 6 * second, rules: finishKeepsTick}),
		timed(orderCase{name: "without/own-claim", why: "a tick that the same holder claimed is granted to it again", want: "lost", only: "lost", hosts: 1, ask: forTick, may: happen(network, losesLease, stops), faults: 2, horizon: 12 * second, rules: ownClaimIsForeign}),
		timed(orderCase{name: "without/withdrawal", why: "who gives up takes its claim back", want: "lost", only: "lost", hosts: 2, ask: forTick, may: happen(signalled, network), faults: 2, exits: 1, horizon: 8 * second, out: leftOut{silent: true}}),
		timed(orderCase{name: "without/withdrawal-late", why: "a withdrawal opens the tick again even when the lease is gone", want: "lost", only: "lost", hosts: 2, ask: forTick, may: happen(signalled, network, losesLease), faults: 3, exits: 1, horizon: 8 * second, rules: abandonNeedsLease}),
		timed(orderCase{name: "without/withdrawn", why: "later claims of a holder that took its claim back are refused", want: "a lease is given to H", hosts: 1, ask: forTick, may: happen(lateCall, signalled), faults: 2, horizon: 8 * second, persists: true, rules: abandonForgets}),
		timed(orderCase{name: "without/late-claim", why: "later claims of a holder whose run has ended are refused", want: "a lease is given to H", hosts: 1, may: happen(lateCall), faults: 1, exits: 1, horizon: 8 * second, persists: true, rules: endedMayClaim}),
		timed(orderCase{name: "without/attempts", why: "starts of a tick are counted", want: "ticks", only: "ticks", hosts: 2, ask: forOneRerun, may: happen(killed), faults: 1, horizon: 8 * second, rules: attemptsBeginAnew}),
		timed(orderCase{name: "without/second-attempt", why: "a second attempt that did not start leaves the tick lost, and not open", long: true, want: "ticks", only: "ticks", hosts: 3, ask: rerunOrSkip(2), may: happen(killed, signalled), faults: 2, exits: 1, horizon: 8 * second, rules: secondAttemptReopens}),
		timed(orderCase{name: "without/policy", why: "the policy stored with the tick decides too", want: "ticks", only: "ticks", hosts: 2, ask: skipOrRerun, may: happen(killed), faults: 1, horizon: 8 * second, rules: claimsPolicyCounts}),
		timed(orderCase{name: "without/unfinished-first", why: "an unfinished tick runs before a later one under rerun", want: "passed", only: "passed", hosts: 2, ask: forReruns, may: happen(killed), faults: 1, horizon: 8 * second, rules: laterFirst}),
		timed(orderCase{name: "without/tick-restored", why: "a renewal restores the tick of a record that was lost", want: "ticks", only: "ticks", hosts: 2, ask: forTick, may: happen(losesRecord, killed), faults: 2, horizon: 9 * second, rules: renewRestoresNothing}),
		timed(orderCase{name: "without/key-restored", why: "a renewal restores the key of a record that was lost", want: "ticks", only: "ticks", hosts: 2, ask: forKey, may: happen(losesRecord, killed), faults: 2, horizon: 9 * second, rules: renewRestoresNothing}),
	}
}

// operatorCases are about what operators do.
func operatorCases() []*orderCase {
	timed := func(c orderCase) *orderCase {
		c.proof = backends.ByUntil
		return &c
	}
	silent := func(c orderCase) *orderCase {
		c.proof = backends.ByBeat
		return &c
	}
	object := func(c orderCase) *orderCase {
		c.whole, c.object = true, true
		return silent(c)
	}
	return []*orderCase{
		timed(orderCase{name: "order/stop-revoke", why: "an operator asks the holder to stop, or takes the lease away", starves: true, hosts: 2, may: happen(ordersStop, ordersRevoke, ordersAgain, lateCall), whom: map[moveKind]int{lateCall: hosts}, faults: 2, horizon: 7 * second}),
		timed(orderCase{name: "order/revoke-tick", why: "an operator takes the lease away", long: true, unasked: true, hosts: 2, ask: forTick, may: happen(ordersRevoke, signalled), faults: 2, exits: 1, horizon: 7 * second}),
		timed(orderCase{name: "order/revoke-rerun", why: "an operator takes the lease away", long: true, unasked: true, hosts: 2, ask: forRerun, may: happen(ordersRevoke, lateCall), faults: 2, exits: 1, horizon: 7 * second}),
		timed(orderCase{name: "order/dead", why: "an operator answers for the death of a holder", starves: true, hosts: 2, may: happen(ordersDead, crashes, ordersAgain, lateCall), whom: map[moveKind]int{lateCall: hosts}, faults: 4, horizon: 6 * second}),
		timed(orderCase{name: "order/dead-three", why: "an operator answers for the death of a holder", long: true, hosts: 3, may: happen(ordersDead, crashes, lateCall), whom: map[moveKind]int{lateCall: hosts}, faults: 3, horizon: 6 * second}),
		timed(orderCase{name: "order/dead-tick", why: "an operator answers for the death of a holder", long: true, unasked: true, hosts: 2, ask: forTick, may: happen(ordersDead, crashes), faults: 2, exits: 1, horizon: 7 * second}),
		timed(orderCase{name: "order/forget", why: "an operator forgets the job, and the lease vanishes", long: true, starves: true, hosts: 2, may: happen(ordersForget, losesLease, lateCall), whom: map[moveKind]int{lateCall: hosts}, faults: 3, exits: 1, horizon: 7 * second}),
		timed(orderCase{name: "order/forget-tick", why: "an operator forgets the tick or the job, and claims arrive late", long: true, unasked: true, hosts: 2, ask: forTick, may: happen(ordersRerun, ordersForget, signalled), faults: 2, exits: 1, horizon: 7 * second}),
		timed(orderCase{name: "order/all", why: "an operator does this and that", long: true, unasked: true, hosts: 2, ask: forRerun, may: happen(ordersStop, ordersRevoke, ordersDead, ordersForget, ordersRerun, crashes), faults: 2, exits: 2, horizon: 7 * second}),
		silent(orderCase{name: "order/silence", why: "an operator takes the lease away, or forgets the job", long: true, starves: true, hosts: 2, may: happen(ordersRevoke, ordersForget, lateCall), whom: map[moveKind]int{lateCall: hosts}, faults: 2, exits: 1, horizon: 8 * second}),
		silent(orderCase{name: "order/session", why: "an operator takes the lease away", long: true, starves: true, whole: true, counts: true, labels: true, late: true, hosts: 2, may: happen(ordersRevoke, lateCall), whom: map[moveKind]int{lateCall: hosts}, faults: 2, horizon: 8 * second}),
		object(orderCase{name: "order/object", why: "an operator takes the lease away, or answers for the death of a holder", long: true, starves: true, hosts: 2, may: happen(ordersRevoke, ordersDead, crashes, lateCall), whom: map[moveKind]int{lateCall: hosts}, faults: 3, horizon: 8 * second}),

		timed(orderCase{name: "without/token-kept", why: "a job that is forgotten keeps its token", want: "tokens", only: "tokens", hosts: 2, may: happen(ordersForget), faults: 1, exits: 2, horizon: 4 * second, rules: forgetTokens}),
		timed(orderCase{name: "without/refusals-kept", why: "a job that is forgotten keeps who took a claim back", want: "a lease is given to H", hosts: 1, ask: forTick, may: happen(ordersForget, signalled, lateCall), faults: 3, exits: 1, horizon: 6 * second, persists: true, rules: forgetRefusals}),
		timed(orderCase{name: "without/order-names", why: "an order names the run that is meant", want: "overlap", only: "overlap", hosts: 3, may: happen(ordersDead, crashes, lateCall), whom: map[moveKind]int{lateCall: hosts}, faults: 3, exits: 1, horizon: 8 * second, rules: ordersNameNobody}),
	}
}
