package model

// etcdVariants are about evidence by silence.
func etcdVariants() []*variant {
	return []*variant{
		{name: "etcd/plain", why: "nothing happens", quick: 3, store: etcd{}, liveness: true},
		{name: "etcd/lease-deleted", why: "the lease is revoked", quick: 3, store: etcd{}, faults: budget{deleteLease: 1}, liveness: true},
		{name: "etcd/lease-deleted-ttls", why: "the lease is revoked, and TTLs differ", store: etcd{}, candidates: []candidate{plainRun.lasting(3), plainRun.lasting(2)}, faults: budget{deleteLease: 1}},
		{name: "etcd/tick", why: "two hosts come for a tick, and the lease is revoked", store: etcd{}, candidates: works(2, skipTick), gives: true, faults: budget{deleteLease: 1}},
		{name: "etcd/record-deleted", why: "the record is deleted, and a renewal restores it", store: etcd{}, candidates: works(2, skipTick), faults: budget{deleteRecord: 1}, liveness: true},
		{name: "etcd/both-deleted", why: "a documented limit: who deletes lease and record removes every trace", ttl: 2, store: etcd{}, faults: budget{deleteBoth: 1}, only: overlap, want: overlap},
	}
}

// consulVariants are about sessions that end when they like.
func consulVariants() []*variant {
	return []*variant{
		{name: "consul/plain", why: "nothing happens", quick: 3, store: consul{}, liveness: true},
		{name: "consul/session-destroyed", why: "the session is destroyed", store: consul{}, faults: budget{deleteLease: 1}, liveness: true},
		{name: "consul/record-deleted", why: "the record is deleted, and the lock still tells of the run", store: consul{}, faults: budget{deleteRecord: 1}, liveness: true},
		{name: "consul/record-and-session", why: "the record is deleted, and the session is destroyed", store: consul{}, faults: budget{deleteRecord: 1, deleteLease: 1}},
		{name: "consul/tick", why: "two hosts come for a tick, and the session is destroyed", store: consul{}, candidates: works(2, skipTick), gives: true, faults: budget{deleteLease: 1}},
		{name: "consul/tick-record-deleted", why: "the record is deleted, and the end of a run finds its lock without a session", store: consul{}, candidates: works(2, skipTick), faults: budget{deleteRecord: 1}},
		{name: "consul/finish-without-tick", why: "without: a run that the record does not have is restored, though its token is there", long: true, store: consul{}, candidates: works(2, skipTick), faults: budget{deleteRecord: 1}, breaks: finishRestoresByToken, want: startedTwice},

		{name: "consul/no-evidence", why: "without: a candidate counts one TTL of silence", store: consul{}, faults: budget{deleteLease: 1}, breaks: vanishedIsFree, want: overlap},
		{name: "consul/no-beat", why: "without: every renewal writes a beat", long: true, store: consul{}, faults: budget{deleteLease: 1}, breaks: renewWithoutBeat, want: overlap},
		{name: "consul/beats-come-again", why: "without: the beats of a record that was lost go on above all that there were", long: true, store: consul{}, faults: budget{deleteRecord: 1, deleteLease: 1}, breaks: beatsComeAgain, want: overlap},
		{name: "consul/no-compare", why: "without: a claim compares what it has read", store: consul{}, without: omissions{compare: true}, only: overlap, want: overlap},
	}
}

// fileVariants are about a lock that the processes of a run share.
func fileVariants() []*variant {
	return []*variant{
		{name: "file/plain", why: "nothing happens", quick: 3, store: file{}, liveness: true},
		{name: "file/crash", why: "a whole run dies", store: file{}, faults: budget{crash: 1}, liveness: true},
		{name: "file/wreck", why: "wrapper and guardian are killed, the child lives", quick: 3, store: file{}, faults: budget{wreck: 1}, liveness: true},
		{name: "file/lock-removed", why: "the lock file is removed", store: file{}, faults: budget{removeLock: 1}, liveness: true},
		{name: "file/record-deleted", why: "the record is deleted", store: file{}, candidates: works(2, skipTick), faults: budget{deleteRecord: 1}, liveness: true},
		{name: "file/tick", why: "two hosts come for a tick", quick: 3, store: file{}, candidates: works(2, skipTick), gives: true, faults: budget{crash: 1}, liveness: true},
		{name: "file/rerun", why: "two hosts come for a tick", store: file{}, candidates: works(2, rerun), gives: true, faults: budget{wreck: 1}},

		{name: "file/any-lock", why: "without: the lock must be the one that the record's run was granted", store: file{}, faults: budget{removeLock: 1}, without: omissions{ownLock: true}, want: overlap},
	}
}

