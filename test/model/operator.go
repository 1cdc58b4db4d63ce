package model

import "github.com/leaderrun/leaderrun/backends"

// interfere is what an operator does: they look, order, and their order arrives, perhaps twice, or never.
func (m *model) interfere(s *state) {
	if s.order.left > 0 {
		n := *s
		n.order.left--
		n.tidyOrder()
		m.add(n, "", "the operator's order is lost")
		m.carryOut(s)
		return
	}
	if s.faults[orders] == 0 {
		return
	}
	r := m.archive.get(s.site[0].record)
	for _, kind := range m.orders {
		t := max(tokenOf(r.Token), s.site[0].lease.token)
		if t == 0 && kind != forgetJob || kind == declareDead && !m.isDead(s) {
			continue
		}
		n := *s
		n.faults[orders]--
		n.order = order{kind: kind, token: t, left: 2}
		m.add(n, "", "the operator orders: %s (token %d)", kind, t)
	}
}

// isDead says whether the operator may answer for the death of the holder.
func (m *model) isDead(s *state) bool {
	r := m.archive.get(s.site[0].record)
	h := s.site[0].lease.holder
	if h == 0 {
		h = named(r.Holder.ID)
	}
	return h > 0 && h <= maxWrappers && s.wrappers[h-1].phase == gone
}

// pardon begins the count of what an operator wants to run again anew. The order is refused as long as a grant from
// before may still start it; but an end from before may still arrive.
func (s *state) pardon(kind orderKind, tick trigger) {
	for i := range s.past {
		what := trigger(i)
		if kind != forgetJob && (kind != forgetTick || what != tick) {
			continue
		}
		s.past[what] = past{}
		for k := range s.wrappers {
			if w := &s.wrappers[k]; w.what == what {
				w.amnesiac = true
			}
		}
	}
}

func (s *state) tidyOrder() {
	if s.order.left == 0 {
		s.order = order{}
	}
}

// carryOut lets the order reach the store.
func (m *model) carryOut(s *state) {
	for _, fresh := range m.clocks() {
		m.carryOutOnce(s, fresh)
	}
}

func (m *model) carryOutOnce(s *state, fresh bool) {
	n := *s
	n.order.left--
	id := operator + holder(n.faults[orders])
	v := m.store.view(m, &n, 0, look{by: id, step: operate, fresh: fresh})
	o := backends.Order{
		Job: job, Kind: s.order.kind.real(), By: holderOf(id), Token: s.order.token.real(), Tick: v.Record.Tick.Tick,
	}
	a := m.decide.order(v, o)
	k := &n.site[0].kept
	was := *k
	said := "nothing to do"
	if a.Err != nil {
		said = a.Err.Error()
	}
	if a.Changed {
		said = "done"
		k.record = m.archive.put(a.Record)
		n.wrote(m.traits, k)
		if a.Record.Beat != v.Record.Beat {
			n.renewBeat(m.traits, k)
		}
		if a.Release {
			m.store.free(k)
		}
		n.pardon(s.order.kind, triggerOf(v.Record.Tick.Tick, ""))
	}
	n.tidyOrder()
	n.outdate(m.traits, 0, &was)
	m.add(n, "", "the store answers the operator's order: %s", said)
}

func (k orderKind) real() backends.OrderKind {
	switch k {
	case askToStop:
		return backends.Stop
	case revoke:
		return backends.Revoke
	case declareDead:
		return backends.ForceRelease
	case forgetJob:
		return backends.ForgetJob
	case forgetTick:
		return backends.ForgetTick
	}
	return ""
}
