package model

import "slices"

// settle takes out of a state what can no longer matter, so that states which behave alike meet.
func (m *model) settle(s *state) {
	for at := range s.site {
		m.settleKept(&s.site[at].kept, s.now)
	}
	m.settleKept(&s.replica, s.now)
	for i := range m.candidates {
		m.settleWrapper(s, i)
	}
	if m.traits.beats {
		s.rankBeats()
	}
	if m.traits.versions {
		m.rankVersions(s)
	}
}

func (m *model) settleKept(k *kept, now moment) {
	m.store.pass(k, now)
	k.record = m.fade(k.record, now)
}

// fade returns a record without an `until` that is over, or that nobody asks for.
func (m *model) fade(n record, now moment) record {
	r := m.archive.get(n)
	if r.Until == 0 || r.Until > ms(now) && !m.traits.beats {
		return n
	}
	plain := *r
	plain.Until = 0
	return m.archive.put(plain)
}

func (m *model) settleWrapper(s *state, i int) {
	w := &s.wrappers[i]
	for k := range w.requests {
		if q := &w.requests[k]; q.kind != noRequest && m.isIdle(s, i, q) {
			*q = request{}
		}
	}
	switch w.phase {
	case gone:
		*w = wrapper{phase: gone, end: w.end, requests: w.requests, what: w.what}
		if m.idle {
			w.end = noEnd
		}
		w.what = 0
	case finishing:
		w.valid = 0
	case claiming:
		if w.seen.token != 0 && s.now-w.seenAt > m.longestTTL() {
			w.seenAt = s.now - m.longestTTL()
		}
	}
	if w.phase != claiming {
		w.seen, w.seenAt = sign{}, 0
	}
	if a, b := &w.requests[0], &w.requests[1]; b.before(a) {
		*a, *b = *b, *a
	}
}

// isIdle says that a request can have no effect any more, and takes out of one that can what does not matter.
func (m *model) isIdle(s *state, i int, q *request) bool {
	w := &s.wrappers[i]
	if q.stage == answered {
		return m.isIdleReply(s, i, q)
	}
	switch {
	case q.kind == claim && w.phase != claiming:
		q.sent = 0
	case q.kind == renew && w.phase != running, q.kind == finish, q.kind == abandon:
		q.sent = 0
	}
	return false
}

func (m *model) isIdleReply(s *state, i int, q *request) bool {
	w := &s.wrappers[i]
	switch q.kind {
	case claim:
		if w.phase != claiming {
			return true
		}
		late := q.answer == isGranted && s.now >= m.validUntil(i, q)
		if q.answer != isGranted && !m.without.evidenceByReply {
			q.sent = 0
		}
		q.quiet, q.next, q.stale, q.read, q.server, q.version = 0, 0, false, 0, 0, 0
		return late || q.answer == isQuarantined || (q.answer == isHeld || q.answer == isVanished) && !m.traits.beats
	case renew:
		if w.phase != running {
			return true
		}
		useless := q.answer == isRenewed && m.validUntil(i, q) <= w.valid
		q.what, q.attempt, q.token = 0, 0, 0
		return useless
	case finish:
		q.sent, q.what, q.attempt, q.token = 0, 0, 0, 0
		return w.phase != finishing
	}
	q.sent = 0
	return w.phase != undoing
}

// before orders the two requests of a wrapper, which have no order.
func (q *request) before(p *request) bool {
	switch {
	case q.kind != p.kind:
		return q.kind > p.kind
	case q.stage != p.stage:
		return q.stage > p.stage
	case q.sent != p.sent:
		return q.sent > p.sent
	}
	return q.answer > p.answer
}

// beatsKnown visits all beats that anybody knows.
func (s *state) beatsKnown(visit func(*beat)) {
	visit(&s.site[0].beat)
	visit(&s.replica.beat)
	for i := range s.wrappers {
		w := &s.wrappers[i]
		visit(&w.seen.beat)
		for k := range w.requests {
			visit(&w.requests[k].seen.beat)
		}
	}
}

// freshBeat returns a beat above all that anybody knows.
func (s *state) freshBeat() beat {
	highest := beat(0)
	s.beatsKnown(func(b *beat) { highest = max(highest, *b) })
	return highest + 1
}

// rankBeats numbers the known beats from 1: only their order matters, because all that is done with one is to compare
// it, and to go on above it.
func (s *state) rankBeats() {
	var known [256]bool
	var rank [256]beat
	s.beatsKnown(func(b *beat) { known[*b] = true })
	next := beat(1)
	for b := 1; b < len(known); b++ {
		if known[b] {
			rank[b] = next
			next++
		}
	}
	s.beatsKnown(func(b *beat) { *b = rank[*b] })
}

// rankVersions numbers the known versions anew: they are only compared, and go on. 0 is none. Gaps that a few writes may
// fill stay where a history may fill them again.
func (m *model) rankVersions(s *state) {
	gap := uint32(1)
	if m.without.sameServer || m.faults[deleteBoth] > 0 {
		gap = 2
	}
	var list [3 + 2*maxWrappers]uint32
	known := list[:0]
	m.versionsKnown(s, func(v uint32) uint32 {
		if v != 0 {
			known = append(known, v)
		}
		return v
	})
	slices.Sort(known)
	m.versionsKnown(s, func(v uint32) uint32 {
		was, is := uint32(0), uint32(0)
		for _, k := range known {
			if k > v {
				break
			}
			is += min(k-was, gap)
			was = k
		}
		return is
	})
}

// versionsKnown changes all versions that anybody knows.
func (m *model) versionsKnown(s *state, change func(uint32) uint32) {
	s.site[0].version = change(s.site[0].version)
	s.site[1].version = change(s.site[1].version)
	s.replica.version = change(s.replica.version)
	for i := range s.wrappers {
		for k := range s.wrappers[i].requests {
			if q := &s.wrappers[i].requests[k]; q.stage == looked {
				q.version = uint16(change(uint32(q.version)))
			}
		}
	}
}