// orderVariants are about what operators do.
func orderVariants() []*variant {
	return []*variant{
		{name: "order/stop", why: "an operator asks the holder to stop", quick: 3, orders: []orderKind{askToStop}, faults: budget{orders: 1}, liveness: true},
		{name: "order/revoke", why: "an operator takes the lease away", quick: 3, orders: []orderKind{revoke}, faults: budget{orders: 1}, liveness: true},
		{name: "order/revoke-tick", why: "an operator takes the lease away", orders: []orderKind{revoke}, candidates: works(2, skipTick), gives: true, idle: true, faults: budget{orders: 1}},
		{name: "order/revoke-rerun", why: "an operator takes the lease away", orders: []orderKind{revoke}, candidates: works(2, rerun), idle: true, faults: budget{orders: 1}},
		{name: "order/revoke-etcd", why: "an operator takes the lease away", horizon: 6, store: etcd{}, orders: []orderKind{revoke}, faults: budget{orders: 1}, liveness: true},
		{name: "order/revoke-consul", why: "an operator takes the lease away", horizon: 6, store: consul{}, orders: []orderKind{revoke}, faults: budget{orders: 1}, liveness: true},
		{name: "order/dead", why: "an operator answers for the death of a holder", orders: []orderKind{declareDead}, faults: budget{orders: 1, crash: 1}, liveness: true},
		{name: "order/dead-three", why: "an operator answers for the death of a holder", horizon: 3, orders: []orderKind{declareDead}, candidates: works(3, plainRun), faults: budget{orders: 1, crash: 1}},
		{name: "order/dead-tick", why: "an operator answers for the death of a holder", quick: 4, orders: []orderKind{declareDead}, candidates: works(2, skipTick), idle: true, faults: budget{orders: 1, crash: 1}},
		{name: "order/forget", why: "an operator forgets the job", horizon: 6, orders: []orderKind{forgetJob}, faults: budget{orders: 1, deleteLease: 1}, liveness: true},
		{name: "order/forget-tick", why: "an operator forgets the tick", horizon: 5, orders: []orderKind{forgetTick, forgetJob}, candidates: works(2, skipTick), gives: true, idle: true, faults: budget{orders: 1}},
		{name: "order/forget-etcd", why: "an operator forgets the job", horizon: 6, store: etcd{}, orders: []orderKind{forgetJob}, faults: budget{orders: 1}},

		{name: "order/forget-late", why: "an operator forgets the job, and claims arrive late", horizon: 5, orders: []orderKind{forgetJob}, candidates: []candidate{skipTick.twice(), skipTick}, gives: true, faults: budget{orders: 1}},
		{name: "order/all", why: "an operator does this and that", orders: []orderKind{askToStop, revoke, declareDead, forgetJob, forgetTick}, candidates: works(2, rerun), idle: true, faults: budget{orders: 2, crash: 1}, horizon: 4},

		{name: "order/forget-tokens", why: "without: a job that is forgotten keeps its token", ttl: 2, orders: []orderKind{forgetJob}, faults: budget{orders: 1}, breaks: forgetTokens, want: tokenOrder},
		{name: "order/forget-refusals", why: "without: a job that is forgotten keeps who took a claim back", long: true, orders: []orderKind{forgetJob}, candidates: []candidate{skipTick.twice(), skipTick}, gives: true, faults: budget{orders: 1}, breaks: forgetRefusals, want: lostUnstarted},
		{name: "order/names-nobody", why: "without: an order names the run that is meant", long: true, orders: []orderKind{declareDead}, candidates: works(3, plainRun), faults: budget{orders: 1, crash: 1}, breaks: ordersNameNobody, want: overlap},
	}
}
