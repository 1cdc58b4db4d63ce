package main

import "time"

// tally is what a run of the simulation has shown.
type tally struct {
	watching  bool // after the first leader was found
	elections int  // leaderships that began
	none      time.Duration
	several   time.Duration
	most      int
	unfenced  int // stale writes that a resource took that compares nothing
	fenced    int // stale writes that a resource took that compares tokens; all of them, where there are none to compare
	writes    int
}

// elect notices who has begun to lead.
func (w *world) elect() {
	for _, n := range w.nodes {
		leads := n.takesItselfForLeader()
		if leads && !n.leading {
			w.tally.elections++
			n.number = w.tally.elections
		}
		n.leading = leads
	}
}

func (n *node) takesItselfForLeader() bool {
	if n.down || n.protocol == nil {
		return false
	}
	_, yes := n.protocol.leads()
	return yes
}

// look adds up what was believed for a time. A node that stands still leads nothing.
func (w *world) look(d time.Duration) {
	if !w.tally.watching || d <= 0 {
		return
	}
	leaders := 0
	for _, n := range w.nodes {
		if n.leading && !n.paused {
			leaders++
		}
	}
	switch {
	case leaders == 0:
		w.tally.none += d
	case leaders > 1:
		w.tally.several += d
	}
	w.tally.most = max(w.tally.most, leaders)
}

// resource is what leaders write to. All nodes reach it at any time, as a disk or a bucket that they share.
type resource struct {
	newest int   // the number of the last leadership that has written
	token  int64 // the highest that was seen
}

const (
	pace = 50 * time.Millisecond // of a leader's writes
	step = 40 * time.Millisecond // between the look whether it leads and the write
)

// work is what a leader does: it looks whether it leads, prepares a write, and sends it.
func (n *node) work() {
	n.after(pace, func() {
		if token, yes := n.protocol.leads(); yes {
			number := n.number
			n.after(step, func() { n.write(number, token) })
		}
		n.work()
	})
}

// write arrives at the resource, whatever the network between the nodes is like.
func (n *node) write(number int, token int64) {
	n.at(n.now+time.Millisecond, func() {
		w := n.world
		w.tally.writes++
		stale := number < w.resource.newest
		w.resource.newest = max(w.resource.newest, number)
		if stale {
			w.tally.unfenced++
		}
		if token < w.resource.token {
			return // refused
		}
		w.resource.token = token
		if stale {
			w.tally.fenced++
		}
	})
}
