package main

import "time"

// algorithm is one way to find a leader.
type algorithm struct {
	name   string
	tokens bool // it has a number that grows with each leadership
	world  func(n int, seed uint64) *world
}

var algorithms = []algorithm{
	{"Bully", false, func(n int, seed uint64) *world { return newWorld(n, seed, newBully) }},
	{"Ring", false, func(n int, seed uint64) *world { return newWorld(n, seed, newRing) }},
	{"Raft's terms", true, func(n int, seed uint64) *world { return newWorld(n, seed, newRaft(map[int]*vote{})) }},
	{"lease", true, func(n int, seed uint64) *world {
		var s *store
		w := newWorld(n, seed, newTenant(func(n *node) *store {
			if s == nil {
				s = newStore(n.world)
			}
			return s
		}))
		return w
	}},
}

// trouble is what happens to the leader ten seconds after the start, and what ends it ten seconds later.
type trouble struct {
	name       string
	begin, end func(w *world, leader *node)
}

const (
	quiet  = 10 * time.Second // before it, and after it
	length = 10 * time.Second
)

var troubles = []trouble{
	{"crash", func(_ *world, l *node) { l.crash() }, func(_ *world, l *node) { l.begin() }},
	{"pause", func(_ *world, l *node) { l.pause() }, func(_ *world, l *node) { l.resume() }},
	{"slow network", func(w *world, _ *node) { w.slow = true }, func(w *world, _ *node) { w.slow = false }},
	{"partition", cutOff, func(w *world, _ *node) { w.side = nil }},
}

// cutOff cuts the network in two. The leader is in the smaller part; the store of the leases is in the larger one.
func cutOff(w *world, leader *node) {
	n := len(w.nodes)
	w.side = make([]int, n+1)
	w.side[leader.id] = 1
	for i := 1; i < (n-1)/2; i++ {
		w.side[(leader.id+i)%n] = 1
	}
}

// outcome is a run with one trouble.
type outcome struct {
	tally

	calls int     // messages that only elections send
	rate  float64 // messages of all kinds a second, while nothing happens
}

// simulate lets n nodes find a leader, work in peace, meet a trouble and recover from it.
func simulate(a algorithm, t trouble, n int, seed uint64) outcome {
	w := a.world(n, seed)
	for _, node := range w.nodes {
		node.begin()
	}
	w.run(quiet / 2)
	w.tally = tally{watching: true, elections: w.tally.elections}
	before, begun := w.messages[true]+w.messages[false], w.now
	w.run(quiet)
	rate := float64(w.messages[true]+w.messages[false]-before) / (w.now - begun).Seconds()

	leader := w.leader()
	elections, calls := w.tally.elections, w.messages[false]
	// A moment in which a write is being prepared: what a pause comes in between.
	w.run(w.now + time.Duration(w.random.Int64N(int64(pace))))
	t.begin(w, leader)
	w.run(w.now + length)
	t.end(w, leader)
	w.run(w.now + quiet)
	o := outcome{tally: w.tally, calls: w.messages[false] - calls, rate: rate}
	o.elections -= elections
	return o
}

// leader is the node that leads in peace; of two, the one that a write would come from last.
func (w *world) leader() *node {
	for _, n := range w.nodes {
		if n.leading {
			return n
		}
	}
	return w.nodes[0]
}
