package runner

import (
	"encoding/binary"
	"fmt"
	"hash/maphash"
	"reflect"
	"syscall"
	"time"

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

// The first ones are prompt, unless something has made them late. Those after lateCall cost a fault.
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
	unguarded     // SIGKILL to the guardian
	crashes       // the host
	signalled     // SIGTERM to the wrapper
	losesLease    // somebody deletes it, or a session ends early
	losesRecord   // somebody deletes it
	wiped         // the store forgets all
	setBack       // a replica that lags is promoted
	ordersStop    // an operator asks the holder to stop
	ordersEntomb  // takes the lease away
	ordersForget  // forgets the job
	ordersAgain   // an order arrives twice
	moveKindCount // how many there are
)

var moveTexts = [moveKindCount]string{
	"the store hears H%d", "a reply reaches H%d", "H%d gives a request up", "H%d hears what waited", "H%d wakes", "H%d is idle",
	"H%d is ready", "H%d's guardian starts the command", "H%d's guardian obeys its deadline", "H%d's tree is dead", "H%d's watch tells",
	"H%d begins", "H%d's command ends", "time passes", "H%d goes on (SIGCONT)", "** a call of H%d is late", "** the reply to H%d is late",
	"** H%d's start is late", "** H%d's tree dies slowly", "** H%d's network fails", "** H%d is stopped (SIGSTOP)", "** H%d's wrapper is killed",
	"** H%d's guardian is killed", "** H%d's host crashes", "** SIGTERM to H%d", "** the lease vanishes", "** the record vanishes",
	"** the store forgets all", "** the store is set back to before its last write", "** an operator asks to stop",
	"** an operator takes the lease away", "** an operator forgets the job", "** an operator repeats his order",
}

func (m move) String() string {
	if text := moveTexts[m.what]; text != "" {
		if m.what == passes || m.what >= losesLease {
			return text
		}
		return fmt.Sprintf(text, m.i+1)
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
	for _, f := range []moveKind{losesLease, losesRecord, wiped, setBack, ordersStop, ordersEntomb, ordersForget} {
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
		if p.tree.kill(w.now.Add(p.m.lease.plan.Grace)); p.tree.alive { // by the guardian
			p.tree.dieBy = min(p.tree.dieBy, p.tree.deadline.Kill.Add(killBudget))
		} else if w.e.proof == backends.ByRelease {
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
	case ordersEntomb:
		order(backends.Order{Kind: backends.Entomb})
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

// key tells one world from another by 128 bits.
func (e *explorer) key(w *orders) [2]uint64 {
	b := e.scratch[:0]
	num := func(ns ...int64) {
		for _, n := range ns {
			b = binary.AppendVarint(b, n)
		}
	}
	flags := func(fs ...bool) {
		for _, f := range fs {
			if f {
				b = append(b, 1)
			} else {
				b = append(b, 0)
			}
		}
	}
	keeps := func(k *kept) {
		digest := int64(0)
		if k.record != nil {
			digest = int64(k.record.digest) //nolint:gosec // bits
		}
		num(digest, k.until, k.beat, k.written, k.token, k.ends, k.leased, k.marked, k.mark.Until, int64(len(k.server.Identity)))
		b = append(append(b, k.holder...), 0)
		b = append(append(b, k.mark.Identity...), 0)
		flags(k.server.Forgot)
	}
	shown := func(s *shot) {
		if s == nil {
			b = append(b, 0)
			return
		}
		num(1, int64(s.at), int64(s.quarantine), s.writes)
		keeps(&s.kept)
	}
	num(int64(w.now), w.writes, int64(w.faults), int64(w.exits), w.highest, int64(len(w.ticks)))
	for _, n := range []int64{e.tick, e.tick + 1} {
		num(int64(w.ticks[n]))
	}
	flags(w.ticks == nil)
	keeps(&w.store)
	if e.mayHappen(setBack, 0) {
		keeps(&w.before)
	}
	for i := range hosts + 1 {
		p := w.at(i)
		t := &p.tree
		flags(p.dead, p.stopped, p.cut, p.readying, p.late, p.watches, p.news, p.isDone, p.doubted, p.heardLoss,
			t.alive, t.told, t.exited, t.orphan, t.slow)
		num(int64(p.begins), int64(p.starting.Term), int64(p.yes), p.shown, int64(t.deadline.Term), int64(t.dieBy), int64(len(p.inbox)))
		shown(p.known)
		for k := range p.requests {
			r := &p.requests[k]
			b = append(b, reflect.TypeOf(r.asks).String()...)
			num(int64(r.began), int64(r.until), int64(len(r.replies)), int64(r.call.what))
			flags(r.doubted, r.late, r.ghost, r.reply != nil)
			shown(r.known)
			shown(r.call.s)
			if r.reply != nil {
				flags(r.reply.done, r.reply.err != nil)
				shown(r.reply.s)
			}
			if r.call.w.Lease != nil {
				num(r.call.w.Lease.Token, r.call.w.Record.Until)
			}
			for _, o := range r.replies {
				shown(o.s)
			}
		}
		for _, in := range p.inbox {
			b = append(b, tell(in)...)
		}
		if p.m != nil && !p.dead {
			b = digest(b, reflect.ValueOf(p.m).Elem())
		}
	}
	e.scratch = b
	return [2]uint64{maphash.Bytes(e.seeds[0], b), maphash.Bytes(e.seeds[1], b)}
}

// What of a machine does not tell what it will do: what is the same in all worlds of a case, texts, and what is for people.
var untold = map[reflect.Type]bool{
	reflect.TypeFor[Request]():           true,
	reflect.TypeFor[*backends.Refusal](): true,
	reflect.TypeFor[backends.Claim]():    false,
	reflect.TypeFor[time.Time]():         true,
	reflect.TypeFor[moment]():            true,
	reflect.TypeFor[[]action]():          true,
}

var (
	errorType = reflect.TypeFor[error]()
	grantType = reflect.TypeFor[backends.Grant]()
)

// digest writes what tells a value from another one.
func digest(b []byte, v reflect.Value) []byte {
	if untold[v.Type()] {
		return b
	}
	switch v.Kind() {
	case reflect.Struct:
		for i := range v.NumField() {
			if v.Type() == grantType && v.Field(i).Kind() != reflect.Int64 && v.Field(i).Kind() != reflect.Int {
				continue
			}
			b = digest(b, v.Field(i))
		}
	case reflect.Interface, reflect.Pointer:
		if v.IsNil() {
			return append(b, 0)
		}
		if v.Type() == errorType {
			return append(b, 1)
		}
		if v.Kind() == reflect.Interface {
			b = append(b, v.Elem().Type().String()...)
		}
		b = digest(b, v.Elem())
	case reflect.Slice:
		b = binary.AppendVarint(b, int64(v.Len()))
		for i := range v.Len() {
			b = digest(b, v.Index(i))
		}
	case reflect.String:
		b = append(append(b, v.String()...), 0)
	case reflect.Bool:
		if v.Bool() {
			return append(b, 1)
		}
		return append(b, 0)
	case reflect.Int, reflect.Int64:
		b = binary.AppendVarint(b, v.Int())
	}
	return b
}
