package main

import "time"

// raft is the election of Raft without its log (Ongaro and Ousterhout, 2014): a term for each election, one vote of everybody
// in each term, random timeouts. As its dissertation says (6.2, 6.4), a leader whose heartbeats most have not answered for
// an election timeout gives up, and nobody votes who has just heard a leader.
type raft struct {
	*node

	term     int64
	stood    time.Duration // when it last asked for votes
	voted    int           // for whom in this term; -1: nobody
	votes    int
	role     string
	heard    time.Duration
	timeout  time.Duration
	answered []time.Duration // when the last heartbeat was sent that each has answered
}

const shortest = 300 * time.Millisecond // of the election timeouts; the longest is twice that

// What a node must not forget in a crash lies outside of it.
type vote struct {
	term  int64
	voted int
}

func newRaft(disk map[int]*vote) func(n *node) protocol {
	return func(n *node) protocol {
		if disk[n.id] == nil {
			disk[n.id] = &vote{voted: -1}
		}
		r := &persistentRaft{raft: raft{node: n, role: "follower"}, disk: disk[n.id]}
		r.term, r.voted = r.disk.term, r.disk.voted
		return r
	}
}

type persistentRaft struct {
	raft

	disk *vote
}

func (r *persistentRaft) start() {
	r.wait()
	r.look()
}

func (r *persistentRaft) wait() {
	r.heard = r.now
	r.timeout = shortest + time.Duration(r.random.Int64N(int64(shortest)))
}

func (r *persistentRaft) look() {
	r.after(heartbeat/10, func() {
		if r.role != "leader" && r.now-r.heard > r.timeout {
			r.stand()
		}
		r.look()
	})
}

func (r *persistentRaft) enter(term int64, voted int) {
	r.term, r.voted = term, voted
	r.disk.term, r.disk.voted = term, voted
}

// stand asks for everybody's vote in a new term.
func (r *persistentRaft) stand() {
	r.enter(r.term+1, r.id)
	r.role, r.votes, r.stood = "candidate", 1, r.now
	r.wait()
	r.broadcast(message{kind: "vote?", term: r.term})
	r.count()
}

func (r *persistentRaft) count() {
	if r.role == "candidate" && 2*r.votes > len(r.nodes) {
		r.role, r.answered = "leader", make([]time.Duration, len(r.nodes))
		for id := range r.nodes { // who voted hears nobody else for a while, from when it was asked at the earliest
			r.answered[id] = r.stood
		}
		r.beat(r.term)
	}
}

func (r *persistentRaft) beat(term int64) {
	if r.role != "leader" || r.term != term {
		return
	}
	if !r.holds() {
		r.role = "follower"
		r.wait()
		return
	}
	r.broadcast(message{kind: "append", upkeep: true, term: r.term, until: r.now})
	r.after(heartbeat, func() { r.beat(term) })
}

// holds says whether most have answered a heartbeat that was sent less than the shortest timeout ago: until then none of them
// votes for another one.
func (r *persistentRaft) holds() bool {
	recent := 1
	for id, sent := range r.answered {
		if id != r.id && r.now-sent < shortest {
			recent++
		}
	}
	return 2*recent > len(r.nodes)
}

func (r *persistentRaft) receive(from int, m message) {
	if m.kind == "vote?" && r.role == "follower" && r.now-r.heard < shortest && r.voted != -1 {
		return // there is a leader
	}
	if m.term > r.term {
		r.enter(m.term, -1)
		r.role = "follower"
	}
	switch m.kind {
	case "vote?":
		if m.term == r.term && (r.voted == -1 || r.voted == from) {
			r.enter(r.term, from)
			r.wait()
			r.send(from, message{kind: "vote", term: r.term})
		}
	case "vote":
		if m.term == r.term {
			r.votes++
			r.count()
		}
	case "append":
		if m.term == r.term {
			r.role = "follower"
			r.wait()
		}
		r.send(from, message{kind: "appended", upkeep: true, term: r.term, until: m.until})
	case "appended":
		if m.term == r.term && r.role == "leader" {
			r.answered[from] = max(r.answered[from], m.until)
		}
	}
}

func (r *persistentRaft) leads() (int64, bool) { return r.term, r.role == "leader" && r.holds() }
