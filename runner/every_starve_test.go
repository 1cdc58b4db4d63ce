package runner

import (
	"time"

	"github.com/leaderrun/leaderrun/backends"
)

// starved says whether a host that comes to a world would not start its command in time, if all others fell silent and nothing failed. It
// comes for a trigger of its own, if they come for any. One that is granted the unfinished tick of somebody else is granted.
func (e *explorer) starved(w *orders) string {
	if !e.starves {
		return ""
	}
	n := w.clone()
	n.faults, n.exits, n.split, n.copied, n.trace = 0, 0, false, replica{}, nil
	n.op.requests, n.past, n.order = nil, [triggers]past{}, backends.Order{}
	for i := range n.procs {
		p := &n.procs[i]
		if e.proof == backends.ByRelease {
			if p.tree.alive && p.dead && p.tree.orphan {
				return "" // nobody may be granted as long as the command lives
			}
			n.unlock(p)
		}
		*p = process{begins: never, tree: orderTree{dieBy: never}}
	}
	ask := e.key(n)
	broken, known := e.fed[ask]
	if !known {
		started := e.started
		broken = n.starve()
		e.started = started
		e.fed[ask] = broken
	}
	return broken
}

// starve has a host come, and others after it if they come often.
func (w *orders) starve() string {
	const apart, slack = 3 * time.Second, 500 * time.Millisecond
	w.end = w.now.Add(2*w.e.longest + slack)
	if w.e.labels { // a session may have to end before its silence is seen
		w.end = w.end.Add(w.e.longest)
	}
	w.comes(0, w.now)
	for i := 1; w.e.often && i < hosts; i++ {
		w.comes(i, w.now.Add(apart*time.Duration(i)))
	}
	for w.wrong == "" {
		for i := range w.procs {
			if w.procs[i].tree.alive {
				return ""
			}
		}
		all := w.moves()
		if len(all) == 0 {
			return "starves: nobody who comes is granted in time"
		}
		w.do(all[0])
	}
	return w.wrong
}

func (w *orders) comes(i int, at Instant) {
	p := &w.procs[i]
	p.m, p.begins = w.e.newHost(hosts+i), at
	p.m.request.Trigger = later(p.m.request.Trigger, i)
	p.m.claim.Trigger = p.m.request.Trigger
}

// later is a trigger that nobody came for before.
func later(t backends.Trigger, by int) backends.Trigger {
	switch {
	case t.Tick != 0:
		t.Tick = firstTick + int64(triggers+by)
	case t.Once != "":
		t.Once = "another"
	}
	return t
}
