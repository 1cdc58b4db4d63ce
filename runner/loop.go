package runner

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/leaderrun/leaderrun/backends"
	"github.com/leaderrun/leaderrun/internal/lifeline"
	"github.com/leaderrun/leaderrun/internal/panics"
)

// loop gives a machine its inputs and performs its actions. One goroutine owns it.
type loop struct {
	machine *machine
	r       *Runner
	req     Request
	clock   Clock
	timer   Timer

	waiting    []input         // the machine takes these before the loop receives anything else
	cancelled  <-chan struct{} // ctx.Done(); nil once the machine has taken it
	unwanted   <-chan struct{} // the same of req.Wanted
	checks     <-chan Check
	askers     map[int]Check // the checks without an answer
	checkCount int           // how many checks there were
	answers    chan input    // to requests
	news       <-chan backends.News
	panics     chan *panics.Panic

	prepared chan readyTree        // whoever made a tree hands it over here, or closes it
	ready    readyTree             // the tree to start next; zero: none
	tree     Tree                  // the tree that was started last; nil: none
	events   <-chan lifeline.Event // of a tree that may be alive

	ctx    context.Context //nolint:containedctx // of Run
	calls  context.Context //nolint:containedctx // of requests and watches: the next doHangUp ends it
	hangUp context.CancelFunc
	over   chan struct{} // closed when the attempt is over
}

// readyTree is what is needed to start the command.
type readyTree struct {
	tree Tree
	env  []string
}

func newLoop(ctx context.Context, r *Runner, req Request, clock Clock, timer Timer) *loop {
	l := &loop{
		machine: newMachine(req, r.Driver.Limits(), backends.NewID()), r: r, req: req, clock: clock, timer: timer, ctx: ctx,
		cancelled: ctx.Done(), checks: req.Checks, askers: map[int]Check{}, answers: make(chan input, 16),
		prepared: make(chan readyTree), panics: make(chan *panics.Panic, 1), over: make(chan struct{}),
	}
	if req.Wanted != nil {
		l.unwanted = req.Wanted.Done()
	}
	l.calls, l.hangUp = context.WithCancel(context.WithoutCancel(ctx))
	return l
}

// run is one attempt.
func (l *loop) run() Result {
	defer close(l.over)
	defer func() { l.hangUp() }()
	l.takeEnd()
	l.take(begin{})
	for {
		for len(l.waiting) == 0 {
			l.receive()
		}
		in := l.waiting[0]
		l.waiting = l.waiting[1:]
		for _, a := range l.machine.step(l.moment(), in) {
			a.perform(l)
		}
		if result, ok := l.machine.result(); ok {
			return result
		}
	}
}

// moment reads the clocks. The loop calls it after an input has come.
func (l *loop) moment() moment {
	chance := rand.Float64() //nolint:gosec // jitter
	if l.r.jitter != nil {
		chance = l.r.jitter(time.Second).Seconds()
	}
	return moment{l.clock.Now(), time.Now(), chance}
}

func (l *loop) take(in input) { l.waiting = append(l.waiting, in) }

// receive waits for one input. If the caller wants to end, that input comes before any that may start the command.
func (l *loop) receive() {
	if l.events == nil && l.takeEnd() {
		return
	}
	if l.machine.wantsIdle() && l.isQuiet() {
		l.take(idle{})
		return
	}
	news := l.news
	if l.machine.isAsking() { // keep them until the answer has come
		news = nil
	}
	l.timer.Set(l.machine.next)
	select {
	case <-l.timer.C():
		l.take(woken{})
	case s := <-l.req.Signals:
		l.takeSignal(s)
	case <-l.cancelled:
		l.takeCancelled()
	case <-l.unwanted:
		l.takeUnwanted()
	case in := <-l.answers:
		l.take(in)
	case p := <-l.prepared:
		l.ready = p
		l.take(prepared{})
	case c, open := <-l.checks:
		if !open {
			l.checks = nil
			return
		}
		l.checkCount++
		l.askers[l.checkCount] = c
		l.take(question{l.checkCount})
	case n, open := <-news:
		if !open {
			l.news = nil
			l.take(watchClosed{})
			return
		}
		l.take(leaseNews{n})
	case e, open := <-l.events:
		l.takeEvent(e, open)
	case p := <-l.panics:
		panic(p)
	}
}

