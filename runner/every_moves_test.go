package runner

import (
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
	cutOff        // nothing that the host sends arrives any more
	stops         // SIGSTOP to the wrapper
	killed        // SIGKILL to the wrapper
	wrecked       // SIGKILL to wrapper and guardian together
	unguarded     // SIGKILL to the guardian
	crashes       // the host
	signalled     // SIGTERM to the wrapper
	losesLease    // somebody deletes it, or a session ends early
	losesRecord   // somebody deletes it
	wiped         // the store forgets all
	setBack       // a replica that lags is promoted
	ordersStop    // an operator asks the holder to stop
	ordersRevoke  // takes the lease away
	ordersForget  // forgets the job
	moveKindCount // how many there are
)

var moveTexts = [moveKindCount]string{
	"the store hears %s", "a reply reaches %s", "%s gives a request up", "%s hears what waited", "%s wakes", "%s is idle",
	"%s is ready", "%s's guardian starts the command", "%s's guardian obeys its deadline", "%s's tree is dead", "%s's watch tells",
	"%s begins", "%s's command ends", "time passes", "%s goes on (SIGCONT)", "** a call of %s is late", "** the reply to %s is late",
	"** %s's start is late", "** %s's tree dies slowly", "** %s's network fails", "** %s is stopped (SIGSTOP)", "** %s's wrapper is killed",
	"** %s's wrapper and guardian are killed together", "** %s's guardian is killed", "** %s's host crashes", "** SIGTERM to %s", "** the lease vanishes", "** the record vanishes",
	"** the store forgets all", "** the store is set back to before its last write", "** an operator asks to stop",
	"** an operator takes the lease away", "** an operator forgets the job",
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
	for _, f := range []moveKind{losesLease, losesRecord, wiped, setBack, ordersStop, ordersRevoke, ordersForget} {
		forgets := f == losesRecord || f == wiped || f == setBack
		switch r := w.store.record; {
		case f < wiped && r == nil, f == losesLease && w.store.holder == "":
			continue
		case forgets && (w.highest >= serverTime(w.now) || r != nil && r.Token >= serverTime(w.now)): // tokens tell milliseconds
			continue
		}
		costs(f, 0, 0)
	}
	if !anyPrompt && w.nextInstant() <= boot.Add(w.e.horizon) {
		all = append(all, move{what: passes})
	}
	return all
}

func (w *orders) movesOfRequests(i int, p *process, may func(bool, moveKind, int, int), costs func(moveKind, int, int)) {
	for k := range p.requests {
		r := &p.requests[k]
		switch {
		case r.reply != nil:
			if !p.stopped {
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
	if w.store.holder != "" && w.e.proof != backends.ByRelease {
		at(hostTime(w.store.ends))
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
	order := func(o backends.Order) {
		o.Job, o.By, o.Token = "job", backends.Holder{ID: "operator"}, w.store.token
		w.launch(hosts, o, never)
	}
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
	case losesLease:
		w.store.holder, w.store.leased = "", w.draw()
		w.tellWatchers(nil)
	case losesRecord:
		w.store.record, w.store.until, w.store.beat, w.store.written = nil, 0, 0, w.draw()
		w.forgets()
	case wiped:
		server := w.store.server
		server.Forgot = true
		w.store = kept{server: server}
		if w.e.out.countsAnew {
			w.writes = 0
		}
		w.forgets()
		w.tellWatchers(nil)
	case setBack:
		server := w.store.server
		w.store = w.before
		w.store.server = backends.Server{Identity: server.Identity + "+", Started: server.Started, Forgot: !w.e.out.countsFromStart}
		w.forgets()
		w.tellWatchers(nil)
	case ordersStop:
		order(backends.Order{Kind: backends.Stop})
	case ordersRevoke:
		order(backends.Order{Kind: backends.Revoke})
	case ordersForget:
		order(backends.Order{Kind: backends.ForgetJob})
	}
}

// forgets notes that the store has forgotten what was run, and who has ended.
func (w *orders) forgets() {
	w.ticks = nil
	for i := range w.procs {
		w.procs[i].isDone = false
	}
}
