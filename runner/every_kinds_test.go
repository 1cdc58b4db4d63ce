package runner

import (
	"time"

	"github.com/leaderrun/leaderrun/backends"
)

// What is special to each kind of store.

func differentTTLs(i int, r *Request) {
	if i == 0 {
		r.Timeline.TTL = 8 * second
	}
}

// redisCases are about a server that may forget, and replicas.
func redisCases() []*orderCase {
	redis := func(c orderCase) *orderCase {
		c.proof, c.quarantines = backends.ByUntil, true
		return &c
	}
	replicated := func(c orderCase) *orderCase {
		c.replicas, c.acks = max(c.replicas, 1), true
		return redis(c)
	}
	return []*orderCase{
		redis(orderCase{name: "redis/ttls", why: "the lease vanishes, or the store forgets all, and TTLs differ", long: true, starves: true, hosts: 2, ask: differentTTLs, may: happen(losesLease, wiped, lateCall), faults: 2, horizon: 10 * second}),
		redis(orderCase{name: "redis/wiped", why: "the store forgets all, the lease vanishes, and another job is claimed", starves: true, hosts: 2, other: MinTTL, may: happen(wiped, losesLease, otherJob), faults: 3, exits: 1, horizon: 8 * second}),
		redis(orderCase{name: "redis/restarted", why: "the server restarts with all, nothing or an old dump", starves: true, hosts: 2, may: happen(restarted, restartedEmpty, stays, restartedOld), faults: 3, horizon: 7 * second}),
		redis(orderCase{name: "redis/evicted", why: "lease, record and mark are evicted", starves: true, evicts: true, hosts: 2, may: happen(losesLease, losesRecord, losesMark), faults: 3, horizon: 8 * second}),
		replicated(orderCase{name: "replica/promoted", why: "a replica that lags is promoted, and the other one back", long: true, starves: true, hosts: 2, other: MinTTL, may: happen(stays, catchesUp, promoted, otherJob), faults: 3, horizon: 7 * second}),
		replicated(orderCase{name: "replica/promoted-network", why: "a replica that lags is promoted", long: true, hosts: 2, may: happen(stays, promoted, lateCall), whom: map[moveKind]int{lateCall: 0}, faults: 3, horizon: 6 * second}),
		replicated(orderCase{name: "replica/parted", why: "the old master goes on for one host", long: true, hosts: 2, may: happen(stays, parted), faults: 2, horizon: 6 * second}),
		replicated(orderCase{name: "replica/parted-two", why: "the old master goes on for one host, with one of two replicas", long: true, replicas: 2, isolated: 1, hosts: 2, may: happen(stays, parted), faults: 2, horizon: 6 * second}),
		redis(orderCase{name: "replica/unacknowledged", why: "a replica that lags is promoted, and what was written did not wait for it", long: true, starves: true, replicas: 1, hosts: 2, may: happen(stays, promoted), faults: 3, horizon: 8 * second}),
		redis(orderCase{name: "replica/attached", why: "a replica is attached and promoted", starves: true, acks: true, hosts: 2, may: happen(attached, stays, promoted), faults: 3, horizon: 7 * second}),
		redis(orderCase{name: "replica/attached-parted", why: "a replica is attached and promoted beside the old master", long: true, acks: true, hosts: 2, may: happen(attached, stays, parted), faults: 3, horizon: 7 * second}),

		redis(orderCase{name: "limit/longest-differs", why: "hosts agree about the longest TTL, a documented limit", want: "overlap", only: "overlap", other: second, hosts: 2, begins: []time.Duration{0, 3 * second}, may: happen(wiped, otherJob), faults: 2, horizon: 8 * second}),
		redis(orderCase{name: "limit/attached-unnoticed", why: "a replica is promoted only once some step has noticed it, a documented limit", want: "overlap", only: "overlap", acks: true, unnoticed: true, hosts: 2, may: happen(attached, parted), faults: 2, horizon: 8 * second}),
		redis(orderCase{name: "limit/both", why: "who deletes lease and record removes every trace, a documented limit", want: "overlap", only: "overlap", hosts: 2, may: happen(losesLease, losesRecord), faults: 2, horizon: 8 * second}),

		redis(orderCase{name: "without/wiped-first-sight", why: "a server that was emptied is in quarantine from the first sight on", want: "overlap", only: "overlap", hosts: 2, may: happen(wiped), faults: 1, horizon: 8 * second, out: leftOut{countsFromStart: true}}),
		redis(orderCase{name: "without/evictions", why: "an eviction quarantines a job that is unknown", want: "overlap", only: "overlap", evicts: true, hosts: 2, may: happen(losesLease, losesRecord), faults: 2, horizon: 8 * second, out: leftOut{evictionsUnseen: true}}),
		redis(orderCase{name: "without/again-extends", why: "the lease is renewed when the same holder asks again", long: true, want: "overlap", only: "overlap", slow: true, hosts: 2, may: happen(network, cutOff), faults: 2, horizon: 8 * second, out: leftOut{againKeeps: true}}),
		redis(orderCase{name: "without/finish-token", why: "an end compares the token", long: true, want: "stale", only: "stale", hosts: 1, may: happen(lateCall, stops), faults: 2, horizon: 12 * second, persists: true, rules: finishByHolder}),
		redis(orderCase{name: "without/history", why: "the mark names the replication history too", want: "overlap", only: "overlap", replicas: 1, hosts: 2, may: happen(stays, promoted), faults: 4, horizon: 8 * second, out: leftOut{runOnly: true}}),
		redis(orderCase{name: "without/claims-mark", why: "only claims write which server it is", want: "overlap", only: "overlap", replicas: 1, hosts: 2, may: happen(stays, promoted), faults: 2, horizon: 8 * second, out: leftOut{renewalsMark: true}}),
		redis(orderCase{name: "without/acks-tick", why: "a grant counts only when the replicas have it", long: true, want: "ticks", replicas: 1, hosts: 2, ask: forTick, may: happen(stays, promoted), faults: 2, exits: 2, horizon: 8 * second}),
		redis(orderCase{name: "without/acks", why: "a renewal counts only when the replicas have it", want: "overlap", only: "overlap", replicas: 1, hosts: 2, may: happen(parted), faults: 1, horizon: 10 * second}),
		replicated(orderCase{name: "without/seen-replicas", why: "as many replicas must have it as were ever seen", want: "overlap", only: "overlap", replicas: 2, isolated: 1, hosts: 2, may: happen(parted), faults: 1, horizon: 10 * second, out: leftOut{connectedOnly: true}}),
		replicated(orderCase{name: "without/end-written", why: "an end that is repeated writes something", want: "ticks: one that is done", only: "ticks", hosts: 2, begins: []time.Duration{0, 2 * second}, ask: forRerun, may: happen(stays, promoted), faults: 2, exits: 2, horizon: 9 * second, out: leftOut{readsEnd: true}}),
		redis(orderCase{name: "without/attached-seen", why: "a renewal notices a replica that was attached", want: "overlap", only: "overlap", acks: true, hosts: 2, may: happen(attached, parted), faults: 2, horizon: 10 * second, out: leftOut{attachedUnseen: true}}),
	}
}

