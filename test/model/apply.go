package model

import (
	"cmp"

	"github.com/leaderrun/leaderrun/backends"
)

// apply lets a request reach the store, which answers it in one step.
func (m *model) apply(s *state, i, k int) {
	n := *s
	q := &n.wrappers[i].requests[k]
	at := s.siteOf(i)
	was := n.site[at].kept
	var broken string
	switch q.kind {
	case claim:
		broken = m.lookForClaim(&n, i, q, false)
		m.writeClaim(&n, i, q)
	case renew:
		m.applyRenew(&n, i, q)
	case finish:
		broken = m.applyFinish(&n, i, q)
	case abandon:
		m.applyAbandon(&n, i, q)
	}
	q.stage = answered
	if q.answer == isGranted || q.answer == isRenewed || q.answer == isAskedToStop || q.answer == isEnded {
		q.acked = m.store.counted(m, &n, at, n.site[at].kept != was)
	}
	n.outdate(m.traits, at, &was)
	m.add(n, broken, "the store answers H%d's %s: %s", i+1, q.kind, describe(q))
}

// outdate notes that claims which were decided on what a read showed compare with something else now.
func (s *state) outdate(t traits, at int, was *kept) {
	if !t.twoStep || t.versions {
		return
	}
	is := s.site[at].kept
	if !t.tells {
		is.beat = was.beat
	}
	is.lease.until, was.lease.until = 0, 0
	if is == *was {
		return
	}
	for i := range s.wrappers {
		for k := range s.wrappers[i].requests {
			if q := &s.wrappers[i].requests[k]; q.stage == looked {
				q.stale = true
			}
		}
	}
}

// lookForClaim decides a claim on what the store shows.
func (m *model) lookForClaim(s *state, i int, q *request, fresh bool) (broken string) {
	at := s.siteOf(i)
	v := m.store.view(m, s, at, look{holder(i + 1), claim, q.seen, q.quiet, fresh})
	c := m.claimOf(i, q)
	c.Floor = m.store.floor(&s.site[at].kept).real()
	d := m.decide.claim(v, c)
	m.keepQuiet(&d, fresh)
	q.read, q.server, q.version = s.now, m.serverOf(&s.site[at].server.identity), uint16(s.site[at].version)
	q.next = s.site[at].record
	if d.Changed {
		q.next = m.archive.put(d.Record)
	}
	broken = passesOver(&v, &c, &d)
	if d.Grant != nil {
		g := d.Grant
		q.answer, q.token, q.what, q.attempt = isGranted, tokenOf(g.Token), triggerOf(g.Tick, g.Claim.Once), uint8(g.Attempt)
		return broken
	}
	q.answer = answerOf(d.Refusal.Verdict)
	shown := sign{tokenOf(d.Refusal.Seen.Token), beat(d.Refusal.Seen.Beat)}
	if q.seen != shown {
		q.seen, q.quiet = shown, 0
	}
	if q.answer == isLost {
		broken = cmp.Or(broken, m.mayBeLost(s, i, &v.Record))
	}
	return broken
}

func answerOf(v backends.Verdict) answer {
	switch v {
	case backends.Held:
		return isHeld
	case backends.Quarantined:
		return isQuarantined
	case backends.Vanished:
		return isVanished
	case backends.Abandoned:
		return isAbandoned
	case backends.IsLost, backends.IsStopped:
		return isLost
	}
	return isOver
}

// writeClaim writes what was decided about a claim.
func (m *model) writeClaim(s *state, i int, q *request) {
	at := s.siteOf(i)
	k := &s.site[at].kept
	l := label{q.token, holder(i + 1), m.candidates[i].ttl}
	again := q.answer == isGranted && k.lease.holder == l.holder && k.lease.token == l.token
	if again && m.without.repeatExtends {
		return
	}
	m.remark(s, at, q)
	since := s.now
	if m.traits.versions && !m.traits.beats {
		since = q.read // the time that the row says until when it counts from
	}
	if k.record != q.next || q.answer == isGranted {
		k.record = q.next
		s.wrote(m.traits, k)
		if m.traits.writes && q.seen.token != 0 {
			q.seen.beat = k.beat // what a candidate has written itself is no sign of life
		}
	}
	if q.answer != isGranted {
		return
	}
	s.renewBeat(m.traits, k)
	if again {
		m.store.extend(k, l, since)
		s.recall(q.what)
		return
	}
	m.store.take(k, l, since)
	s.excuse(i, q.what)
}

// wrote notes that the record was written.
func (s *state) wrote(t traits, k *kept) {
	if t.versions {
		k.version++
	}
	if t.writes {
		k.beat = s.freshBeat()
	}
}

// renewBeat gives the record a beat that nobody has seen.
func (s *state) renewBeat(t traits, k *kept) {
	if t.beats {
		k.beat = s.freshBeat()
	}
}

// applyRenew renews the lease of a grant, if it is still the grant's.
func (m *model) applyRenew(s *state, i int, q *request) {
	at := s.siteOf(i)
	l := label{q.token, holder(i + 1), m.candidates[i].ttl}
	v := m.store.view(m, s, at, look{by: l.holder, step: renew})
	k := &s.site[at].kept
	q.answer = isNotYours
	if m.store.foreign(m, k, l) {
		return
	}
	r := m.decide.renew(v, m.grantOf(i, q))
	if r.Lost {
		return
	}
	if !m.without.touches {
		k.record = m.archive.put(r.Record)
		s.wrote(m.traits, k)
	}
	m.store.extend(k, l, instant(v.Now))
	if m.traits.beats && !m.traits.writes && r.Record.Beat != v.Record.Beat {
		s.setBeat(m.traits, k, r.Record.Beat)
	}
	s.recall(q.what)
	q.answer = isRenewed
	if r.Answer.Break != nil {
		q.answer = isAskedToStop
	}
}

// setBeat writes the beat of a renewal. On Consul the record counts it, and one that was lost goes on above the
// milliseconds since 1970, which is above all that anybody has seen; on the others it is a revision.
func (s *state) setBeat(t traits, k *kept, b int64) {
	const counted = 200
	if t.counts && b < counted {
		k.beat = beat(b)
		return
	}
	k.beat = s.freshBeat()
}

func (m *model) applyFinish(s *state, i int, q *request) (broken string) {
	at := s.siteOf(i)
	v := m.store.view(m, s, at, look{by: holder(i + 1), step: finish})
	outcomes := map[outcome]backends.State{done: backends.Done, lost: backends.Lost, stopped: backends.Stopped}
	e := m.decide.finish(v, m.grantOf(i, q), backends.Outcome{State: outcomes[q.outcome]})
	if e.Changed {
		broken = stale(&v, holder(i+1), q.token)
	}
	m.end(s, at, holder(i+1), q, e)
	return broken
}

func (m *model) applyAbandon(s *state, i int, q *request) {
	at := s.siteOf(i)
	v := m.store.view(m, s, at, look{by: holder(i + 1), step: abandon})
	m.end(s, at, holder(i+1), q, m.decide.abandon(v, m.claimOf(i, q)))
}

// end carries out how a run or a claim ends.
func (m *model) end(s *state, at int, h holder, q *request, e backends.EndDecision) {
	k := &s.site[at].kept
	q.answer = isEnded
	if e.Lost {
		q.answer = isNotYours
		return
	}
	if e.Changed {
		k.record = m.archive.put(e.Record)
		s.wrote(m.traits, k)
		s.recall(q.what)
	}
	if e.Release || m.traits.local && k.lease.holder == h && e.Record.Free() {
		m.store.free(k)
	}
}
