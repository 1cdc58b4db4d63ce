package model

import "github.com/leaderrun/leaderrun/backends"

// Claims at stores with compare-and-swap: they read, decide, and write if nothing has changed.

// claimInSteps is one half of such a claim.
func (m *model) claimInSteps(s *state, i, k int) {
	q := &s.wrappers[i].requests[k]
	if q.stage == underway {
		m.read(s, i, k)
		return
	}
	n := *s
	at := s.siteOf(i)
	was := n.site[at].kept
	w := &n.wrappers[i].requests[k]
	if m.changed(s, at, i, q) && !m.without.compare {
		*w = request{kind: claim, stage: underway, sent: q.sent, quiet: q.quiet, seen: q.seen}
		m.add(n, "", "H%d's claim finds that something has changed", i+1)
		return
	}
	m.writeClaim(&n, i, w)
	w.stage = answered
	if w.answer == isGranted {
		w.acked = m.store.counted(m, &n, at, true)
	}
	n.outdate(m.traits, at, &was)
	m.add(n, "", "H%d's claim writes: %s", i+1, describe(w))
}

// read is the first half, at each server that may answer, and whatever the clocks say.
func (m *model) read(s *state, i, k int) {
	for _, fresh := range m.clocks() {
		m.readFrom(s, i, k, fresh, false)
		if m.lags && s.replica != s.site[0].kept {
			m.readFrom(s, i, k, fresh, true)
		}
	}
}

func (m *model) readFrom(s *state, i, k int, fresh, lags bool) {
	n := *s
	at := s.siteOf(i)
	if lags {
		n.site[at].kept = s.replica
	}
	q := &n.wrappers[i].requests[k]
	broken := m.lookForClaim(&n, i, q, fresh)
	writes := q.next != n.site[at].record || q.answer == isGranted || m.marks(&n, at, q)
	n.site[at].kept = s.site[at].kept
	q.stage, q.stale = looked, lags
	switch {
	case !writes:
		q.stage = answered
	case lags:
		broken = "" // it is not what will be written
	}
	from := ""
	if lags {
		from = ", from a server that lags"
	}
	m.add(n, broken, "H%d's claim reads what there is%s: %s", i+1, from, describe(q))
}

// changed says whether what a claim compares is not what it has read.
func (m *model) changed(s *state, at, i int, q *request) bool {
	site := &s.site[at]
	switch {
	case !m.traits.versions:
		return q.stale
	case uint32(q.version) != site.version:
		return true
	case m.traits.ephemeral && q.answer == isGranted:
		mine := holder(0)
		if m.archive.get(site.record).Token == q.token.real() { // it is granted again
			mine = holder(i + 1)
		}
		return site.lease.holder != mine
	}
	return q.server != m.serverOf(&site.server.identity) && !m.without.sameServer
}

// serverOf is an identity as a claim compares it.
func (m *model) serverOf(id *identity) uint8 {
	if m.without.startTime {
		return id.history
	}
	return id.run<<4 | id.history&0xf
}

// marks says whether a claim has a mark to write.
func (m *model) marks(s *state, at int, q *request) bool {
	if !m.marksApart() {
		return false
	}
	site := &s.site[at]
	next, _ := m.admit(site.mark, site.server, m.longest, q.read, site.record != 0)
	return next != site.mark
}

// remark writes the mark with a claim that was decided before. The mark is compared too, so that it is the one which was
// read.
func (m *model) remark(s *state, at int, q *request) {
	if m.marksApart() {
		site := &s.site[at]
		site.mark, _ = m.admit(site.mark, site.server, m.longest, q.read, site.record != 0)
	}
}

// marksApart says that a claim first reads the mark, and then writes it.
func (m *model) marksApart() bool {
	_, ok := m.store.(forgetful)
	return ok && m.traits.twoStep
}

// clocks are what the clocks of two hosts may say of the holder's last renewal, where anybody asks them.
func (m *model) clocks() []bool {
	if m.traits.object {
		return []bool{false, true}
	}
	return []bool{false}
}

// keepQuiet is a rule of the driver where whatever is written is taken for a sign of life: a candidate that finds the
// job held writes nothing unless the clock says that the holder has just renewed. Else candidates that come often would
// take each other for it for ever.
func (m *model) keepQuiet(d *backends.ClaimDecision, fresh bool) {
	if m.traits.object && !fresh && !m.without.quietNotes && d.Refusal != nil && d.Refusal.Verdict == backends.Held {
		d.Changed = false
	}
}
