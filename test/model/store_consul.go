package model

import (
	"github.com/leaderrun/leaderrun/backends"
)

// consul holds a lock by a session, which ends between one and two TTLs after its last renewal. The lock's value
// outlives it. The record is where the beat is, so that every renewal is a change of what a claim has read. The
// lock-delay is left out: it only refuses more.
type consul struct{}

func (consul) traits() traits {
	return traits{name: "Consul", beats: true, twoStep: true, tells: true, counts: true}
}

// view is that of backends/consul: where the record was lost, the lock still tells of the run.
func (consul) view(m *model, s *state, at int, _ look) backends.View {
	k := &s.site[at].kept
	v := backends.View{Record: m.recordOf(k), Lease: leaseOf(&k.lease, s.now), Now: clock(s.now), Proof: backends.ByBeat}
	lags := k.label.token.real() > v.Record.Token
	if lags {
		v.Record.TTL = max(v.Record.TTL, length(k.label.ttl).Milliseconds())
	}
	if lags && v.Lease == nil {
		v.Record.Job, v.Record.Token, v.Record.Holder = job, k.label.token.real(), holderOf(k.label.holder)
	}
	return v
}

func (consul) floor(*kept) token                       { return 0 }
func (consul) foreign(*model, *kept, label) bool       { return false }
func (consul) counted(*model, *state, int, bool) acked { return enough }

func (consul) free(k *kept) { k.lease, k.label = lease{}, label{} }

func (consul) take(k *kept, l label, now moment) {
	k.lease, k.label = lease{l.token, l.holder, now + 2*l.ttl}, l
}

func (consul) extend(k *kept, l label, now moment) { k.lease.until = now + 2*l.ttl }

func (consul) pass(k *kept, now moment) {
	if k.lease.holder != 0 && now >= k.lease.until {
		k.lease = lease{}
	}
}

// events: a session may end as soon as its TTL is over.
func (consul) events(m *model, s *state) {
	l := &s.site[0].lease
	if l.holder == 0 || s.now+s.site[0].label.ttl < l.until {
		return
	}
	n := *s
	n.site[0].lease = lease{}
	m.add(n, "", "Consul ends the session of H%d", l.holder)
}
