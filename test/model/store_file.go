package model

import (
	"time"

	"github.com/leaderrun/leaderrun/backends"
)

// file is a lock on a file that wrapper, guardian and child share; its text says whom it was granted to last. The lease
// of a state is that lock: it has no end of its own, but is freed by the wrapper, or by the guardian that has killed
// the child.
type file struct{}

func (file) traits() traits { return traits{name: "file", local: true} }

// view is that of backends/file for each of its steps.
func (file) view(m *model, s *state, at int, l look) backends.View {
	k := &s.site[at].kept
	v := backends.View{Record: m.recordOf(k), Now: clock(s.now), Proof: backends.ByRelease}
	h, step := l.by, l.step
	mine := k.lease.holder == h
	switch {
	case k.lease.holder == 0:
		unlike := k.label.token.real() != v.Record.Token || number(k.label.holder) != v.Record.Holder.ID
		if (step == claim || step == operate) && unlike && !m.without.ownLock {
			v.Proof = backends.ByUntil // it is not the lock that the record's run was granted
		}
		return v
	case mine && (step != claim || v.Record.Token <= k.lease.token.real()):
		v.Lease = &backends.Lease{Holder: number(h), Token: k.lease.token.real(), Left: time.Second}
		return v
	}
	held := &backends.Lease{Holder: number(k.label.holder), Token: k.label.token.real(), Left: time.Second}
	if mine || held.Token == v.Record.Token && v.Record.Free() {
		held.Holder = ""
	}
	if step == operate && held.Holder == "" && v.Record.Free() {
		return v
	}
	v.Lease = held
	return v
}

func (file) floor(k *kept) token { return k.label.token }

// foreign: the lock is not that of the grant, or the record names a later one.
func (file) foreign(m *model, k *kept, l label) bool {
	r := m.archive.get(k.record)
	return k.lease.holder != l.holder || k.lease.token != l.token || r.Token > l.token.real() ||
		r.Token == l.token.real() && (r.Holder.ID != number(l.holder) || r.Free())
}

func (file) free(k *kept)                            { k.lease = lease{} }
func (file) counted(*model, *state, int, bool) acked { return enough }
func (file) extend(*kept, label, moment)             {}
func (file) pass(*kept, moment)                      {}

func (file) take(k *kept, l label, _ moment) {
	k.lease, k.label = lease{l.token, l.holder, 0}, label{l.token, l.holder, 0}
}

// events: the guardian of a wrapper that is stopped unlocks once it has killed the child.
func (file) events(m *model, s *state) {
	l := &s.site[0].lease
	if l.holder == 0 || l.holder > maxWrappers {
		return
	}
	w := &s.wrappers[l.holder-1]
	if w.phase != finishing || w.token != l.token {
		return
	}
	n := *s
	n.site[0].lease = lease{}
	m.add(n, "", "the guardian of H%d unlocks", l.holder)
}
