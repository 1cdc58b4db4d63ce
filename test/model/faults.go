package model

// fault is what may befall the store or a host. A variant says how often each may happen.
type fault uint8

const (
	deleteLease  fault = iota // by an operator; on Consul the session is destroyed
	deleteRecord              // by an operator
	deleteBoth                // by an operator
	removeLock                // the lock file, by an operator
	flush                     // FLUSHALL
	restart                   // with all data
	restartEmpty              // with none
	restartOld                // with what the last dump or snapshot of its disk had
	restoreOld                // with what the last backup had, in a new history
	putBack                   // by an operator: an older copy of the object
	failover                  // to the laggiest replica
	partition                 // and a failover beyond it
	attach                    // a replica
	evictLease                // the server is short of memory
	evictRecord               // likewise
	evictMark                 // likewise
	anotherJob                // is claimed: it shares the mark
	crash                     // of a wrapper's host
	wreck                     // wrapper and guardian are killed together, the child lives
	orders                    // an operator gives an order
	faultCount
)

// budget says how often each fault may still happen. Its length is a multiple of 4: a state has no gaps.
type budget [(faultCount + 3) / 4 * 4]uint8

// fail lets a fault happen.
func (m *model) fail(s *state) {
	for f := range orders {
		if s.faults[f] == 0 {
			continue
		}
		if f == crash || f == wreck {
			m.failHosts(s, f)
			continue
		}
		n := *s
		n.faults[f]--
		was := n.site[0].kept
		if !m.befall(&n, f) {
			continue
		}
		if m.traits.object && n.site[0].record != 0 && f != restartOld && (f != putBack || !m.without.neverAgain) {
			n.site[0].beat = n.freshBeat()
		}
		n.outdate(m.traits, 0, &was)
		m.add(n, "", "** %s", f)
	}
}

// befall changes the store. It returns false where the fault would change nothing.
func (m *model) befall(s *state, f fault) bool {
	site := &s.site[0]
	if f.forgets() && m.grantedNow(s) {
		return false
	}
	switch f {
	case deleteLease, evictLease:
		if site.lease.holder == 0 {
			return false
		}
		site.lease = lease{}
	case deleteRecord, evictRecord:
		if site.record == 0 {
			return false
		}
		site.record, site.beat = 0, 0
		m.loseRecord(s)
	case deleteBoth:
		site.kept = kept{mark: site.mark}
		m.loseRecord(s)
	case removeLock:
		site.lease, site.label = lease{}, label{}
	case putBack:
		beat := site.beat
		site.kept = s.replica
		if !m.without.neverAgain {
			site.beat = beat
		}
		m.loseRecord(s)
	case evictMark:
		site.mark = mark{}
	case anotherJob:
		is, _ := m.admit(site.mark, site.server, m.other, s.now, false)
		if is == site.mark {
			return false
		}
		site.mark = is
	default:
		return m.befallServer(s, f)
	}
	if f == evictLease || f == evictRecord || f == evictMark {
		site.server.evicted++
	}
	return true
}

// forgets says whether a fault loses tokens.
func (f fault) forgets() bool {
	switch f {
	case deleteRecord, evictRecord, deleteBoth, flush, restartEmpty, restartOld, restoreOld, putBack:
		return true
	}
	return false
}

// grantedNow says whether a token was granted in this unit. Tokens follow the clock, so that one which comes after a
// loss is above those from before if it comes a millisecond later, and a unit has only one. So what loses tokens
// comes before what grants some, in the units where both happen.
func (m *model) grantedNow(s *state) bool {
	k := &s.site[0].kept
	last := max(s.highest, tokenOf(m.archive.get(k.record).Token), k.lease.token, k.label.token)
	return last >= tokenOf(ms(s.now))
}

// befallServer changes which server it is, or what it knows.
func (m *model) befallServer(s *state, f fault) bool {
	site := &s.site[0]
	switch f {
	case flush:
		site.kept, site.server.flushed = kept{}, true
		m.loseRecord(s)
	case restart, restartEmpty, restartOld, restoreOld:
		site.server = server{
			identity: m.restarted(site.server.identity, f), started: s.now, replicas: site.server.replicas,
			noticed: site.server.noticed,
		}
		switch f {
		case restartEmpty:
			site.kept = kept{}
			m.loseRecord(s)
		case restartOld, restoreOld:
			site.kept = s.replica
			m.loseRecord(s)
		}
	case failover, partition:
		if !m.mayPromote(site) {
			return false
		}
		m.promote(s, f == partition)
	case attach:
		site.server.replicas++
		site.server.noticed = false
		s.replica = site.kept
	}
	return true
}

// restarted is which server it is after a restart. PostgreSQL begins a new timeline only when it recovers from an
// archive; a directory that was made anew is another system, on its first one.
func (m *model) restarted(id identity, f fault) identity {
	id.run += 2
	switch {
	case !m.traits.timelines || f == restoreOld:
		id.history++
	case f == restartEmpty:
		id.history += system
	}
	return id
}

// mayPromote: a replica that was attached is promoted only after some step has noticed it.
func (m *model) mayPromote(site *site) bool {
	return site.server.replicas > 0 && (site.server.noticed || m.unnoticed)
}

// promote makes the replica the master. In a partition the old one goes on for wrapper 1.
func (m *model) promote(s *state, split bool) {
	s.acknowledge(pending, never)
	if split {
		s.split, s.site[1] = true, s.site[0]
		s.site[1].server.replicas = m.isolated
	}
	site := &s.site[0]
	site.kept = s.replica
	site.server.identity = identity{site.server.identity.run ^ 1, site.server.identity.history + 1}
	site.server.promoted, site.server.flushed, site.server.started = true, false, 0
	if split {
		site.server.replicas = m.replicas - min(m.replicas, 1+m.isolated)
	}
}

// loseRecord notes that the store has forgotten what was run.
func (m *model) loseRecord(s *state) {
	if !m.strict {
		s.forget()
	}
}

// failHosts lets a host crash, or wrapper and guardian be killed together.
func (m *model) failHosts(s *state, f fault) {
	for i := range m.candidates {
		w := &s.wrappers[i]
		if w.phase == gone || w.wrecked || f == wreck && !w.alive {
			continue
		}
		n := *s
		n.faults[f]--
		v := &n.wrappers[i]
		locked := m.traits.local && n.site[0].lease.holder == holder(i+1)
		switch f {
		case crash:
			v.alive, v.phase = false, gone
			if locked {
				n.site[0].lease = lease{}
			}
		case wreck:
			v.wrecked = true // it has inherited the lock, where there is one
		}
		m.add(n, "", "** %s H%d", f, i+1)
	}
}
