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
		broken = m.lookForClaim(&n, i, q)
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
	if !t.twoStep {
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

// claimInSteps is a claim at a store with compare-and-swap: it reads, decides, and writes if nothing has changed.
func (m *model) claimInSteps(s *state, i, k int) {
	n := *s
	q := &n.wrappers[i].requests[k]
	was := n.site[0].kept
	switch {
	case q.stage == underway:
		broken := m.lookForClaim(&n, i, q)
		q.stage = looked
		if q.next == n.site[0].record && q.answer != isGranted { // it has nothing to write
			q.stage = answered
		}
		m.add(n, broken, "H%d's claim reads what there is: %s", i+1, describe(q))
	case q.stale && !m.without.compare:
		*q = request{kind: claim, stage: underway, sent: q.sent, quiet: q.quiet, seen: s.wrappers[i].seen}
		m.add(n, "", "H%d's claim finds that something has changed", i+1)
	default:
		m.writeClaim(&n, i, q)
		q.stage = answered
		n.outdate(m.traits, 0, &was)
		m.add(n, "", "H%d's claim writes: %s", i+1, describe(q))
	}
}

// lookForClaim decides a claim on what the store shows.
func (m *model) lookForClaim(s *state, i int, q *request) (broken string) {
	at := s.siteOf(i)
	v := m.store.view(m, s, at, holder(i+1), claim)
	c := m.claimOf(i, q)
	c.Floor = m.store.floor(&s.site[at].kept).real()
	d := m.decide.claim(v, c)
	q.next = s.site[at].record
	if d.Changed {
		q.next = m.archive.put(d.Record)
	}
	broken = passesOver(&v, &c, &d)
	if d.Grant != nil {
		g := d.Grant
		q.answer, q.token, q.what, q.attempt = isGranted, tokenOf(g.Token), occasionOf(g.Tick, g.Claim.Once), uint8(g.Attempt)
		return broken
	}
	q.answer = answerOf(d.Refusal.Verdict)
	q.seen = sign{tokenOf(d.Refusal.Seen.Token), beat(d.Refusal.Seen.Beat)}
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
	k.record = q.next
	if q.answer != isGranted {
		return
	}
	s.renewBeat(m.traits, k)
	if again {
		m.store.extend(k, l, s.now)
		s.recall(q.what)
		return
	}
	m.store.take(k, l, s.now)
	s.excuse(i, q.what)
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
	v := m.store.view(m, s, at, l.holder, renew)
	k := &s.site[at].kept
	q.answer = isNotYours
	if m.store.foreign(m, k, l) {
		return
	}
	r := m.decide.renew(v, m.grantOf(i, q))
	if r.Lost {
		return
	}
	k.record = m.archive.put(r.Record)
	m.store.extend(k, l, s.now)
	if m.traits.beats && r.Record.Beat != v.Record.Beat {
		s.setBeat(m.traits, k, r.Record.Beat)
	}
	s.recall(q.what)
	q.answer = isRenewed
	if r.Signal.Break != nil {
		q.answer = isAskedToStop
	}
}

// setBeat writes the beat of a renewal. On Consul the record counts it, and one that was lost goes on above the
// milliseconds since 1970, which is above all that anybody has seen; on etcd it is a revision.
func (s *state) setBeat(t traits, k *kept, b int64) {
	const counted = 200
	if t.tells && b < counted {
		k.beat = beat(b)
		return
	}
	k.beat = s.freshBeat()
}

func (m *model) applyFinish(s *state, i int, q *request) (broken string) {
	at := s.siteOf(i)
	v := m.store.view(m, s, at, holder(i+1), finish)
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
	v := m.store.view(m, s, at, holder(i+1), abandon)
	m.end(s, at, holder(i+1), q, m.decide.abandon(v, m.claimOf(i, q)))
}

// end carries out how a run or a claim ends.
func (m *model) end(s *state, at int, h holder, q *request, e backends.Ending) {
	k := &s.site[at].kept
	q.answer = isEnded
	if e.Lost {
		q.answer = isNotYours
		return
	}
	if e.Changed {
		k.record = m.archive.put(e.Record)
		s.recall(q.what)
	}
	if e.Release || m.traits.local && k.lease.holder == h && e.Record.Free() {
		m.store.free(k)
	}
}