// postgresCases are about a row with a version, and servers that were set back.
func postgresCases() []*orderCase {
	postgres := func(c orderCase) *orderCase {
		c.proof, c.quarantines, c.whole, c.fromRead = backends.ByUntil, true, true, true
		return &c
	}
	standby := func(c orderCase) *orderCase {
		c.replicas, c.acks = 1, true
		return postgres(c)
	}
	return []*orderCase{
		postgres(orderCase{name: "postgres/network", why: "calls and replies are late or lost", long: true, starves: true, hosts: 2, may: network, faults: 1, exits: 1, horizon: 6500 * time.Millisecond}),
		postgres(orderCase{name: "postgres/new", why: "the table is new", long: true, unmarked: true, starves: true, hosts: 2, may: network, faults: 1, exits: 1, horizon: 6 * second}),
		postgres(orderCase{name: "postgres/vanishes", why: "somebody clears lease or mark", long: true, starves: true, hosts: 2, may: happen(losesLease, losesMark, lateCall), faults: 2, horizon: 8 * second}),
		postgres(orderCase{name: "postgres/tick", why: "two hosts come for a tick, and somebody clears lease or record", long: true, hosts: 2, ask: forTick, may: happen(losesLease, losesRecord, lateCall, signalled), faults: 1, exits: 2, horizon: 8 * second}),
		postgres(orderCase{name: "postgres/restarted", why: "the server restarts with all, nothing, a snapshot of its disk, or an old backup", long: true, starves: true, hosts: 2, may: happen(restarted, restartedEmpty, stays, restartedOld, restoredOld), faults: 2, horizon: 7 * second}),
		standby(orderCase{name: "standby/synchronous", why: "a synchronous standby is promoted", long: true, starves: true, hosts: 2, may: happen(stays, catchesUp, promoted), faults: 3, horizon: 6 * second}),
		standby(orderCase{name: "standby/synchronous-tick", why: "a synchronous standby is promoted", long: true, hosts: 2, ask: forTick, may: happen(stays, promoted), faults: 2, exits: 1, horizon: 6 * second}),
		standby(orderCase{name: "standby/synchronous-rerun", why: "a synchronous standby is promoted", long: true, hosts: 2, ask: forRerun, may: happen(stays, promoted), faults: 2, exits: 1, horizon: 6 * second}),
		standby(orderCase{name: "standby/parted", why: "the old primary goes on for one host", long: true, hosts: 2, may: happen(stays, parted), faults: 2, horizon: 6 * second}),
		postgres(orderCase{name: "standby/asynchronous", why: "a standby that lags is promoted, and back, another job is claimed, and somebody clears the lease", long: true, starves: true, replicas: 1, other: MinTTL, hosts: 2, may: happen(stays, promoted, otherJob, losesLease), faults: 3, horizon: 8 * second}),
		postgres(orderCase{name: "limit/asynchronous-tick", why: "a standby knows of the tick, a documented limit", long: true, want: "ticks", replicas: 1, hosts: 2, ask: forTick, may: happen(stays, promoted), faults: 2, exits: 2, horizon: 8 * second}),

		postgres(orderCase{name: "without/row-clock", why: "a renewal counts from the time of its write", want: "overlap", only: "overlap", slow: true, hosts: 2, may: happen(cutOff), faults: 1, horizon: 8 * second, out: leftOut{oldClock: true, readTime: true}}),
		postgres(orderCase{name: "without/start", why: "the mark says since when the server is up", want: "overlap", only: "overlap", hosts: 2, may: happen(stays, restartedOld), faults: 2, horizon: 8 * second, out: leftOut{startUnseen: true}}),
		postgres(orderCase{name: "without/up-for-long", why: "a server without mark and record is new only if it was up for the longest TTL", want: "overlap", only: "overlap", hosts: 2, may: happen(restartedEmpty), faults: 1, horizon: 8 * second, out: leftOut{newAtOnce: true}}),
		postgres(orderCase{name: "without/backup-quarantine", why: "a server with another history is in quarantine", want: "overlap", only: "overlap", hosts: 2, may: happen(stays, restoredOld), faults: 2, horizon: 8 * second, out: leftOut{trusts: true}}),
		postgres(orderCase{name: "without/standby-quarantine", why: "a server on another timeline is in quarantine", want: "overlap", only: "overlap", replicas: 1, hosts: 2, may: happen(stays, promoted), faults: 2, horizon: 8 * second, out: leftOut{trusts: true}}),
		postgres(orderCase{name: "without/same-server", why: "a swap compares which server was read", long: true, want: "overlap", only: "overlap", replicas: 1, hosts: 2, may: happen(stays, promoted, lateCall), whom: map[moveKind]int{lateCall: 1}, faults: 3, horizon: 8 * second, out: leftOut{anyServer: true}}),
	}
}

