package model

import "github.com/leaderrun/leaderrun/backends"

// etcd ends leases by a clock that nobody can read, and keeps a beat in a key of its own. A claim compares in the
// transaction that writes what it had read. All other steps are repeated until that comparison holds, and so are as
// good as one.
type etcd struct{}

func (etcd) traits() traits { return traits{name: "etcd", beats: true, twoStep: true} }

func (etcd) view(m *model, s *state, at int, _ look) backends.View {
	k := &s.site[at].kept
	return backends.View{Record: m.recordOf(k), Lease: leaseOf(&k.lease, s.now), Now: clock(s.now), Proof: backends.ByBeat}
}

func (etcd) floor(*kept) token                       { return 0 }
func (etcd) foreign(*model, *kept, label) bool       { return false }
func (etcd) free(k *kept)                            { k.lease = lease{} }
func (etcd) counted(*model, *state, int, bool) acked { return enough }
func (etcd) events(*model, *state)                   {}
func (etcd) take(k *kept, l label, now moment)       { k.lease = lease{l.token, l.holder, now + l.ttl} }
func (etcd) extend(k *kept, l label, now moment)     { k.lease.until = now + l.ttl }

func (etcd) pass(k *kept, now moment) {
	if k.lease.holder != 0 && now >= k.lease.until {
		k.lease = lease{}
	}
}
