package model

import "github.com/leaderrun/leaderrun/backends"

// zookeeper has a node for the record, and below it an ephemeral one for the lease, which goes with its session: at any
// time, as servers fail, or late. Both are written in one multi, which compares the record node's version. Its mzxid is
// the beat: whatever is written into the node is a sign of life. A claim may read from a follower that lags. All other
// steps sync and are repeated until the comparison holds, and so are as good as one.
type zookeeper struct{}

func (zookeeper) traits() traits {
	return traits{name: "ZooKeeper", beats: true, twoStep: true, tells: true, writes: true, versions: true, ephemeral: true}
}

func (zookeeper) view(m *model, s *state, at int, _ look) backends.View {
	k := &s.site[at].kept
	return backends.View{Record: m.recordOf(k), Lease: leaseOf(&k.lease, s.now), Now: clock(s.now), Proof: backends.ByBeat}
}

func (zookeeper) floor(*kept) token                       { return 0 }
func (zookeeper) foreign(*model, *kept, label) bool       { return false }
func (zookeeper) free(k *kept)                            { k.lease = lease{} }
func (zookeeper) counted(*model, *state, int, bool) acked { return enough }
func (zookeeper) take(k *kept, l label, now moment) {
	k.lease = lease{l.token, l.holder, now + 2*l.ttl}
}
func (zookeeper) extend(k *kept, l label, now moment) { k.lease.until = now + 2*l.ttl }

func (zookeeper) pass(k *kept, now moment) {
	if k.lease.holder != 0 && now >= k.lease.until {
		k.lease = lease{}
	}
}

// events: a session ends when it likes, and the follower catches up.
func (zookeeper) events(m *model, s *state) {
	if l := &s.site[0].lease; l.holder != 0 {
		n := *s
		n.site[0].lease = lease{}
		m.add(n, "", "ZooKeeper ends the session of H%d", l.holder)
	}
	if m.keepsReplica() && s.replica != s.site[0].kept {
		n := *s
		n.replica = n.site[0].kept
		m.add(n, "", "the follower has caught up")
	}
}