// silenceCases are about sessions that end when they like, and an object in which nothing ends.
func silenceCases() []*orderCase {
	etcd := func(c orderCase) *orderCase {
		c.proof = backends.ByBeat
		return &c
	}
	consul := func(c orderCase) *orderCase {
		c.whole, c.counts, c.labels, c.late = true, true, true, true
		return etcd(c)
	}
	zookeeper := func(c orderCase) *orderCase {
		c.whole, c.late = true, true
		return etcd(c)
	}
	kubernetes := func(c orderCase) *orderCase {
		c.whole, c.object = true, true
		return etcd(c)
	}
	return []*orderCase{
		etcd(orderCase{name: "etcd/vanishes", why: "lease or record vanishes", long: true, starves: true, hosts: 2, may: happen(losesLease, losesRecord, lateCall), faults: 1, exits: 1, horizon: 8 * second}),
		etcd(orderCase{name: "etcd/ttls", why: "the lease vanishes, and TTLs differ", long: true, hosts: 2, ask: differentTTLs, may: happen(losesLease, lateCall), faults: 2, horizon: 11 * second}),
		etcd(orderCase{name: "etcd/tick", why: "two hosts come for a tick, and lease or record vanishes", long: true, hosts: 2, ask: forTick, may: happen(losesLease, losesRecord, signalled), faults: 1, exits: 2, horizon: 8 * second}),
		consul(orderCase{name: "consul/vanishes", why: "the session is destroyed, and the record vanishes", starves: true, hosts: 2, may: happen(losesLease, losesRecord), faults: 3, horizon: 11 * second}),
		consul(orderCase{name: "consul/network", why: "the session is destroyed, or the record vanishes, and calls and replies are late or lost", long: true, hosts: 2, may: happen(losesLease, losesRecord, lateCall), faults: 2, horizon: 8 * second}),
		consul(orderCase{name: "consul/tick", why: "two hosts come for a tick, and the session is destroyed, or the record vanishes", long: true, hosts: 2, ask: forTick, may: happen(losesLease, losesRecord, signalled), faults: 2, exits: 1, horizon: 8 * second}),
		zookeeper(orderCase{name: "zookeeper/sessions", why: "sessions end when they like", long: true, starves: true, hosts: 2, may: happen(losesLease, lateCall), faults: 2, horizon: 7 * second}),
		zookeeper(orderCase{name: "zookeeper/tick", why: "sessions end when they like, and two hosts come for a tick", long: true, hosts: 2, ask: forTick, may: happen(losesLease, signalled), faults: 2, exits: 1, horizon: 7 * second}),
		zookeeper(orderCase{name: "zookeeper/often", why: "ticks come more often than the TTL", starves: true, often: true, hosts: 2, ask: forTicks, may: happen(losesLease, killed), faults: 1, horizon: 7 * second}),
		zookeeper(orderCase{name: "zookeeper/ttls", why: "sessions end when they like, and TTLs differ", long: true, hosts: 2, ask: differentTTLs, may: happen(losesLease, lateCall), faults: 2, horizon: 11 * second}),
		kubernetes(orderCase{name: "kubernetes/edited", why: "somebody edits the holder", long: true, starves: true, hosts: 2, may: happen(losesLease, lateCall), faults: 2, horizon: 7 * second}),
		kubernetes(orderCase{name: "kubernetes/ahead", why: "clocks differ", long: true, starves: true, skew: 3 * second, hosts: 2, may: happen(losesLease, network), faults: 1, exits: 1, horizon: 12 * second}),
		kubernetes(orderCase{name: "kubernetes/behind", why: "clocks differ", long: true, starves: true, skew: -3 * second, hosts: 2, may: happen(losesLease, network), faults: 1, exits: 1, horizon: 12 * second}),
		kubernetes(orderCase{name: "kubernetes/far", why: "clocks differ by far", long: true, starves: true, skew: time.Hour, hosts: 2, may: happen(losesLease, network), faults: 1, exits: 1, horizon: 12 * second}),
		kubernetes(orderCase{name: "kubernetes/often", why: "ticks come more often than the TTL", starves: true, often: true, skew: -3 * second, hosts: 2, ask: forTicks, may: happen(killed, cutOff), faults: 1, horizon: 7 * second}),
		kubernetes(orderCase{name: "kubernetes/three", why: "three hosts", long: true, hosts: 3, may: happen(killed, lateCall), faults: 1, horizon: 6 * second}),
		kubernetes(orderCase{name: "kubernetes/ttls", why: "TTLs differ", long: true, hosts: 2, ask: differentTTLs, may: happen(losesLease, network), faults: 1, exits: 1, horizon: 11 * second}),
		kubernetes(orderCase{name: "kubernetes/tick", why: "two hosts come for a tick, and somebody edits the holder", long: true, hosts: 2, ask: forTick, may: happen(losesLease, signalled), faults: 2, exits: 1, horizon: 7 * second}),

		etcd(orderCase{name: "limit/keys-deleted", why: "who deletes lease and record removes every trace, a documented limit", want: "overlap", only: "overlap", hosts: 2, may: happen(losesLease, losesRecord), faults: 2, horizon: 8 * second}),
		kubernetes(orderCase{name: "limit/deleted", why: "who deletes the object removes every trace, a documented limit", want: "overlap", only: "overlap", hosts: 2, may: happen(losesLease, losesRecord), faults: 2, horizon: 8 * second}),
		kubernetes(orderCase{name: "limit/put-back", why: "who puts back an object from when the job was free frees it, a documented limit", want: "overlap", only: "overlap", hosts: 2, may: happen(stays, putBack), faults: 2, horizon: 8 * second}),
		kubernetes(orderCase{name: "limit/cluster-restored", why: "a cluster that is restored does not count its versions anew, a documented limit", want: "overlap", only: "overlap", hosts: 2, may: happen(stays, restoredOld, cutOff), faults: 3, horizon: 12 * second, out: leftOut{countsAnew: true}}),

		consul(orderCase{name: "without/session-beats", why: "a renewal writes a beat", want: "overlap", only: "overlap", hosts: 2, may: happen(losesLease, network), faults: 2, horizon: 8 * second, out: leftOut{beatless: true}}),
		consul(orderCase{name: "without/beats-go-on", why: "the beats of a record that was lost go on above all that there were", long: true, want: "overlap", only: "overlap", hosts: 2, may: happen(losesLease, losesRecord, cutOff), whom: map[moveKind]int{cutOff: 0}, faults: 3, horizon: 12 * second, rules: beatsComeAgain}),
		consul(orderCase{name: "without/run-restored", why: "a run that the record does not have is restored, though its token is there", want: "ticks", only: "ticks", hosts: 2, ask: forTick, may: happen(losesRecord, losesLease, network), faults: 3, exits: 2, horizon: 8 * second, rules: finishRestoresByToken}),
		kubernetes(orderCase{name: "without/silence", why: "a candidate counts one TTL of silence, whatever the clocks say", want: "overlap", only: "overlap", skew: time.Hour, hosts: 2, horizon: 8 * second, rules: vanishedIsFree}),
		kubernetes(orderCase{name: "without/object-reply", why: "silence counts from the reply that showed the beat", want: "overlap", only: "overlap", hosts: 2, slow: true, skew: second, begins: []time.Duration{0, 1200 * time.Millisecond}, may: happen(lateCall, losesLease, cutOff), whom: map[moveKind]int{lateCall: 1, cutOff: 0}, faults: 3, horizon: 6500 * time.Millisecond, out: leftOut{silenceFromRequest: true}}),
		kubernetes(orderCase{name: "without/notes", why: "a note is no sign of life", want: "starves", only: "starves", starves: true, often: true, skew: -3 * second, hosts: 2, ask: forTicks, may: happen(killed), faults: 1, horizon: 7 * second, out: leftOut{notesBeat: true}}),
	}
}

