package model

import (
	"strconv"

	"github.com/leaderrun/leaderrun/backends"
)

// postgres has one row for a job, with a version, and another one for the mark. A claim reads both, the time, and which
// server it is, decides, and writes if all that is as it was. The lease is what the row says. All other steps are repeated
// until that comparison holds, and so are as good as one.
//
// A failover and a recovery from an archive begin a new timeline. A snapshot of the disk does not, nor does a crash: that
// something may be forgotten is then told by when the server started.
type postgres struct{ redis }

func (postgres) traits() traits {
	return traits{name: "PostgreSQL", twoStep: true, versions: true, timelines: true}
}

const (
	firstTimeline = 10  // as a history
	system        = 100 // so many histories further is another system
)

func (postgres) view(m *model, s *state, at int, l look) backends.View {
	site := &s.site[at]
	v := backends.View{Record: m.recordOf(&site.kept), Lease: leaseOf(&site.lease, s.now), Now: clock(s.now), Proof: backends.ByUntil}
	if l.step == claim || l.step == operate {
		_, v.Quarantine = m.admit(site.mark, site.server, m.longest, s.now, site.record != 0)
	}
	if l.step == renew && m.without.ownTime && v.Lease != nil {
		v.Now = v.Now.Add(v.Lease.Left - length(m.candidates[l.by-1].ttl))
	}
	return v
}

func (postgres) named(m *model, id identity) string {
	if id == (identity{}) || !m.without.startTime {
		return id.String()
	}
	return strconv.Itoa(int(id.history))
}

// self: a server of the mark's history is one that was started again. Without mark and record it is a new one, if it is
// on its first timeline.
func (p postgres) self(m *model, old mark, srv server, hasRecord bool) backends.Server {
	known := old.identity.history == srv.identity.history
	if old == (mark{}) && !hasRecord {
		known = srv.identity.history%system == firstTimeline
	}
	is := backends.Server{Identity: p.named(m, srv.identity), Started: ms(srv.started), Forgot: !known}
	if known && old == (mark{}) && m.without.upLongEnough {
		is.Started = 0
	}
	return is
}

// counted: a commit waits for the synchronous standby, where there is one. What a step only reads may wait still.
func (postgres) counted(m *model, s *state, at int, wrote bool) acked {
	switch {
	case m.replicas == 0, m.without.acks:
		return enough
	case at == 1: // its standby is the new master
		return never
	case !wrote && m.without.ownWrite, s.site[at].kept == s.replica:
		return enough
	}
	return pending
}
