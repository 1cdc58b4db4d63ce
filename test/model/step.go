package model

import "fmt"

// successors lists what may happen next, in m.moves.
func (m *model) successors(s *state) {
	m.moves = m.moves[:0]
	m.passTime(s)
	for i := range m.candidates {
		m.send(s, i)
		m.giveUp(s, i)
		m.runChild(s, i)
		for k := range s.wrappers[i].requests {
			if s.wrappers[i].requests[k].kind != noRequest {
				m.travel(s, i, k)
			}
		}
	}
	m.store.events(m, s)
	m.interfere(s)
	m.fail(s)
}

// add notes a move, unless it leads nowhere. What can no longer matter is taken out of the state.
func (m *model) add(to state, broken, format string, args ...any) {
	m.settle(&to)
	if broken == "" {
		broken = alone(&to)
	}
	if m.only != "" && broken != m.only {
		broken = ""
	}
	mv := move{to: to, broken: broken}
	if m.words {
		mv.text = fmt.Sprintf(format, args...)
	}
	m.moves = append(m.moves, mv)
}

// passTime lets a unit pass. Only the guardian's kill cannot wait; where wrapper and guardian are gone, nobody kills.
func (m *model) passTime(s *state) {
	if s.now >= m.horizon {
		return
	}
	for i := range s.wrappers {
		if w := &s.wrappers[i]; w.alive && !w.wrecked && s.now >= w.valid {
			return
		}
	}
	n := *s
	n.now++
	m.add(n, "", "")
}

// send lets a wrapper send what its phase asks for.
func (m *model) send(s *state, i int) {
	w := &s.wrappers[i]
	slot := -1
	for k := range max(m.candidates[i].requests, 1) {
		if w.requests[k].kind == noRequest {
			slot = k
			break
		}
	}
	if slot < 0 || w.wrecked {
		return
	}
	put := func(q request, format string, args ...any) {
		n := *s
		q.stage, q.sent = underway, s.now
		n.wrappers[i].requests[slot] = q
		m.add(n, "", "H%d sends "+format, append([]any{i + 1}, args...)...)
	}
	switch w.phase {
	case claiming:
		q := request{kind: claim, seen: w.seen}
		if w.seen.token != 0 {
			q.quiet = min(s.now-w.seenAt, m.longestTTL())
		}
		put(q, "its claim%s", forWhat(m.candidates[i].what))
	case running:
		put(request{kind: renew, token: w.token, what: w.what, attempt: w.attempt}, "a renewal")
	case finishing:
		put(request{kind: finish, token: w.token, what: w.what, attempt: w.attempt, outcome: w.outcome}, "its end: %s", w.outcome)
	case undoing:
		put(request{kind: abandon}, "that it takes its claim back")
	}
}

func (m *model) longestTTL() moment {
	longest := m.longest
	for _, c := range m.candidates {
		longest = max(longest, c.ttl)
	}
	return longest
}

// giveUp lets a wrapper end before it has started anything: a signal, the end of its patience, no such program.
func (m *model) giveUp(s *state, i int) {
	w := &s.wrappers[i]
	if !m.gives || w.phase != claiming && w.phase != granted {
		return
	}
	n := *s
	g := &n.wrappers[i]
	g.phase = undoing
	if m.without.takeBack {
		g.phase, g.end = gone, silent
	}
	m.add(n, "", "H%d gives up before it has started anything", i+1)
}

// runChild is what becomes of the child.
func (m *model) runChild(s *state, i int) {
	w := &s.wrappers[i]
	switch {
	case w.phase == granted && s.now < w.valid:
		n := *s
		broken := m.start(&n, i)
		m.add(n, broken, "H%d: its child starts%s, token %d, until %d", i+1, forWhat(w.what), w.token, w.valid)
	case w.alive && w.wrecked:
		n := *s
		n.wrappers[i].alive, n.wrappers[i].phase = false, gone
		if n.site[0].lease.holder == holder(i+1) {
			n.site[0].lease = lease{} // the last descriptor is closed
		}
		m.add(n, "", "H%d: its child, which nobody watches, ends", i+1)
	case w.alive && s.now >= w.valid:
		n := *s
		n.childEnds(i, lost)
		m.add(n, "", "H%d: the guardian kills the child", i+1)
	case w.alive:
		n := *s
		n.childEnds(i, done)
		m.add(n, "", "H%d: the child ends by itself", i+1)
	}
}

// start starts the child of a wrapper, and says which property that violates.
func (m *model) start(s *state, i int) string {
	w := &s.wrappers[i]
	w.phase, w.alive, w.end = running, true, hasRun
	if w.token <= s.highest {
		return tokenOrder
	}
	s.highest = w.token
	if w.what == 0 || w.amnesiac {
		return ""
	}
	s.past[w.what].started++
	return m.mayStart(s, i)
}

// childEnds notes that a child is dead, and why.
func (s *state) childEnds(i int, o outcome) {
	w := &s.wrappers[i]
	w.alive, w.phase, w.outcome = false, finishing, o
}

// travel is what may become of one request: it is lost, or its reply is; it reaches the store; its reply arrives.
func (m *model) travel(s *state, i, k int) {
	q := &s.wrappers[i].requests[k]
	n := *s
	n.wrappers[i].requests[k] = request{}
	if q.stage == answered {
		m.add(n, "", "the reply to H%d's %s is lost", i+1, q.kind)
		if !s.wrappers[i].wrecked {
			m.receive(s, i, k)
		}
		return
	}
	m.add(n, "", "H%d's %s is lost", i+1, q.kind)
	if q.kind == claim && m.traits.twoStep {
		m.claimInSteps(s, i, k)
		return
	}
	m.apply(s, i, k)
}