// fileCases are about a lock that the processes of a run share.
func fileCases() []*orderCase {
	file := func(c orderCase) *orderCase {
		c.proof, c.labels = backends.ByRelease, true
		return &c
	}
	return []*orderCase{
		file(orderCase{name: "file/deaths", why: "a host crashes, or wrapper and guardian are killed and the command lives", long: true, starves: true, hosts: 2, may: happen(crashes, wrecked, stops, lateCall), faults: 1, exits: 1, horizon: 5 * second}),
		file(orderCase{name: "file/removed", why: "lock file or record is removed", starves: true, hosts: 2, may: happen(losesLease, losesRecord), faults: 1, exits: 1, horizon: 8 * second}),
		file(orderCase{name: "file/tick", why: "two hosts come for a tick, and the record is removed, or processes die", long: true, hosts: 2, ask: forTick, may: happen(crashes, losesRecord, signalled, lateCall), faults: 1, exits: 1, horizon: 5 * second}),
		file(orderCase{name: "file/rerun", why: "two hosts come for a tick", long: true, hosts: 2, ask: forRerun, may: happen(wrecked, signalled, lateCall), faults: 1, exits: 1, horizon: 5 * second}),

		file(orderCase{name: "without/own-lock", why: "the lock must be the one that the record's run was granted", want: "overlap", only: "overlap", hosts: 2, may: happen(losesLease), faults: 1, horizon: 8 * second, out: leftOut{anyLock: true}}),
	}
}
