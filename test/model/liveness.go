package model

import (
	"cmp"
	"fmt"

	"github.com/leaderrun/leaderrun/backends"
)

// question is what the answer of liveness depends on.
type question struct {
	now  moment
	site site
}

// starved asks whether a healthy candidate that comes now would be granted in time, if all others fell silent and all
// requests were answered at once. It claims once a unit, a tick later than all others' where there are ticks. One that
// is granted the unfinished tick of somebody else is granted.
func (m *model) starved(s *state) string {
	if m.traits.local && m.heldByWreck(s) {
		return "" // nobody may be granted as long as the child lives
	}
	ask := question{now: s.now, site: s.site[0]}
	broken, known := m.granted[ask]
	if !known {
		for _, fresh := range m.clocks() {
			broken = cmp.Or(broken, m.newcomerStarves(s, fresh))
		}
		m.granted[ask] = broken
	}
	return broken
}

func (m *model) heldByWreck(s *state) bool {
	h := s.site[0].lease.holder
	return h > 0 && h <= maxWrappers && s.wrappers[h-1].wrecked
}

// fresh: clocks say for two TTLs that the holder has just renewed. Its last renewal seems younger than a TTL, and not
// further ahead than one, for no longer than that.
func (m *model) newcomerStarves(was *state, fresh bool) string {
	s := *was
	c := m.candidates[0]
	claim := backends.Claim{Job: job, Holder: holderOf(newcomer), TTL: length(c.ttl), Trigger: c.trigger()}
	switch {
	case c.what == theKey:
		claim.Once = "another"
	case c.what != 0:
		claim.Tick = lastTick.tick()
	}
	if m.traits.local {
		s.site[0].lease = lease{} // the silent ones are dead, or their guardians have killed and unlocked
	}
	var seenAt moment
	first, last := s.now, s.now+m.bound()
	for ; s.now <= last; s.now++ {
		if m.often {
			claim.Tick++
		}
		m.store.pass(&s.site[0].kept, s.now)
		if claim.Seen.Token != 0 {
			claim.Seen.For = length(s.now - seenAt)
		}
		r := m.ask(&s, claim, fresh && s.now < first+2*m.longestTTL())
		if r == nil {
			return ""
		}
		switch answerOf(r.Verdict) {
		case isHeld, isVanished:
			if r.Seen.Token != claim.Seen.Token || r.Seen.Beat != claim.Seen.Beat {
				claim.Seen, seenAt = r.Seen, s.now
			}
		case isQuarantined:
		default:
			return fmt.Sprintf("%s: it is refused for good, as %s", neverGranted, r.Verdict)
		}
	}
	return neverGranted
}

// bound is how long a healthy candidate may have to wait: a lease or quarantine may have to run out, and then a silence
// to be watched. A session lasts for two TTLs, and so may clocks say that a holder lives.
func (m *model) bound() moment {
	b := 2*m.longestTTL() + 2
	if m.traits.tells {
		b += m.longestTTL()
	}
	return b
}

// ask makes one claim at the store and writes what it changes. It returns nil for a grant.
func (m *model) ask(s *state, c backends.Claim, fresh bool) *backends.Refusal {
	k := &s.site[0].kept
	seen := sign{tokenOf(c.Seen.Token), beat(c.Seen.Beat)}
	v := m.store.view(m, s, 0, look{newcomer, claim, seen, units(c.Seen.For), fresh})
	c.Floor = m.store.floor(k).real()
	d := m.decide.claim(v, c)
	m.keepQuiet(&d, fresh)
	m.remark(s, 0, &request{read: s.now})
	if d.Changed {
		k.record = m.archive.put(d.Record)
		s.wrote(m.traits, k)
		if m.traits.writes && d.Refusal != nil && !m.without.quietNotes { // else it is the note of another candidate
			d.Refusal.Seen.Beat = int64(k.beat)
		}
	}
	return d.Refusal
}
