package model

import (
	"github.com/leaderrun/leaderrun/backends"
)

// redis counts leases in the server's time, marks which server it is, and has replicas. A request reads, decides and writes
// in one step here: that the script which writes compares all that was read is tested in backends/redis.
type redis struct{}

func (redis) traits() traits { return traits{name: "Redis"} }

func (redis) view(m *model, s *state, at int, l look) backends.View {
	site, step := &s.site[at], l.step
	v := backends.View{Record: m.recordOf(&site.kept), Lease: leaseOf(&site.lease, s.now), Now: clock(s.now), Proof: backends.ByUntil}
	seen := max(site.mark.replicas, site.server.replicas)
	site.server.noticed = site.server.replicas > 0
	if step == claim || step == operate {
		var next mark
		next, v.Quarantine = m.admit(site.mark, site.server, m.longest, s.now, v.Record.Token != 0)
		if step == claim {
			site.mark = next
		}
	}
	if step == claim || !m.without.seeAttached {
		site.mark.replicas = seen
	}
	if step == renew && m.without.onlyClaimsMark {
		site.mark.identity = site.server.identity
	}
	return v
}

func leaseOf(l *lease, now moment) *backends.Lease {
	if l.holder == 0 {
		return nil
	}
	return &backends.Lease{Holder: number(l.holder), Token: l.token.real(), Left: length(l.until - now)}
}

func (redis) self(_ *model, old mark, srv server, _ bool) backends.Server {
	return backends.Server{
		Identity: srv.identity.String(), Started: ms(srv.started), Replicas: int(srv.replicas), Evicted: int64(srv.evicted),
		Forgot: srv.flushed || srv.promoted || srv.evicted > 0 ||
			old.identity.run == srv.identity.run && old.identity != srv.identity,
	}
}

func (redis) named(_ *model, id identity) string { return id.String() }

func (redis) floor(*kept) token                 { return 0 }
func (redis) foreign(*model, *kept, label) bool { return false }
func (redis) free(k *kept)                      { k.lease = lease{} }

func (redis) take(k *kept, l label, now moment) { k.lease = lease{l.token, l.holder, now + l.ttl} }

func (redis) extend(k *kept, l label, now moment) { k.lease.until = now + l.ttl }

func (redis) pass(k *kept, now moment) {
	if k.lease.holder != 0 && now >= k.lease.until {
		k.lease = lease{}
	}
	if k.mark.until <= now {
		k.mark.until = 0
	}
}

// counted is WAIT, with as many replicas as the mark has ever seen.
func (redis) counted(m *model, s *state, at int, wrote bool) acked {
	site := &s.site[at]
	needed := site.mark.replicas
	if m.without.allReplicas {
		needed = site.server.replicas
	}
	switch {
	case needed == 0, m.without.acks:
		return enough
	case at == 1: // the isolated one has no others than those that came with it
		if site.server.replicas >= needed {
			return enough
		}
		return never
	case !wrote && m.without.ownWrite, site.kept == s.replica && site.server.replicas > 0:
		return enough
	}
	return pending
}

func (redis) events(m *model, s *state) {
	if !m.keepsReplica() || s.replica == s.site[0].kept {
		return
	}
	n := *s
	n.replica = n.site[0].kept
	n.acknowledge(pending, enough)
	if m.dumps {
		m.add(n, "", "the store is saved to disk")
		return
	}
	m.add(n, "", "the replica has caught up")
}

// acknowledge changes what the requests wait for that were applied and wait for from.
func (s *state) acknowledge(from, to acked) {
	for i := range s.wrappers {
		for k := range s.wrappers[i].requests {
			q := &s.wrappers[i].requests[k]
			if q.acked == from && s.siteOf(i) == 0 {
				q.acked = to
			}
		}
	}
}
