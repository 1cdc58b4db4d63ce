package runner

import (
	"cmp"
	"fmt"
	"syscall"

	"github.com/leaderrun/leaderrun/backends"
	"github.com/leaderrun/leaderrun/internal/lifeline"
)

// move is one step from a world to the next: what happens, to whom, and to which of its requests.
type move struct {
	what moveKind
	i, k int
}

// moveKind is what happens.
type moveKind int

// Up to begins they are prompt, unless something has made them late. From lateCall on each costs a fault.
const (
	serves    moveKind = iota // the store carries a call out
	arrives                   // a reply arrives
	givesUp                   // a request ends with its time
	hears                     // a process hears what has waited for it
	wakes                     // a machine is woken
	idles                     // nothing waits
	isReady                   // all is ready for the start
	starts                    // the guardian starts the command
	guards                    // the guardian obeys its deadline
	dies                      // the tree is dead
	looks                     // a watch tells
	begins                    // a process begins
	exits                     // the command ends
	passes                    // time passes
	continues                 // SIGCONT
	lateCall
	lateReply
	lateStart
	slowDeath
	cutOff         // nothing that the host sends arrives any more
	stops          // SIGSTOP to the wrapper
	killed         // SIGKILL to the wrapper
	wrecked        // SIGKILL to wrapper and guardian together
	unguarded      // SIGKILL to the guardian
	crashes        // the host
	signalled      // SIGTERM to the wrapper
	losesLease     // somebody deletes it, or a session ends early
	losesRecord    // somebody deletes it
	losesMark      // likewise
	wiped          // the store forgets all
	stays          // a replica lags from now on, or a copy is made
	catchesUp      // the replica
	promoted       // the replica
	parted         // it is, and H1 goes on with the old master
	restarted      // with all data
	restartedEmpty // with none
	restartedOld   // with the copy
	restoredOld    // likewise, in a new history
	putBack        // the copy, by an operator
	attached       // a replica is
	otherJob       // is claimed, which shares the mark
	ordersStop     // an operator asks the holder to stop
	ordersRevoke   // takes the lease away
	ordersDead     // answers for the death of the holder
	ordersForget   // forgets the job
	ordersRerun    // forgets the tick
	ordersAgain    // orders the same again
	moveKindCount  // how many there are
)

var moveTexts = [moveKindCount]string{
	"the store hears %s", "a reply reaches %s", "%s gives a request up", "%s hears what waited", "%s wakes", "%s is idle",
	"%s is ready", "%s's guardian starts the command", "%s's guardian obeys its deadline", "%s's tree is dead", "%s's watch tells",
	"%s begins", "%s's command ends", "time passes", "%s goes on (SIGCONT)", "** a call of %s is late",
	"** the reply to %s is late", "** %s's start is late", "** %s's tree dies slowly", "** %s's network fails", "** %s is stopped (SIGSTOP)",
	"** %s's wrapper is killed", "** %s's wrapper and guardian are killed together", "** %s's guardian is killed", "** %s's host crashes",
	"** SIGTERM to %s", "** the lease vanishes", "** the record vanishes", "** the mark vanishes", "** the store forgets all",
	"** the copy stays as it is", "** the replica has caught up", "** the replica is promoted", "** the replica is promoted, and H1 goes on with the old master",
	"** the server restarts with its data", "** the server restarts empty", "** the server restarts with the copy",
	"** the copy is restored, in a new history", "** somebody puts the copy back", "** a replica is attached", "** another job is claimed",
	"** an operator asks to stop", "** an operator takes the lease away", "** an operator answers for the holder's death",
	"** an operator forgets the job", "** an operator forgets the tick", "** the operator orders the same again",
}

func who(i int) string {
	if i == hosts {
		return "the operator"
	}
	return fmt.Sprintf("H%d", i+1)
}

func (m move) String() string {
	if text := moveTexts[m.what]; text != "" {
		if m.what == passes || m.what >= losesLease {
			return text
		}
		return fmt.Sprintf(text, who(m.i))
	}
	return ""
}

