package model

// kubernetesVariants are about one object in which nothing ends by itself.
func kubernetesVariants() []*variant {
	on := func(v variant) *variant {
		v.store = kubernetes{}
		return &v
	}
	return []*variant{
		on(variant{name: "kubernetes/plain", why: "nothing happens", quick: 3, liveness: true}),
		on(variant{name: "kubernetes/repeated", why: "claims and renewals overtake each other", horizon: 5, candidates: []candidate{plainRun.twice(), plainRun}}),
		on(variant{name: "kubernetes/three", why: "three candidates", horizon: 4, candidates: works(3, plainRun)}),
		on(variant{name: "kubernetes/ttls", why: "TTLs differ", candidates: []candidate{plainRun.lasting(3), plainRun.lasting(2)}, faults: budget{deleteLease: 1}}),
		on(variant{name: "kubernetes/holder-edited", why: "somebody edits the holder", quick: 3, faults: budget{deleteLease: 1}, liveness: true}),
		on(variant{name: "kubernetes/tick", why: "two hosts come for a tick, and somebody edits the holder", candidates: works(2, skipTick), gives: true, faults: budget{deleteLease: 1}}),
		on(variant{name: "kubernetes/often", why: "ticks come more often than the TTL", horizon: 6, candidates: []candidate{skipTick, skipTick.later()}, often: true, liveness: true}),
		on(variant{name: "kubernetes/revoke", why: "an operator takes the lease away", horizon: 6, orders: []orderKind{revoke}, faults: budget{orders: 1}, liveness: true}),
		on(variant{name: "kubernetes/dead", why: "an operator answers for the death of a holder", horizon: 6, orders: []orderKind{declareDead}, faults: budget{orders: 1, crash: 1}}),
		on(variant{name: "kubernetes/deleted", why: "a documented limit: who deletes the object removes every trace", ttl: 2, faults: budget{deleteBoth: 1}, only: overlap, want: overlap}),
		on(variant{name: "kubernetes/put-back", why: "a documented limit: who puts back an object from when the job was free frees it", long: true, dumps: true, faults: budget{putBack: 1}, only: overlap, want: overlap}),
		on(variant{name: "kubernetes/cluster-restored", why: "a documented limit: a cluster that is restored counts its versions anew", long: true, dumps: true, faults: budget{restartOld: 1}, only: overlap, want: overlap}),

		on(variant{name: "kubernetes/clocks-decide", why: "without: a candidate counts one TTL of silence, whatever the clocks say", faults: budget{}, breaks: vanishedIsFree, want: overlap}),
		on(variant{name: "kubernetes/evidence-from-request", why: "without: silence counts from the reply that showed the beat", long: true, without: omissions{evidenceByReply: true}, only: overlap, want: overlap}),
		on(variant{name: "kubernetes/no-compare", why: "without: a claim compares what it has read", without: omissions{compare: true}, only: overlap, want: overlap}),
		on(variant{name: "kubernetes/notes", why: "without: a candidate that finds the job held writes nothing unless the holder has just renewed", long: true, candidates: []candidate{skipTick, skipTick.later()}, often: true, liveness: true, without: omissions{quietNotes: true}, want: neverGranted}),
	}
}

// zookeeperVariants are about sessions that end when they like, and servers that lag.
func zookeeperVariants() []*variant {
	on := func(v variant) *variant {
		v.store = zookeeper{}
		return &v
	}
	return []*variant{
		on(variant{name: "zookeeper/plain", why: "sessions end when they like", quick: 2, liveness: true}),
		on(variant{name: "zookeeper/lags", why: "claims read from a server that lags", lags: true, horizon: 5, liveness: true}),
		on(variant{name: "zookeeper/repeated", why: "claims and renewals overtake each other", horizon: 5, candidates: []candidate{plainRun.twice(), plainRun}}),
		on(variant{name: "zookeeper/ttls", why: "TTLs differ", horizon: 6, candidates: []candidate{plainRun.lasting(3), plainRun.lasting(2)}}),
		on(variant{name: "zookeeper/tick", why: "two hosts come for a tick", horizon: 6, candidates: works(2, skipTick), gives: true}),
		on(variant{name: "zookeeper/tick-lags", why: "two hosts come for a tick, and claims read from a server that lags", lags: true, horizon: 4, candidates: works(2, skipTick), gives: true}),
		on(variant{name: "zookeeper/rerun", why: "two hosts come for a tick", horizon: 6, candidates: works(2, rerun)}),
		on(variant{name: "zookeeper/often", why: "ticks come more often than the TTL", horizon: 5, candidates: []candidate{skipTick, skipTick.later()}, often: true, liveness: true}),
		on(variant{name: "zookeeper/revoke", why: "an operator takes the lease away", horizon: 6, orders: []orderKind{revoke}, faults: budget{orders: 1}, liveness: true}),
		on(variant{name: "zookeeper/deleted", why: "a documented limit: who deletes the nodes removes every trace", long: true, ttl: 2, faults: budget{deleteBoth: 1}, only: overlap, want: overlap}),

		on(variant{name: "zookeeper/no-evidence", why: "without: a candidate counts one TTL of silence", breaks: vanishedIsFree, want: overlap}),
		on(variant{name: "zookeeper/no-beat", why: "without: every renewal writes the record", long: true, without: omissions{touches: true}, want: overlap}),
		on(variant{name: "zookeeper/evidence-from-request", why: "without: silence counts from the reply that showed the beat", long: true, without: omissions{evidenceByReply: true}, want: overlap}),
		on(variant{name: "zookeeper/no-compare", why: "without: a claim compares what it has read", without: omissions{compare: true}, only: overlap, want: overlap}),
		on(variant{name: "zookeeper/no-compare-lags", why: "without: a claim compares what it has read, perhaps from a server that lags", long: true, lags: true, without: omissions{compare: true}, only: overlap, want: overlap}),
	}
}
