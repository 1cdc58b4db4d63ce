package main

import (
	"container/heap"
	"math/rand/v2"
	"time"
)

// world is a network of nodes in virtual time. Everything that happens is an event; who sends what, and what breaks when, is
// decided by the seed alone.
type world struct {
	now      time.Duration
	events   events
	order    int
	random   *rand.Rand
	nodes    []*node
	slow     bool  // messages take 30 times as long
	side     []int // of each address, while the network is cut in two; nil: it is whole
	messages map[bool]int
	resource resource
	tally    tally
}

// message is what nodes send each other. What one protocol does not need, it leaves empty.
type message struct {
	kind   string
	upkeep bool  // it would be sent without an election too
	term   int64 // Raft; the token of a lease
	leader int
	ring   []int // those that have seen an election go round
	until  time.Duration
}

// protocol is how nodes find out who leads.
type protocol interface {
	start()
	receive(from int, m message)
	// leads says whether this node takes itself for the leader now, and the number of its leadership that a
	// resource could compare; 0: the protocol has none.
	leads() (token int64, yes bool)
}

// node is a machine with one process.
type node struct {
	*world

	id       int
	protocol protocol
	fresh    func(n *node) protocol
	down     bool
	paused   bool
	life     int      // timers of a former life do not ring
	backlog  []func() // what came while it was paused
	leading  bool     // at the last look
	number   int      // of its leadership, in the order in which they began
}

type event struct {
	at    time.Duration
	order int
	do    func()
}

type events []event

func (e events) Len() int { return len(e) }
func (e events) Less(i, j int) bool {
	return e[i].at < e[j].at || e[i].at == e[j].at && e[i].order < e[j].order
}
func (e events) Swap(i, j int) { e[i], e[j] = e[j], e[i] }
func (e *events) Push(x any) {
	if next, ok := x.(event); ok {
		*e = append(*e, next)
	}
}

func (e *events) Pop() any {
	last := len(*e) - 1
	x := (*e)[last]
	*e = (*e)[:last]
	return x
}

func newWorld(n int, seed uint64, fresh func(n *node) protocol) *world {
	w := &world{random: rand.New(rand.NewPCG(seed, uint64(n))), messages: map[bool]int{}}
	for id := range n {
		w.nodes = append(w.nodes, &node{world: w, id: id, fresh: fresh})
	}
	return w
}

// at does something at an instant.
func (w *world) at(when time.Duration, do func()) {
	w.order++
	heap.Push(&w.events, event{when, w.order, do})
}

// run lets the world go on until an instant. After each event everybody's belief is looked at.
func (w *world) run(until time.Duration) {
	for len(w.events) > 0 && w.events[0].at <= until {
		e := w.events[0]
		heap.Pop(&w.events)
		w.look(e.at - w.now)
		w.now = e.at
		e.do()
		w.elect()
	}
	w.look(until - w.now)
	w.now = until
}

// delay is how long a message is under way.
func (w *world) delay() time.Duration {
	d := time.Millisecond + time.Duration(w.random.Int64N(int64(4*time.Millisecond)))
	if w.slow {
		d *= 30
	}
	return d
}

// carry takes a message from one address to another, unless the network is cut between them when it is sent or when it
// arrives.
func (w *world) carry(from, to int, upkeep bool, deliver func()) {
	w.messages[upkeep]++
	if w.cut(from, to) {
		return
	}
	w.at(w.now+w.delay(), func() {
		if !w.cut(from, to) {
			deliver()
		}
	})
}

func (w *world) cut(a, b int) bool { return len(w.side) > 0 && w.side[a] != w.side[b] }

// send sends a message to another node.
func (n *node) send(to int, m message) {
	n.carry(n.id, to, m.upkeep, func() {
		other := n.nodes[to]
		other.meets(func() { other.protocol.receive(n.id, m) })
	})
}

// broadcast sends a message to all others.
func (n *node) broadcast(m message) {
	for to := range n.nodes {
		if to != n.id {
			n.send(to, m)
		}
	}
}

// after does something later, if the node lives on until then.
func (n *node) after(d time.Duration, do func()) {
	life := n.life
	n.at(n.now+d, func() {
		if n.life == life {
			n.meets(do)
		}
	})
}

// meets does something on the node, or keeps it for later while the node is paused.
func (n *node) meets(do func()) {
	switch {
	case n.down:
	case n.paused:
		n.backlog = append(n.backlog, do)
	default:
		do()
	}
}

// begin starts the node's process.
func (n *node) begin() {
	n.down, n.paused, n.backlog = false, false, nil
	n.life++
	n.protocol = n.fresh(n)
	n.protocol.start()
	n.work()
}

func (n *node) crash() { n.down, n.leading = true, false; n.life++ }

// pause stops the node in the middle of whatever it does; resume lets it go on as if nothing had been.
func (n *node) pause() { n.paused = true }

func (n *node) resume() {
	n.paused = false
	waiting := n.backlog
	n.backlog = nil
	for _, do := range waiting {
		n.meets(do)
	}
}