// moves returns all that may happen next. Time passes only where nothing is prompt.
func (w *orders) moves() (all []move) {
	prompt, anyPrompt := false, false
	may := func(isPrompt bool, what moveKind, i, k int) {
		prompt = prompt || isPrompt
		all = append(all, move{what, i, k})
	}
	costs := func(what moveKind, i, k int) {
		if w.faults > 0 && w.e.mayHappen(what, i) {
			all = append(all, move{what, i, k})
		}
	}
	for i := range hosts + 1 {
		p := w.at(i)
		if i < hosts && p.m != nil {
			before := len(all)
			prompt = false
			w.movesOfProcess(i, p, may, costs)
			if prompt && len(p.requests) == 0 && !p.tree.alive {
				return all[before:] // nobody else can see whether this comes first
			}
		}
		w.movesOfRequests(i, p, may, costs)
		anyPrompt = anyPrompt || prompt
	}
	for f := losesLease; f < moveKindCount; f++ {
		if w.mayBefall(f) {
			costs(f, 0, 0)
		}
	}
	if !anyPrompt && w.nextInstant() <= w.end {
		all = append(all, move{what: passes})
	}
	return all
}

// mayBefall says whether something can happen to the store, or an operator wants it.
func (w *orders) mayBefall(f moveKind) bool {
	k := &w.store
	switch f {
	case losesLease:
		return k.record != nil && k.holder != ""
	case losesRecord, ordersStop, ordersRevoke, ordersForget, ordersRerun:
		return k.record != nil && !(f == losesRecord && w.granted())
	case wiped, restartedEmpty:
		return !w.granted()
	case restartedOld, restoredOld, putBack:
		return w.copied.stays && !w.granted()
	case catchesUp:
		return w.copied.stays
	case stays:
		return !w.copied.stays
	case promoted, parted:
		return k.server.Replicas > 0 && (!w.copied.unseen || w.e.unnoticed) && !w.split && !(w.copied.stays && !w.e.acks && w.granted())
	case ordersDead:
		return k.record != nil && w.isGone(k)
	case ordersAgain:
		return w.order.Kind != "" && len(w.op.requests) == 0
	}
	return true
}

// granted says whether a token was granted in this millisecond. Tokens tell milliseconds, and what loses some comes before that.
func (w *orders) granted() bool {
	ms := serverTime(w.now)
	return w.highest >= ms || w.store.record != nil && w.store.record.Token >= ms
}

// isGone says whether the holder is dead for certain.
func (w *orders) isGone(k *kept) bool {
	holder := cmp.Or(k.holder, k.record.Holder.ID)
	for i := range w.procs {
		if p := &w.procs[i]; p.m != nil && p.m.claim.Holder.ID == holder {
			_, isOver := p.m.result()
			return (p.dead || isOver) && !p.tree.alive
		}
	}
	return false
}

func (w *orders) movesOfRequests(i int, p *process, may func(bool, moveKind, int, int), costs func(moveKind, int, int)) {
	for k := range p.requests {
		r := &p.requests[k]
		switch {
		case r.reply != nil:
			if !p.stopped && !r.waits() {
				may(false, arrives, i, k)
			}
		default:
			if !p.cut {
				may(!r.late, serves, i, k)
			}
			if !r.late && !p.cut {
				costs(lateCall, i, k)
				costs(lateReply, i, k)
			}
		}
		if !r.ghost && !p.stopped && w.now >= r.until {
			may(true, givesUp, i, k)
		}
	}
}

