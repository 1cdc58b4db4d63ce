package runner

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/leaderrun/leaderrun/backends"
	"github.com/leaderrun/leaderrun/internal/lifeline"
)

// hosts is how many processes there may be.
const hosts = 3

// orders is a small world: machines with their trees, the requests that are on their way, and a store. It is copied before each
// move. What is prompt happens before time passes; whatever is late costs a fault, of which there are few.
type orders struct {
	e      *explorer
	now    Instant
	end    Instant // time does not pass it
	store  kept
	copied replica
	split  bool // H1 reaches only old
	old    kept // the server that was the master before
	writes int64
	procs  [hosts]process
	op     process        // an operator: only its requests count
	order  backends.Order // the last one

	faults  int // that may still happen
	exits   int // of commands
	highest int64
	past    [triggers]past
	trace   func(format string, args ...any)
	wrong   string
}

// process is a wrapper with its guardian and the tree of its command.
type process struct {
	m         *machine
	begins    Instant // never: it has begun
	dead      bool    // the wrapper
	stopped   bool    // it, by SIGSTOP
	cut       bool    // what it sends does not arrive
	requests  []request
	inbox     []input // what it hears when it goes on
	tree      orderTree
	readying  bool
	starting  Deadline // zero: nothing is to be started
	late      bool     // the start is not prompt
	watches   bool
	news      bool
	isDone    bool // the store has answered its end: no lease is given to it any more
	known     *shot
	doubted   bool
	yes       Instant // t0 of the last request that the store answered with a yes
	shown     int64   // the highest token that it was shown
	heardLoss bool
	isExcused bool // its run does not count: the store had forgotten another one of its trigger, or was told to
}

// orderTree is a tree with a guardian that obeys the last deadline it was given.
type orderTree struct {
	alive, told, exited, orphan bool
	slow                        bool
	deadline                    Deadline
	dieBy                       Instant // never: nothing kills it
}

// request is one at the engine. Its call is on the way to the store, or the reply on the way back.
type request struct {
	asks    any // the action or order
	began   Instant
	until   Instant
	known   *shot
	doubted bool
	replies []reply
	call    call
	late    bool   // the call is not prompt
	reply   *reply // it was carried out, and this is on its way back
	ghost   bool   // nobody waits for it
}

func (w *orders) fail(format string, args ...any) {
	text := fmt.Sprintf(format, args...)
	if w.wrong == "" && strings.HasPrefix(text, w.e.only) {
		w.wrong = text
	}
}

func (w *orders) clone() *orders {
	n := *w
	for i := range n.procs {
		p := &n.procs[i]
		if p.m != nil {
			m := *p.m
			p.m = &m
		}
		p.requests, p.inbox = slices.Clone(p.requests), slices.Clone(p.inbox)
	}
	n.op.requests = slices.Clone(n.op.requests)
	return &n
}

func (w *orders) isEnded(holder string) bool {
	for i := range w.procs {
		if p := &w.procs[i]; p.m != nil && p.m.claim.Holder.ID == holder {
			return p.isDone
		}
	}
	return false
}

// at returns one of the processes; the last is the operator.
func (w *orders) at(i int) *process {
	if i == hosts {
		return &w.op
	}
	return &w.procs[i]
}

// hear gives a machine an input, unless its process is stopped.
func (w *orders) hear(i int, in input) {
	p := w.at(i)
	switch {
	case p.m == nil || p.dead:
	case p.stopped, p.starting != (Deadline{}): // a start blocks
		p.inbox = append(p.inbox, in)
	default:
		w.step(i, in)
	}
}

// step gives a machine an input, does what it wants, and looks for what must not be.
func (w *orders) step(i int, in input) {
	p := &w.procs[i]
	before := p.m.phase
	if c, ok := in.(claimAnswer); ok {
		p.shown = max(p.shown, c.grant.Token)
		if r, ok := errors.AsType[*backends.Refusal](c.err); ok {
			p.shown = max(p.shown, r.Token)
			w.checkLoss(p, r)
		}
	}
	if r, ok := in.(renewAnswer); ok && errors.Is(r.err, backends.ErrLost) {
		p.heardLoss = true
	}
	w.distort(p, &in)
	actions := p.m.step(moment{w.now, time.UnixMilli(serverTime(w.now)), 0}, in)
	p.m.actions, p.m.moment = nil, moment{}
	if c, ok := before.(claiming); ok && w.e.out.silenceFromRequest && p.m.candidate.seenAt == w.now {
		p.m.candidate.seenAt = c.t0
	}
	if w.trace != nil {
		w.trace("  %s: %s, %s → %s", who(i), tell(in), phaseName(before), phaseName(p.m.phase))
	}
	var follows []input
	for _, a := range actions {
		follows = append(follows, w.perform(i, a)...)
	}
	if changed := changedOutcome(before, p.m.phase, in); changed != "" {
		w.fail("4: %s", changed)
	}
	w.checkMachine(p)
	for _, in := range follows {
		w.hear(i, in)
	}
}

