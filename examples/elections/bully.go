package main

import "time"

const (
	heartbeat = 100 * time.Millisecond
	silence   = 500 * time.Millisecond // without a heartbeat, the leader is taken for dead
	patience  = 50 * time.Millisecond  // for an answer
)

// follower is what the classic elections have in common: the leader tells all that it lives, and who hears nothing calls an
// election.
type follower struct {
	*node

	leader int // -1: unknown
	heard  time.Duration
	elect  func()
}

func (f *follower) watch() {
	f.heard = f.now
	f.look()
}

func (f *follower) look() {
	f.after(heartbeat, func() {
		if f.leader == f.id {
			f.broadcast(message{kind: "alive", upkeep: true})
		} else if f.now-f.heard > silence {
			f.heard = f.now
			f.elect()
		}
		f.look()
	})
}

// leads has no number: nothing in these elections grows.
func (f *follower) leads() (int64, bool) { return 0, f.leader == f.id }

// bully elects the highest number that answers (Garcia-Molina, "Elections in a Distributed Computing System", 1982).
type bully struct {
	follower

	round    int // of the election that goes on
	calling  bool
	answered bool
}

func newBully(n *node) protocol {
	b := &bully{follower: follower{node: n, leader: -1}}
	b.elect = b.call
	return b
}

func (b *bully) start() {
	b.call()
	b.watch()
}

// call asks everybody with a higher number. If nobody answers, this node leads.
func (b *bully) call() {
	b.round++
	round := b.round
	b.calling, b.answered, b.leader = true, false, -1
	for id := b.id + 1; id < len(b.nodes); id++ {
		b.send(id, message{kind: "election"})
	}
	b.after(patience, func() {
		if round == b.round && b.calling && !b.answered {
			b.win()
		}
	})
	b.after(silence, func() { // who answered has died since
		if round == b.round && b.calling {
			b.call()
		}
	})
}

func (b *bully) win() {
	b.calling, b.leader = false, b.id
	b.broadcast(message{kind: "coordinator"})
}

func (b *bully) receive(from int, m message) {
	switch m.kind {
	case "election":
		b.send(from, message{kind: "answer"})
		if b.leader == b.id {
			b.send(from, message{kind: "coordinator"})
		} else if !b.calling {
			b.call()
		}
	case "answer":
		b.answered = true
	case "coordinator":
		if from < b.id {
			if b.leader == b.id {
				b.win()
			} else if !b.calling {
				b.call()
			}
			return
		}
		b.calling, b.leader, b.heard = false, from, b.now
	case "alive":
		if from < b.id {
			if !b.calling {
				b.call()
			}
			return
		}
		b.leader, b.heard, b.calling = from, b.now, false
	}
}