func (w *orders) movesOfProcess(i int, p *process, may func(bool, moveKind, int, int), costs func(moveKind, int, int)) {
	t := &p.tree
	if t.alive {
		obeys := w.now >= t.deadline.Term && !t.told || w.now >= t.deadline.Kill && t.dieBy == never
		if obeys && !t.orphan {
			may(true, guards, i, 0)
		}
		if t.dieBy != never {
			may(!t.slow || w.now >= t.dieBy, dies, i, 0)
			if !t.slow {
				costs(slowDeath, i, 0)
			}
		}
		if !t.exited && (t.told || w.exits > 0) {
			may(false, exits, i, 0)
		}
		if !t.orphan && !p.dead && !p.stopped {
			costs(unguarded, i, 0)
			costs(wrecked, i, 0)
		}
	}
	_, isOver := p.m.result()
	switch {
	case p.begins != never:
		if w.now >= p.begins {
			may(true, begins, i, 0)
		}
		return
	case p.dead, isOver:
		return
	case p.stopped:
		may(false, continues, i, 0)
		costs(crashes, i, 0)
		return
	}
	if p.starting != (Deadline{}) {
		may(!p.late, starts, i, 0)
		if !p.late {
			costs(lateStart, i, 0)
		}
		costs(killed, i, 0)
		return
	}
	told := false
	for k, in := range p.inbox {
		_, tells := in.(treeEvent)
		if !tells || !told { // a tree tells in order
			may(true, hears, i, k)
		}
		told = told || tells
	}
	if p.m.next <= w.now {
		may(true, wakes, i, 0)
	}
	if p.m.wantsIdle() && len(p.inbox) == 0 {
		may(true, idles, i, 0)
	}
	if p.readying {
		may(true, isReady, i, 0)
	}
	if p.news && !p.m.isAsking() {
		may(true, looks, i, 0)
	}
	costs(stops, i, 0)
	costs(killed, i, 0)
	costs(crashes, i, 0)
	costs(signalled, i, 0)
	if !p.cut {
		costs(cutOff, i, 0)
	}
}

// nextInstant is when something is due.
func (w *orders) nextInstant() Instant {
	next := never
	at := func(i Instant) {
		if i > w.now {
			next = min(next, i)
		}
	}
	for i := range hosts + 1 {
		p := w.at(i)
		for k := range p.requests {
			if !p.requests[k].ghost && !p.stopped {
				at(p.requests[k].until)
			}
		}
		if t := &p.tree; t.alive {
			at(t.deadline.Term)
			at(t.deadline.Kill)
			at(t.dieBy)
		}
		if p.m == nil {
			continue
		}
		if p.begins != never {
			at(p.begins)
		} else if _, isOver := p.m.result(); !isOver && !p.dead && !p.stopped && p.starting == (Deadline{}) {
			at(p.m.next)
		}
	}
	for _, k := range []*kept{&w.store, &w.old} {
		if k.holder != "" && k.ends != noEnd {
			at(hostTime(k.ends))
		}
	}
	return next
}

// do makes a move.
func (w *orders) do(v move) {
	p := w.at(v.i)
	if v.what >= lateCall {
		w.faults--
	}
	switch v.what {
	case serves:
		w.serves(v.i, v.k, false)
	case lateReply:
		w.serves(v.i, v.k, true)
	case lateCall:
		p.requests[v.k].late = true
	case arrives:
		w.arrives(v.i, v.k)
	case givesUp:
		w.gives(v.i, v.k)
	case hears:
		in := p.inbox[v.k]
		p.inbox = append(p.inbox[:v.k:v.k], p.inbox[v.k+1:]...)
		w.hear(v.i, in)
	case wakes:
		w.hear(v.i, woken{})
	case idles:
		w.hear(v.i, idle{})
	case isReady:
		p.readying = false
		w.hear(v.i, prepared{})
	case starts:
		w.starts(v.i)
	case lateStart:
		p.late = true
	case guards:
		w.guards(v.i)
	case dies:
		w.dies(v.i)
	case slowDeath:
		p.tree.slow = true
	case looks:
		p.news = false
		w.hear(v.i, leaseNews{backends.News{Look: true}})
	case begins:
		p.begins = never
		w.hear(v.i, begin{})
	case exits:
		if !p.tree.told {
			w.exits--
		}
		p.tree.exited = true
		p.tree.kill(w.now) // what it left behind
		w.hear(v.i, treeEvent{lifeline.Event{Kind: lifeline.Exited, Status: lifeline.Status{Known: true}}})
		if w.e.out.deadEarly {
			w.hear(v.i, treeEvent{lifeline.Event{Kind: lifeline.Dead, Status: lifeline.Status{Known: true}}})
		}
	case passes:
		w.now = w.nextInstant()
	default:
		w.befall(v)
	}
	w.check()
}