func (w *orders) perform(i int, a action) (follows []input) {
	p := &w.procs[i]
	switch a := a.(type) {
	case doClaim:
		if a.claim.Floor < p.shown {
			w.fail("5: a claim with floor %d after token %d was shown", a.claim.Floor, p.shown)
		}
		w.launch(i, a, a.until)
	case doRenew:
		w.launch(i, a, a.until)
	case doFinish:
		w.mustBeDead(p, "the lease is released")
		w.launch(i, a, a.until)
	case doAbandon:
		w.mustBeDead(p, "the claim is taken back")
		if w.e.out.silent {
			p.isDone = true
			return []input{releaseAnswer{}}
		}
		w.launch(i, a, a.until)
	case doSearch:
		return []input{searchAnswer{}}
	case doWatch:
		p.watches = true
	case doHangUp:
		p.watches, p.news, p.readying = false, false, false
		for k := range p.requests {
			r := &p.requests[k]
			if _, ok := r.asks.(doClaim); ok && !r.ghost {
				p.inbox = append(p.inbox, claimAnswer{err: context.Canceled})
			}
			r.ghost = true
		}
		p.drop()
	case doPrepare:
		p.readying = true
	case doStart:
		w.mustBeDead(p, "a try is started")
		p.starting, p.late = a.deadline, false
	case doExtend:
		p.tree.deadline = a.deadline
	case doSignal, doTerminate:
		p.tree.told = true
	case doKill:
		p.tree.kill(w.now)
	}
	return follows
}

func (w *orders) mustBeDead(p *process, what string) {
	if p.tree.alive {
		w.fail("3: %s while the tree may be alive", what)
	}
}

func (t *orderTree) kill(now Instant) {
	if t.alive {
		t.dieBy = min(t.dieBy, now.Add(killBudget))
	}
}

// launch begins a request.
func (w *orders) launch(i int, asks any, until Instant) {
	p := w.at(i)
	r := request{asks: asks, began: w.now, until: until, known: p.known, doubted: p.doubted}
	p.requests = append(p.requests, r)
	w.goOn(i, len(p.requests)-1)
}

// goOn has a request go on with the replies that it has.
func (w *orders) goOn(i, k int) {
	p := w.at(i)
	r := &p.requests[k]
	in, wanted := w.e.carry(p, r)
	if in == nil {
		r.call, r.late, r.reply = wanted, false, nil
		return
	}
	if w.trace != nil {
		w.trace("  %s: the answer to its %s: %s", who(i), whatItAsks(r), tell(in))
	}
	switch a := in.(type) {
	case claimAnswer:
		if a.err == nil {
			p.yes = max(p.yes, r.began)
		}
	case renewAnswer:
		if a.err == nil {
			p.yes = max(p.yes, r.began)
		}
	case releaseAnswer:
		p.isDone = p.isDone || a.err == nil
		w.hasEnded(p, r.asks, a.err)
	}
	p.requests = slices.Delete(p.requests, k, k+1)
	w.hear(i, in)
}

// drop forgets the requests that nobody waits for and that cannot reach the store any more.
func (p *process) drop() {
	p.requests = slices.DeleteFunc(p.requests, func(r request) bool { return r.ghost && r.reply != nil })
}

// serves has the store carry out the call of a request.
func (w *orders) serves(i, k int, replyIsLate bool) {
	p := w.at(i)
	r := &p.requests[k]
	answer := w.serve(p, r.asks, r.call)
	if w.trace != nil {
		w.trace("  the store: %s for %s: %s", callTexts[r.call.what], who(i), answer)
	}
	if r.ghost {
		if w.e.persists && answer.err == nil {
			r.replies = append(slices.Clip(r.replies), answer)
			if _, r.call = w.e.carry(p, r); r.call.what != 0 {
				return
			}
		}
		p.requests = slices.Delete(p.requests, k, k+1)
		return
	}
	r.reply = &answer
	if !replyIsLate && !p.stopped && !r.waits() {
		w.arrives(i, k)
	}
}

// waits says whether the answer to a request waits for replicas. If they do not come, the request ends with its time.
func (r *request) waits() bool { return r.reply != nil && errors.Is(r.reply.err, errUnacknowledged) }

// acknowledges ends the wait for replicas. err is nil if they have what was written.
func (w *orders) acknowledges(err error) {
	for i := range hosts + 1 {
		p := w.at(i)
		for k := range p.requests {
			if r := &p.requests[k]; r.waits() {
				r.reply = &reply{r.reply.at, r.reply.s, true, err}
			}
		}
	}
}

// arrives has a reply arrive.
func (w *orders) arrives(i, k int) {
	r := &w.at(i).requests[k]
	r.replies = append(slices.Clip(r.replies), *r.reply)
	w.goOn(i, k)
}

// gives has a request end with its time. Its call may still reach the store.
func (w *orders) gives(i, k int) {
	p := w.at(i)
	if r := p.requests[k]; r.reply == nil {
		r.ghost, r.late = true, true
		p.requests = append(p.requests, r)
	}
	p.requests[k].reply = &reply{at: w.now, err: context.DeadlineExceeded}
	w.arrives(i, k)
}

func (w *orders) tellWatchers(by *process) {
	for i := range w.procs {
		if p := &w.procs[i]; p.watches && p != by {
			p.news = true
		}
	}
}