// isQuiet says whether no input has arrived that may end the run, apart from those that takeEnd looks for.
func (l *loop) isQuiet() bool { return len(l.req.Signals)+len(l.answers)+len(l.panics) == 0 }

// takeEnd takes the caller's wish to end, if there is one, and says whether there was.
func (l *loop) takeEnd() bool {
	select {
	case <-l.cancelled:
		l.takeCancelled()
	case <-l.unwanted:
		l.takeUnwanted()
	default:
		return false
	}
	return true
}

func (l *loop) takeCancelled() {
	l.cancelled = nil
	l.take(cancelled{context.Cause(l.ctx)})
}

func (l *loop) takeUnwanted() {
	l.unwanted = nil
	l.take(unwanted{context.Cause(l.req.Wanted)})
}

func (l *loop) takeSignal(s os.Signal) {
	if sig, ok := s.(syscall.Signal); ok {
		l.take(signal{sig})
	}
}

// takeEvent takes an event of the tree. If the command has ended, it first takes all signals that have arrived: the command may
// have ended because of one, and whoever sent that signal must see the run recorded as stopped.
func (l *loop) takeEvent(e lifeline.Event, open bool) {
	if !open {
		e = lifeline.Event{Kind: lifeline.Dead}
	}
	if e.Kind == lifeline.Exited || e.Kind == lifeline.Dead {
		for range len(l.req.Signals) { // only this goroutine receives them, so none blocks
			l.takeSignal(<-l.req.Signals)
		}
	}
	if e.Kind == lifeline.Dead {
		l.events = nil
	}
	l.take(treeEvent{e})
}

// inBackground calls f in a goroutine of its own. If f panics, the loop panics with the same value the next time that it waits. So the
// panic reaches the caller of Run, and a daemon can go on with its other jobs.
func (l *loop) inBackground(f func()) {
	go func() {
		defer func() {
			if p := recover(); p != nil {
				select {
				case l.panics <- panics.Of(p):
				default: // one is enough
				}
			}
		}()
		f()
	}()
}

// answer hands the loop an input from another goroutine, unless the attempt is over.
func (l *loop) answer(in input) {
	select {
	case l.answers <- in:
	case <-l.over:
	}
}

// errNotReturned is the error of a request whose driver did not return.
var errNotReturned = errors.New("the request did not end with its time")

// ask makes a request, and hands the loop the answer when the driver returns, which must be by the instant until. If the driver has
// not returned returnTime later, the loop stops waiting for it and gets unknown instead: no library of a store may hold up a run, and
// whatever the driver still does, the outcome of the request is unknown.
func (l *loop) ask(until Instant, request func(context.Context) input, unknown func(error) input) {
	var answered atomic.Bool
	answer := func(in input) {
		if answered.CompareAndSwap(false, true) {
			l.answer(in)
		}
	}
	ctx, cancel := context.WithTimeout(l.calls, until.Sub(l.clock.Now()))
	stop := context.AfterFunc(ctx, func() {
		time.AfterFunc(returnTime, func() { answer(unknown(fmt.Errorf("%w: %w", errNotReturned, context.Cause(ctx)))) })
	})
	l.inBackground(func() {
		defer cancel()
		in := request(ctx)
		stop()
		answer(in)
	})
}

func (a doTell) perform(l *loop) {
	if l.r.Observe != nil {
		l.r.Observe(a.event)
	}
}

