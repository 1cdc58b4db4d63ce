package main

import "slices"

// ring sends the election round: everybody adds itself, and who called it reads who is the highest (LeLann 1977; in the form of
// Tanenbaum, "Distributed Systems"). Who does not acknowledge is left out.
type ring struct {
	follower

	calling bool
	acks    map[string]int // by what was sent, how many acknowledgements came
}

func newRing(n *node) protocol {
	r := &ring{follower: follower{node: n, leader: -1}, acks: map[string]int{}}
	r.elect = r.call
	return r
}

func (r *ring) start() {
	r.call()
	r.watch()
}

func (r *ring) call() {
	r.calling, r.leader = true, -1
	r.pass(1, message{kind: "election", ring: []int{r.id}})
	r.after(silence, func() { r.calling = false }) // it was lost with somebody on its way
}

// pass sends a message to the next one of the ring that acknowledges, beginning some places on.
func (r *ring) pass(skip int, m message) {
	if skip == len(r.nodes) { // nobody else is there
		r.receive(r.id, m)
		return
	}
	to := (r.id + skip) % len(r.nodes)
	before := r.acks[m.kind]
	r.send(to, m)
	r.after(patience, func() {
		if r.acks[m.kind] == before {
			r.pass(skip+1, m)
		}
	})
}

func (r *ring) receive(from int, m message) {
	switch m.kind {
	case "election", "coordinator":
		if from != r.id {
			r.send(from, message{kind: "ack of " + m.kind})
		}
		r.goRound(m)
	case "ack of election":
		r.acks["election"]++
	case "ack of coordinator":
		r.acks["coordinator"]++
	case "alive":
		if r.leader == r.id && from < r.id { // two lead, and the higher one stays
			return
		}
		r.leader, r.heard = from, r.now
	}
}

func (r *ring) goRound(m message) {
	seen := slices.Contains(m.ring, r.id)
	switch {
	case m.kind == "election" && !seen:
		r.heard = r.now
		r.pass(1, message{kind: "election", ring: append(slices.Clone(m.ring), r.id)})
	case m.kind == "election": // it has been everywhere
		r.calling = false
		highest := slices.Max(m.ring)
		r.accept(highest)
		r.pass(1, message{kind: "coordinator", leader: highest, ring: []int{r.id}})
	case !seen:
		r.accept(m.leader)
		r.pass(1, message{kind: "coordinator", leader: m.leader, ring: append(slices.Clone(m.ring), r.id)})
	}
}

func (r *ring) accept(leader int) { r.leader, r.heard = leader, r.now }
