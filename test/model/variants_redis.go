package model

// redisVariants are about the lease and the evidence that the record has of it.
func redisVariants() []*variant {
	return []*variant{
		{name: "redis/plain", why: "nothing happens", quick: 4, liveness: true},
		{name: "redis/repeated", why: "claims and renewals overtake each other", quick: 3, candidates: []candidate{plainRun.twice(), plainRun}},
		{name: "redis/three", why: "three candidates", horizon: 5, candidates: works(3, plainRun), faults: budget{deleteLease: 1}},
		{name: "redis/lease-deleted", why: "the lease vanishes", quick: 3, faults: budget{deleteLease: 1}, liveness: true},
		{name: "redis/lease-deleted-ttls", why: "the lease vanishes, and TTLs differ", candidates: []candidate{plainRun.lasting(4), plainRun.lasting(2)}, faults: budget{deleteLease: 1}},
		{name: "redis/record-deleted", why: "the record vanishes", quick: 3, faults: budget{deleteRecord: 1}, liveness: true},
		{name: "redis/both-deleted", why: "a documented limit: who deletes lease and record removes every trace", faults: budget{deleteBoth: 1}, only: overlap, want: overlap},

		{name: "redis/repeat-keeps-lease", why: "without: the lease is renewed when the same holder asks again", long: true, candidates: []candidate{plainRun.twice(), plainRun}, without: omissions{repeatExtends: true}, want: overlap},
		{name: "redis/finish-by-holder", why: "without: Finish compares the token", ttl: 2, candidates: []candidate{plainRun.twice(), plainRun}, breaks: finishByHolder, want: staleFinish},
	}
}

// redisServerVariants are about servers that forget.
func redisServerVariants() []*variant {
	return []*variant{
		{name: "redis/flushed", why: "FLUSHALL", quick: 4, faults: budget{flush: 1}, liveness: true},
		{name: "redis/flushed-and-deleted", why: "FLUSHALL, and then the lease vanishes", faults: budget{flush: 1, deleteLease: 1}},
		{name: "redis/flushed-ttls", why: "FLUSHALL, and TTLs differ", candidates: []candidate{plainRun.lasting(4), plainRun.lasting(2)}, faults: budget{flush: 1}, liveness: true},
		{name: "redis/flushed-other-job", why: "FLUSHALL, and the first claim is that of another job", faults: budget{flush: 1, anotherJob: 1}, liveness: true},
		{name: "redis/restarted", why: "the server restarts with its data", quick: 3, faults: budget{restart: 1}, liveness: true},
		{name: "redis/restarted-empty", why: "the server restarts empty", quick: 3, faults: budget{restartEmpty: 1}, liveness: true},
		{name: "redis/restarted-old", why: "the server restarts with an old dump", dumps: true, faults: budget{restartOld: 1}, liveness: true},
		{name: "redis/lease-evicted", why: "lease and record are evicted", faults: budget{evictLease: 1, evictRecord: 1}, liveness: true},
		{name: "redis/all-evicted", why: "lease, record and mark are evicted", faults: budget{evictLease: 1, evictRecord: 1, evictMark: 1}, liveness: true},

		{name: "redis/longest-differs", why: "a documented limit: hosts disagree about the longest TTL, and after FLUSHALL the first claim is of a host with a shorter one", other: 1, faults: budget{flush: 1, anotherJob: 1}, only: overlap, want: overlap},
		{name: "redis/flushed-counts-from-start", why: "without: a server that was flushed is in quarantine from the first sight on", faults: budget{flush: 1}, breaks: countFromStart, only: overlap, want: overlap},
		{name: "redis/evictions-unseen", why: "without: an eviction quarantines a job that is unknown", faults: budget{evictLease: 1, evictRecord: 1}, breaks: noEvictions, only: overlap, want: overlap},
	}
}

// replicaVariants are about replicas and failovers.
func replicaVariants() []*variant {
	waits := func(v variant) *variant {
		v.replicas = max(v.replicas, 1)
		return &v
	}
	unacknowledged := omissions{acks: true}
	return []*variant{
		waits(variant{name: "replica/failover", why: "a failover", quick: 3, faults: budget{failover: 1}, liveness: true}),
		waits(variant{name: "replica/failover-and-back", why: "a failover, and another one back", faults: budget{failover: 2}}),
		waits(variant{name: "replica/failover-other-job", why: "a failover, and the first claim is that of another job", faults: budget{failover: 1, anotherJob: 1}}),
		waits(variant{name: "replica/unacknowledged", why: "a failover with ?replicas=0", faults: budget{failover: 1}, without: unacknowledged, liveness: true}),
		waits(variant{name: "replica/unacknowledged-and-back", why: "a failover with ?replicas=0, and another one back", faults: budget{failover: 2}, without: unacknowledged}),
		waits(variant{name: "replica/partition", why: "the old master goes on for one wrapper", quick: 3, faults: budget{partition: 1}}),
		waits(variant{name: "replica/partition-two", why: "the old master goes on for one wrapper, with one of two replicas", replicas: 2, isolated: 1, faults: budget{partition: 1}}),
		{name: "replica/attached", why: "a replica is attached, noticed and promoted beside the old master", faults: budget{attach: 1, partition: 1}},
		{name: "replica/attached-failover", why: "a replica is attached and promoted", faults: budget{attach: 1, failover: 1}, liveness: true},
		{name: "replica/attached-unnoticed", why: "a documented limit: a replica is attached and promoted before any step has noticed it", long: true, unnoticed: true, faults: budget{attach: 1, partition: 1}, only: overlap, want: overlap},

		waits(variant{name: "replica/counts-from-start", why: "without: a promoted server is in quarantine from the first sight on", faults: budget{failover: 1}, breaks: countFromStart, only: overlap, want: overlap, without: unacknowledged}),
		waits(variant{name: "replica/run-id-only", why: "without: the mark names the replication history too", long: true, faults: budget{failover: 2}, breaks: runIDOnly, only: overlap, want: overlap, without: unacknowledged}),
		waits(variant{name: "replica/renewals-mark", why: "without: only claims write which server it is", long: true, faults: budget{failover: 1}, candidates: []candidate{plainRun.twice(), plainRun}, without: omissions{onlyClaimsMark: true, acks: true}, only: overlap, want: overlap}),
		waits(variant{name: "replica/no-acks-tick", why: "without: a grant counts only when the replicas have it", long: true, candidates: works(2, skipTick), faults: budget{failover: 1}, without: unacknowledged, want: startedTwice}),
		waits(variant{name: "replica/no-acks", why: "without: a renewal counts only when the replicas have it", long: true, faults: budget{partition: 1}, without: unacknowledged, only: overlap, want: overlap}),
		waits(variant{name: "replica/connected-only", why: "without: as many replicas as were ever seen", long: true, replicas: 2, isolated: 1, faults: budget{partition: 1}, without: omissions{allReplicas: true}, only: overlap, want: overlap}),
		waits(variant{name: "replica/finish-without-write", why: "without: a repeated Finish writes something before WAIT", long: true, candidates: works(2, rerun), faults: budget{failover: 1}, without: omissions{ownWrite: true}, want: startedDone}),
		{name: "replica/attached-unseen", why: "without: renewals notice a replica that was attached", long: true, faults: budget{attach: 1, partition: 1}, without: omissions{seeAttached: true}, want: overlap},
	}
}
