package history

import "github.com/leaderrun/leaderrun/backends"

// occurrence is a tick and what became of it.
type occurrence struct {
	tick     int64
	parts    int // into how many its work is divided
	state    backends.State
	claimant int
	policy   backends.Policy
	attempt  int
	most     int
}

// start says whether a claim may start the tick (again), and which attempt that is.
func (o occurrence) start(q request) (attempt int, may bool) {
	switch {
	case o.state == backends.Open:
		return o.attempt + 1, true
	case !o.unfinished():
		return 0, false
	case o.state == backends.Claimed && o.claimant == q.holder:
		return o.attempt, true // it lost the reply, and then the lease
	}
	return o.attempt + 1, o.policy == backends.Rerun && q.policy == backends.Rerun && o.attempt < o.most
}

func (o occurrence) unfinished() bool {
	return o.state == backends.Claimed || o.state == backends.Lost || o.state == backends.Stopped
}

// settled is the tick when its run has ended. An attempt that was never started does not count.
func (o occurrence) settled(s backends.State) occurrence {
	o.state = s
	if s == backends.Open {
		o.attempt--
		if o.attempt > 0 {
			o.state = backends.Lost
		}
	}
	return o
}

// due returns the tick that a claim is to be granted, if any is: the one it is for, or an earlier one that nobody
// has finished.
func (l lease) due(q request) (tick int64, attempt int, may bool) {
	attempt, may = l.tick.start(q)
	switch {
	case q.tick == 0:
		return 0, 1, true
	case q.tick < l.tick.tick:
		return 0, 0, false
	case l.otherwiseDivided(q):
		return 0, 0, false
	case q.tick == l.tick.tick || may && l.tick.unfinished():
		return l.tick.tick, attempt, may
	}
	return q.tick, 1, true
}

// otherwiseDivided says whether a claim believes in another number of parts than that with which the tick was begun that it would be
// granted: part 1 of 2 and part 1 of 3 are not the same work.
func (l lease) otherwiseDivided(q request) bool {
	_, may := l.tick.start(q)
	return q.parts != l.tick.parts && (q.tick == l.tick.tick || q.tick > l.tick.tick && may && l.tick.unfinished())
}

// closed judges the refusal of a tick that has an end.
func (l lease) closed(q request, r reply) (lease, bool) {
	switch {
	case q.tick != 0 && l.otherwiseDivided(q):
		return l, r.verdict == backends.Divided && r.parts == l.tick.parts
	case q.tick == 0 || q.tick > l.tick.tick:
		return l, false
	case q.tick < l.tick.tick:
		switch r.verdict {
		case backends.IsDone, backends.IsFailed, backends.IsStopped, backends.IsLost, backends.IsMissed, backends.IsEarlier:
			return l, true
		}
		return l, false
	}
	if _, may := l.tick.start(q); may {
		return l, false
	}
	if l.tick.state == backends.Claimed { // its holder vanished
		l.tick.state = backends.Lost
	}
	return l, r.verdict == backends.Verdict(l.tick.state)
}