func (a doClaim) perform(l *loop) {
	l.ask(a.until, func(ctx context.Context) input {
		g, err := l.r.Driver.Acquire(ctx, a.claim)
		return claimAnswer{g, err}
	}, func(err error) input { return claimAnswer{err: err} })
}

func (a doSearch) perform(l *loop) {
	unclaimed, found := l.req.FindUnclaimed(a.refusal)
	l.take(searchAnswer{unclaimed, found})
}

// doWatch never blocks. If the watch cannot be opened, the machine's timer replaces it.
func (a doWatch) perform(l *loop) {
	ctx, wake := l.calls, make(chan backends.News, 1)
	l.inBackground(func() {
		defer close(wake)
		news, err := l.r.Driver.Watch(ctx, l.req.Job)
		if err != nil {
			return
		}
		for n := range news {
			backends.Tell(wake, n)
		}
	})
	l.news = wake
}

func (a doRenew) perform(l *loop) {
	l.ask(a.until, func(ctx context.Context) input {
		s, err := l.r.Driver.Renew(ctx, a.grant)
		return renewAnswer{a, s, err}
	}, func(err error) input { return renewAnswer{doRenew: a, err: err} })
}

func (a doFinish) perform(l *loop) {
	l.release(a.until, func(ctx context.Context) error { return l.r.Driver.Finish(ctx, a.grant, a.outcome) })
}

func (a doAbandon) perform(l *loop) {
	l.release(a.until, func(ctx context.Context) error { return l.r.Driver.Abandon(ctx, a.claim) })
}

func (l *loop) release(until Instant, request func(context.Context) error) {
	l.ask(until, func(ctx context.Context) input { return releaseAnswer{request(ctx)} },
		func(err error) input { return releaseAnswer{err} })
}

func (doHangUp) perform(l *loop) {
	l.hangUp()
	l.calls, l.hangUp = context.WithCancel(context.WithoutCancel(l.ctx))
	l.news = nil
}

// doPrepare runs in a goroutine of its own, because a disk may hang. If the loop hangs up first, that goroutine closes the tree.
func (a doPrepare) perform(l *loop) {
	before, ctx := l.tree, l.calls
	l.tree = nil
	l.inBackground(func() {
		var p readyTree
		if l.req.Env != nil {
			p.env = l.req.Env(a.grant)
		}
		if before != nil { // close it first: its guardian would unlock the locks that the next try shares with it
			before.Close()
		}
		p.tree = l.req.Tree()
		select {
		case l.prepared <- p:
		case <-ctx.Done():
			p.tree.Close()
		}
	})
}

func (a doStart) perform(l *loop) {
	tree, env := l.ready.tree, l.ready.env
	l.tree, l.ready = tree, readyTree{}
	err := tree.Start(env, a.hold, a.inherit, a.deadline)
	if err == nil || errors.Is(err, lifeline.ErrGuardian) {
		l.events = tree.Events()
	}
	l.take(startAnswer{err})
}

func (a doExtend) perform(l *loop) {
	if l.tree != nil {
		l.tree.Extend(a.deadline)
	}
}

func (a doSignal) perform(l *loop)  { l.tree.Signal(a.sig) }
func (doTerminate) perform(l *loop) { l.tree.Terminate() }
func (a doKill) perform(l *loop)    { l.tree.Kill(a.lost) }

func (doDismiss) perform(l *loop) {
	for _, t := range []Tree{l.ready.tree, l.tree} {
		if t != nil {
			t.Close()
		}
	}
}

// The channel of a check has room for one answer, so this does not block.
func (a doAnswer) perform(l *loop) {
	s := Standing{Err: a.err, Cause: a.cause}
	if left := a.until.Sub(l.clock.Now()); a.err == nil && left > 0 {
		s = Standing{Leading: true, Left: left}
	} else if a.err == nil { // this process was stopped since the machine decided
		s.Err = errGivenUp
	}
	select {
	case l.askers[a.number].Answer <- s:
	default:
	}
	delete(l.askers, a.number)
}
