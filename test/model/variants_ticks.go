package model

import "github.com/leaderrun/leaderrun/backends"

// tickVariants are about ticks and keys.
func tickVariants() []*variant {
	mixed := []candidate{rerun, rerun.with(func(c *candidate) { c.policy = backends.Skip })}
	return []*variant{
		{name: "tick/skip", why: "two hosts come for a tick", quick: 4, candidates: works(2, skipTick), liveness: true},
		{name: "tick/skip-three", why: "three hosts come for a tick", candidates: works(3, skipTick)},
		{name: "tick/skip-gives-up", why: "wrappers may give up", candidates: works(2, skipTick), gives: true, liveness: true},
		{name: "tick/skip-gives-up-repeated", why: "wrappers may give up, and claims arrive late", candidates: []candidate{skipTick.twice(), skipTick}, gives: true},
		{name: "tick/later", why: "hosts come for two ticks", quick: 3, candidates: []candidate{skipTick, skipTick.later()}, gives: true, liveness: true},
		{name: "tick/rerun", why: "two hosts come for a tick", quick: 4, candidates: works(2, rerun), liveness: true},
		{name: "tick/rerun-gives-up", why: "wrappers may give up", candidates: works(2, rerun), gives: true},
		{name: "tick/rerun-three", why: "three hosts come for a tick, at most two start it", horizon: 4, candidates: works(3, rerun), gives: true},
		{name: "tick/rerun-later", why: "hosts come for two ticks", quick: 4, candidates: []candidate{rerun, rerun.later()}, liveness: true},
		{name: "tick/rerun-deleted", why: "the lease vanishes", candidates: []candidate{rerun.twice(), rerun}, faults: budget{deleteLease: 1}},
		{name: "tick/mixed", why: "one host says rerun, the other skip", quick: 3, candidates: mixed, gives: true, idle: true},
		{name: "tick/key", why: "two hosts come for a key", candidates: works(2, onceKey), gives: true, liveness: true},
		{name: "tick/key-rerun", why: "two hosts come for a key", quick: 4, candidates: works(2, onceKey.with(func(c *candidate) { c.policy, c.attempts = backends.Rerun, 2 }))},
		{name: "tick/crash", why: "hosts crash", quick: 4, candidates: works(2, skipTick), faults: budget{crash: 1}, liveness: true},
		{name: "tick/record-deleted", why: "the record vanishes, and a renewal restores it", quick: 3, candidates: works(2, skipTick), faults: budget{deleteRecord: 1}, liveness: true},
		{name: "tick/record-deleted-key", why: "the record vanishes, and a renewal restores it", candidates: works(2, onceKey), faults: budget{deleteRecord: 1}},
		{name: "tick/record-deleted-repeated", why: "the record vanishes, and a renewal or a repeated claim restores it", horizon: 6, candidates: []candidate{skipTick.twice(), skipTick}, faults: budget{deleteRecord: 1}, gives: true, idle: true},
		{name: "tick/failover", why: "a failover", replicas: 1, candidates: works(2, skipTick), gives: true, faults: budget{failover: 1}},
		{name: "tick/failover-rerun", why: "a failover", replicas: 1, candidates: works(2, rerun), faults: budget{failover: 1}},
		{name: "tick/flushed", why: "a documented limit: a store that was emptied has forgotten its ticks", candidates: works(2, skipTick), strict: true, faults: budget{flush: 1}, want: startedTwice},

		{name: "tick/apart-key", why: "without: the key is claimed in the step of the lease", candidates: works(2, onceKey), breaks: tickApart, want: startedTwice},
		{name: "tick/back", why: "without: ticks only go forward", long: true, candidates: []candidate{skipTick, skipTick.later(), skipTick}, breaks: ticksGoBack, want: startedTwice},
		{name: "tick/finish-keeps-tick", why: "without: Finish records the tick in the step of the release", candidates: works(2, rerun), breaks: finishKeepsTick, want: startedDone},
		{name: "tick/own-claim", why: "without: a tick that the same holder claimed is granted to it again", candidates: works(2, skipTick), breaks: ownClaimIsForeign, want: lostUnstarted},
		{name: "tick/no-abandon", why: "without: a wrapper that gives up takes its claim back", candidates: works(2, skipTick), gives: true, without: omissions{takeBack: true}, want: lostUnstarted},
		{name: "tick/abandon-needs-lease", why: "without: Abandon reopens the tick even when the lease is gone", candidates: works(2, skipTick), gives: true, breaks: abandonNeedsLease, want: lostUnstarted},
		{name: "tick/abandon-forgets", why: "without: later claims of a holder that took its claim back are refused", ttl: 2, candidates: []candidate{skipTick.twice(), skipTick}, gives: true, breaks: abandonForgets, want: lostUnstarted},
		{name: "tick/late-claim", why: "without: later claims of a holder whose run has ended are refused", ttl: 2, candidates: []candidate{skipTick.twice(), skipTick}, gives: true, breaks: endedMayClaim, want: lostUnstarted},
		{name: "tick/attempts", why: "without: starts of a tick are counted", candidates: works(2, rerun.with(func(c *candidate) { c.attempts = 1 })), breaks: attemptsBeginAnew, want: tooOften},
		{name: "tick/second-attempt", why: "without: a second attempt that did not start leaves the tick lost, and not open", long: true, candidates: []candidate{rerun, rerun, skipTick}, gives: true, breaks: secondAttemptReopens, want: startedTwice},
		{name: "tick/claims-policy", why: "without: the policy stored with the tick decides too", candidates: []candidate{skipTick, rerun}, breaks: claimsPolicyCounts, want: startedTwice},
		{name: "tick/later-first", why: "without: an unfinished tick runs before a later one under rerun", candidates: []candidate{rerun, rerun.later()}, breaks: laterFirst, want: passedOver},
		{name: "tick/not-restored", why: "without: a renewal restores the tick of a record that was lost", long: true, ttl: 2, candidates: works(2, skipTick), faults: budget{deleteRecord: 1}, breaks: renewRestoresNothing, want: startedTwice},
		{name: "tick/not-restored-key", why: "without: a renewal restores the key of a record that was lost", long: true, candidates: works(2, onceKey), faults: budget{deleteRecord: 1}, breaks: renewRestoresNothing, want: startedTwice},
	}
}
