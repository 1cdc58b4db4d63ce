package model

import (
	"strconv"
	"time"

	"github.com/leaderrun/leaderrun/backends"
)

// admit asks the real mark.
func (m *model) admit(old mark, srv server, longest, now moment, hasRecord bool) (mark, time.Duration) {
	store, ok := m.store.(forgetful)
	if !ok {
		return old, 0
	}
	was := backends.Mark{
		Identity: store.named(m, old.identity), Replicas: int(old.replicas), Longest: length(old.longest).Milliseconds(),
		Evicted: int64(old.evicted),
	}
	if old.until != 0 {
		was.Until = ms(old.until)
	}
	self := store.self(m, old, srv, hasRecord)
	is, wait := m.decide.admit(was, self, length(longest), ms(now), hasRecord)
	next := mark{
		identity: old.identity, replicas: uint8(is.Replicas), longest: units(time.Duration(is.Longest) * time.Millisecond),
		evicted: uint8(is.Evicted),
	}
	if is.Identity == self.Identity {
		next.identity = srv.identity
	}
	if wait > 0 {
		next.until = now + units(wait)
	}
	return next, wait
}

// String is the identity as a mark writes it.
func (i identity) String() string {
	if i == (identity{}) {
		return ""
	}
	return strconv.Itoa(int(i.run)) + ":" + strconv.Itoa(int(i.history))
}
