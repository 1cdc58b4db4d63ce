package main

import "time"

// The lease, as leaderrun keeps it: a store that all reach decides, who leads renews at a third of the time, and stops by
// itself when it could not. The nodes never talk to each other.
const ttl = 600 * time.Millisecond

// store is the server that keeps the lease. It stands at the address behind the last node, and does not break here: a cluster by
// majority, or one that is trusted.
type store struct {
	*world

	holder int // -1: nobody
	token  int64
	until  time.Duration
}

func newStore(w *world) *store { return &store{world: w, holder: -1} }

// claim is one atomic step: the lease for a node, or how long somebody else has it.
func (s *store) claim(id int) message {
	if s.holder != id && s.now < s.until {
		return message{kind: "held", until: s.until - s.now}
	}
	if s.holder != id || s.now >= s.until {
		s.holder, s.token = id, s.token+1
	}
	s.until = s.now + ttl
	return message{kind: "granted", term: s.token}
}

// tenant is a node that holds the lease or stands by.
type tenant struct {
	*node

	store *store
	token int64
	until time.Duration // by its own clock, from before it asked
	asked int           // the number of the last request
}

func newTenant(s func(n *node) *store) func(n *node) protocol {
	return func(n *node) protocol { return &tenant{node: n, store: s(n)} }
}

func (t *tenant) start() { t.ask() }

func (t *tenant) leads() (int64, bool) { return t.token, t.now < t.until }

// ask claims or renews. An answer that does not come is not waited for.
func (t *tenant) ask() {
	t.asked++
	number, at := t.asked, t.now
	server := len(t.nodes)
	_, upkeep := t.leads()
	upkeep = upkeep || t.store.holder != t.id && t.now < t.store.until // only in the count: no election is going on
	t.carry(t.id, server, upkeep, func() {
		answer := t.store.claim(t.id)
		t.carry(server, t.id, upkeep, func() {
			t.meets(func() { t.hear(number, at, answer) })
		})
	})
	t.after(ttl/3, func() {
		if t.asked == number {
			t.ask()
		}
	})
}

func (t *tenant) hear(number int, at time.Duration, m message) {
	if number != t.asked {
		return
	}
	wait := ttl / 3
	if m.kind == "granted" {
		t.token, t.until = m.term, at+ttl
	} else {
		wait = m.until + time.Duration(t.random.Int64N(int64(20*time.Millisecond)))
	}
	t.asked++ // the timer of the request is over
	number = t.asked
	t.after(wait, func() {
		if t.asked == number {
			t.ask()
		}
	})
}

func (t *tenant) receive(int, message) {}