func (w *orders) guards(i int) {
	p := &w.procs[i]
	t := &p.tree
	if w.now >= t.deadline.Kill {
		t.dieBy = min(t.dieBy, t.deadline.Kill.Add(killBudget))
	}
	if !t.told {
		t.told = true
		w.hear(i, treeEvent{lifeline.Event{Kind: lifeline.Terminated}})
	}
}

// befall is what people and failures do.
func (w *orders) befall(v move) {
	p := w.at(v.i)
	switch v.what {
	case cutOff:
		p.cut = true
	case stops:
		p.stopped = true
	case continues:
		p.stopped = false
		p.m.next = w.now // whatever is due
	case killed, crashes:
		p.dead, p.inbox, p.readying, p.starting = true, nil, false, Deadline{}
		for k := range p.requests {
			p.requests[k].ghost, p.requests[k].late = true, true
		}
		p.drop()
		if v.what == crashes {
			p.tree = orderTree{dieBy: never}
		}
		if p.tree.kill(w.now.Add(p.m.lease.timeline.Grace)); p.tree.alive { // by the guardian
			p.tree.dieBy = min(p.tree.dieBy, p.tree.deadline.Kill.Add(killBudget))
		} else if w.e.proof == backends.ByRelease {
			w.unlock(p)
		}
	case wrecked: // the command lives on, and has inherited the lock
		p.dead, p.tree.orphan, p.requests = true, true, nil
		if w.e.out.notInherited {
			w.unlock(p)
		}
	case unguarded:
		p.tree.orphan = true
		p.tree.kill(w.now) // by the wrapper
		w.hear(v.i, treeEvent{lifeline.Event{Kind: lifeline.GuardianLost, Err: lifeline.ErrGuardian}})
	case signalled:
		w.hear(v.i, signal{syscall.SIGTERM})
	case losesLease, losesRecord, losesMark, wiped:
		w.loses(v.what)
	case ordersStop, ordersRevoke, ordersDead, ordersForget, ordersRerun, ordersAgain:
		w.commands(v.what)
	default:
		w.serverChanges(v.what)
	}
}

// loses takes something out of the store.
func (w *orders) loses(what moveKind) {
	k := &w.store
	switch what {
	case losesLease:
		k.holder, k.leased = "", w.draw()
		if w.e.proof == backends.ByRelease { // the lock file is removed
			k.label = backends.Label{}
		}
		if w.e.object {
			k.beat = w.draw()
		}
		if w.e.whole {
			k.written = w.draw()
		}
		w.tellWatchers(nil)
	case losesRecord:
		k.record, k.until, k.beat, k.written = nil, 0, 0, w.draw()
		w.forgets()
	case losesMark:
		k.mark, k.marked = backends.Mark{}, 0
	case wiped:
		*k = kept{server: k.server}
		k.server.Forgot = true
		if w.e.out.countsAnew {
			w.writes = 0
		}
		w.forgets()
		w.tellWatchers(nil)
	}
	if w.e.evicts {
		k.server.Evicted++
		k.server.Forgot = true
	}
}

var orderKinds = map[moveKind]backends.OrderKind{
	ordersStop: backends.Stop, ordersRevoke: backends.Revoke, ordersDead: backends.ForceRelease, ordersForget: backends.ForgetJob,
	ordersRerun: backends.ForgetTick,
}

// commands has an operator order something. They have looked at the job.
func (w *orders) commands(what moveKind) {
	if what != ordersAgain {
		o := backends.Order{Kind: orderKinds[what], Job: "job", By: backends.Holder{ID: fmt.Sprintf("operator%d", w.faults)}}
		o.Token, o.Tick = max(w.store.record.Token, w.store.token), w.store.record.Tick.Tick
		w.order = o
	}
	w.launch(hosts, w.order, never)
}
