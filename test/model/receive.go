package model

// receive lets a reply arrive at its wrapper.
func (m *model) receive(s *state, i, k int) {
	q := s.wrappers[i].requests[k]
	n := *s
	n.wrappers[i].requests[k] = request{}
	w := &n.wrappers[i]
	counts := q.acked == enough
	var did bool
	switch q.kind {
	case claim:
		did = m.receiveClaim(&n, i, &q)
	case renew:
		did = m.receiveRenew(&n, i, &q)
	case finish:
		if w.phase != finishing || !counts {
			break
		}
		did = true
		w.phase = gone
		if q.answer == isEnded && w.outcome == done && w.what != 0 && !w.amnesiac {
			n.past[w.what].done = true
		}
	case abandon:
		if w.phase != undoing || !counts {
			break
		}
		did = true
		w.phase, w.end = gone, takenBack
	}
	note := ""
	if !did {
		note = ", which does not count"
	}
	m.add(n, "", "H%d receives the reply to its %s: %s%s", i+1, q.kind, q.answer, note)
}

// validUntil returns the instant at which a run must be dead whose lease was renewed by a request.
func (m *model) validUntil(i int, q *request) moment {
	return q.sent + m.candidates[i].ttl - m.margin
}

// receiveClaim acts on the answer to a claim. Only a candidate does: who runs has no use for it.
func (m *model) receiveClaim(s *state, i int, q *request) bool {
	w := &s.wrappers[i]
	if w.phase != claiming {
		return false
	}
	switch q.answer {
	case isGranted:
		valid := m.validUntil(i, q)
		if q.acked != enough || s.now >= valid {
			return false
		}
		w.phase, w.valid, w.token, w.what, w.attempt = granted, valid, q.token, q.what, q.attempt
	case isHeld, isVanished:
		if m.traits.beats && q.seen.token != 0 && q.seen != w.seen {
			w.seen, w.seenAt = q.seen, s.now
			if m.without.evidenceByReply {
				w.seenAt = q.sent
			}
		}
	case isOver, isLost, isAbandoned:
		w.phase = gone
	}
	return true
}

// receiveRenew acts on the answer to a renewal.
func (m *model) receiveRenew(s *state, i int, q *request) bool {
	w := &s.wrappers[i]
	switch {
	case w.phase != running:
		return false
	case q.answer == isNotYours:
		s.childEnds(i, lost)
		return true
	case q.acked != enough || s.now >= w.valid:
		return false
	}
	w.valid = max(w.valid, m.validUntil(i, q))
	if q.answer == isAskedToStop {
		s.childEnds(i, stopped)
	}
	return true
}
