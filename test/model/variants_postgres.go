package model

// postgresVariants are about a row and its versions, and servers that forget.
func postgresVariants() []*variant {
	on := func(v variant) *variant {
		v.store = postgres{}
		return &v
	}
	return []*variant{
		on(variant{name: "postgres/plain", why: "nothing happens", quick: 3, liveness: true}),
		on(variant{name: "postgres/new", why: "the table is new", unmarked: true, liveness: true}),
		on(variant{name: "postgres/repeated", why: "claims and renewals overtake each other", horizon: 5, candidates: []candidate{plainRun.twice(), plainRun}}),
		on(variant{name: "postgres/lease-deleted", why: "somebody clears the holder in the row", quick: 3, faults: budget{deleteLease: 1}, liveness: true}),
		on(variant{name: "postgres/record-deleted", why: "somebody clears the record in the row, and a renewal restores it", candidates: works(2, skipTick), faults: budget{deleteRecord: 1}}),
		on(variant{name: "postgres/mark-deleted", why: "somebody deletes the row of the mark", faults: budget{evictMark: 1}, liveness: true}),
		on(variant{name: "postgres/tick", why: "two hosts come for a tick", candidates: works(2, skipTick), gives: true, faults: budget{deleteLease: 1}}),
		on(variant{name: "postgres/restarted", why: "the server restarts with its data", faults: budget{restart: 1}, liveness: true}),
		on(variant{name: "postgres/restarted-empty", why: "the server restarts with a new directory", quick: 3, faults: budget{restartEmpty: 1}, liveness: true}),
		on(variant{name: "postgres/snapshot", why: "the server restarts with an old snapshot of its disk, on the same timeline", dumps: true, faults: budget{restartOld: 1}, liveness: true}),
		on(variant{name: "postgres/backup", why: "an old backup is recovered, on a new timeline", dumps: true, faults: budget{restoreOld: 1}, liveness: true}),
		on(variant{name: "postgres/both-deleted", why: "a documented limit: who drops the table removes every trace", faults: budget{deleteBoth: 1}, only: overlap, want: overlap}),

		on(variant{name: "postgres/no-evidence", why: "without: a lease that vanished is not a lease that was released", faults: budget{deleteLease: 1}, breaks: vanishedIsFree, want: overlap}),
		on(variant{name: "postgres/no-compare", why: "without: a claim compares the version that it has read", without: omissions{compare: true}, only: overlap, want: overlap}),
		on(variant{name: "postgres/time-of-last-step", why: "without: a renewal counts from a time that was read after it began", long: true, without: omissions{ownTime: true}, only: overlap, want: overlap}),
		on(variant{name: "postgres/no-start", why: "without: the mark says since when the server is up", long: true, dumps: true, faults: budget{restartOld: 1}, without: omissions{startTime: true}, only: overlap, want: overlap}),
		on(variant{name: "postgres/new-at-once", why: "without: a server without mark and record is new only if it was up for the longest TTL", long: true, faults: budget{restartEmpty: 1}, without: omissions{upLongEnough: true}, only: overlap, want: overlap}),
		on(variant{name: "postgres/backup-trusted", why: "without: quarantine of a server with another history", long: true, dumps: true, faults: budget{restoreOld: 1}, breaks: noQuarantine, only: overlap, want: overlap}),
	}
}

// standbyVariants are about failovers of PostgreSQL.
func standbyVariants() []*variant {
	on := func(v variant) *variant {
		v.store, v.replicas = postgres{}, 1
		return &v
	}
	asynchronous := omissions{acks: true}
	return []*variant{
		on(variant{name: "standby/synchronous", why: "a failover to a synchronous standby", faults: budget{failover: 1}, liveness: true}),
		on(variant{name: "standby/synchronous-tick", why: "a failover to a synchronous standby", horizon: 5, candidates: works(2, skipTick), gives: true, faults: budget{failover: 1}}),
		on(variant{name: "standby/synchronous-rerun", why: "a failover to a synchronous standby", candidates: works(2, rerun), faults: budget{failover: 1}}),
		on(variant{name: "standby/asynchronous", why: "a failover to a standby that lags", quick: 2, faults: budget{failover: 1}, without: asynchronous, liveness: true}),
		on(variant{name: "standby/asynchronous-and-back", why: "a failover to a standby that lags, and another one", horizon: 5, faults: budget{failover: 2}, without: asynchronous}),
		on(variant{name: "standby/asynchronous-other-job", why: "a failover to a standby that lags, and the first claim is that of another job", horizon: 5, faults: budget{failover: 1, anotherJob: 1}, without: asynchronous}),
		on(variant{name: "standby/asynchronous-deleted", why: "a failover to a standby that lags, and somebody clears the holder in the row", horizon: 5, faults: budget{failover: 1, deleteLease: 1}, without: asynchronous}),
		on(variant{name: "standby/partition", why: "the old primary goes on for one wrapper, without its synchronous standby", faults: budget{partition: 1}}),
		on(variant{name: "standby/asynchronous-tick", why: "a documented limit: a standby that lags does not know of the tick", long: true, candidates: works(2, skipTick), faults: budget{failover: 1}, without: asynchronous, want: startedTwice}),

		on(variant{name: "standby/no-acks", why: "without: a step whose wait for the standby was cut short does not count. A documented limit where no standby is synchronous", long: true, faults: budget{partition: 1}, without: asynchronous, only: overlap, want: overlap}),
		on(variant{name: "standby/no-quarantine", why: "without: quarantine of a server on another timeline", long: true, faults: budget{failover: 1}, breaks: noQuarantine, without: asynchronous, only: overlap, want: overlap}),
		on(variant{name: "standby/counts-from-start", why: "without: a promoted server is in quarantine from the first sight on", long: true, faults: budget{failover: 1}, breaks: countFromStart, without: asynchronous, only: overlap, want: overlap}),
		on(variant{name: "standby/other-server", why: "without: a claim compares which server it has read from", long: true, faults: budget{failover: 1}, without: omissions{acks: true, sameServer: true}, only: overlap, want: overlap}),
		on(variant{name: "standby/finish-without-write", why: "without: a repeated Finish writes something before its commit is waited for", long: true, candidates: works(2, rerun), faults: budget{failover: 1}, without: omissions{ownWrite: true}, want: startedDone}),
	}
}