// starts has the guardian start the command.
func (w *orders) starts(i int) {
	p := &w.procs[i]
	d := p.starting
	p.starting = Deadline{}
	if w.now >= d.Term && !w.e.out.guardianBlind {
		w.hear(i, startAnswer{errors.New("too late")})
		return
	}
	p.tree = orderTree{alive: true, slow: w.e.slow, deadline: d, dieBy: never}
	grant := p.m.lease.grant
	if grant.Token <= w.highest {
		w.fail("tokens: %d starts after %d", grant.Token, w.highest)
	}
	w.highest = max(w.highest, grant.Token)
	w.mayStart(p, &grant)
	w.e.started[i] = true
	w.alone()
	w.hear(i, startAnswer{})
}

// alone says whether two commands run.
func (w *orders) alone() {
	alive := 0
	for i := range w.procs {
		if w.procs[i].tree.alive {
			alive++
		}
	}
	if alive > 1 {
		w.fail("overlap: two commands run at once")
	}
}

// dies has a tree be dead.
func (w *orders) dies(i int) {
	p := &w.procs[i]
	status := lifeline.Status{Known: true, Signal: syscall.SIGKILL}
	if p.tree.exited {
		status = lifeline.Status{Known: true}
	}
	orphan := p.tree.orphan || p.dead
	wasCut := w.now >= p.tree.deadline.Kill
	p.tree = orderTree{dieBy: never, exited: true}
	if w.e.proof == backends.ByRelease && (orphan || wasCut) { // the guardian unlocks
		w.unlock(p)
	}
	w.hear(i, treeEvent{lifeline.Event{Kind: lifeline.Dead, Status: status}})
}

func (w *orders) unlock(p *process) {
	if k := &w.store; k.holder != "" && p.m != nil && k.holder == p.m.claim.Holder.ID {
		k.holder, k.leased = "", w.draw()
		w.tellWatchers(p)
	}
}

// checkMachine compares what a machine believes with the truth.
func (w *orders) checkMachine(p *process) {
	m := p.m
	_, isHeld := m.phase.(held)
	if l := &m.lease; isHeld && l.sentAt > p.yes {
		w.fail("2: the lease counts from %v, the request that was answered was sent at %v", l.sentAt, p.yes)
	}
	if r, ok := m.result(); ok {
		if r.Floor < p.shown {
			w.fail("5: floor %d after token %d was shown", r.Floor, p.shown)
		}
		if p.tree.alive && r.Ending != Unconfirmed {
			w.fail("3: the run is over while the tree may be alive")
		}
	}
	if p.tree.alive && p.heardLoss && p.tree.dieBy == never {
		w.fail("1: a command goes on although the store said that its lease is lost")
	}
}

// check looks at the whole world.
func (w *orders) check() {
	w.alone()
	for i := range w.procs {
		p := &w.procs[i]
		if !p.tree.alive || w.e.proof == backends.ByRelease {
			continue
		}
		ttl := p.m.lease.timeline.TTL
		if end := p.yes.Add(ttl * slowHost / fastServer); w.now >= end {
			w.fail("1: a command of H%d is alive at %v, its lease ended at %v", i+1, w.now.Sub(boot), end.Sub(boot))
		}
	}
}

// distort breaks what a machine hears, where a case leaves out what it does with it.
func (w *orders) distort(p *process, in *input) {
	switch a := (*in).(type) {
	case claimAnswer:
		if _, ok := p.m.phase.(claiming); ok && a.err == nil && w.e.out.countsFromReply {
			p.m.phase = claiming{w.now}
		}
		if w.e.out.noMargin && a.err == nil {
			a.grant.TTL += minMargin
			*in = a
		}
	case renewAnswer:
		switch {
		case a.err == nil && w.e.out.countsFromReply:
			a.t0 = w.now
		case errors.Is(a.err, backends.ErrLost) && w.e.out.deafToLoss:
			a.err = errRefused
		}
		*in = a
	}
}

func whatItAsks(r *request) string {
	if o, ok := r.asks.(backends.Order); ok {
		return string(o.Kind)
	}
	return strings.ToLower(strings.TrimPrefix(fmt.Sprintf("%T", r.asks), "runner.do"))
}

func phaseName(p phase) string { return strings.TrimPrefix(fmt.Sprintf("%T", p), "runner.") }

func tell(in input) string {
	what := strings.TrimPrefix(fmt.Sprintf("%T", in), "runner.")
	switch in := in.(type) {
	case claimAnswer:
		if in.err == nil {
			return fmt.Sprintf("granted with token …%d", in.grant.Token%1_000_000)
		}
		return fmt.Sprintf("claimAnswer: %v", in.err)
	case renewAnswer:
		return fmt.Sprintf("renewAnswer %d: %v", in.number, in.err)
	case releaseAnswer:
		return fmt.Sprintf("releaseAnswer: %v", in.err)
	case startAnswer:
		return fmt.Sprintf("startAnswer: %v", in.err)
	case treeEvent:
		return fmt.Sprintf("event %d of the tree", in.Kind)
	}
	return what
}
