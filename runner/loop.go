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

// loop feeds a machine and does what it wants. One goroutine owns it.
type loop struct {
	machine *machine
	r       *Runner
	req     Request
	clock   Clock
	timer   Timer

	waiting   []input         // to be stepped through before anything else is received
	cancelled <-chan struct{} // of ctx; nil once that was taken
	unwanted  <-chan struct{} // of req.Wanted; the same
	checks    <-chan Check
	askers    map[int]Check // those without an answer
	asked     int           // how many there were
	answers   chan input    // to requests
	news      <-chan backends.News
	panics    chan *panics.Panic

	prepared chan readyTree        // handed over, or closed by who made it
	ready    readyTree             // to be started; zero: none
	tree     Tree                  // that was started last; nil: none
	events   <-chan lifeline.Event // of a tree that may be alive

	ctx    context.Context //nolint:containedctx // of Run
	calls  context.Context //nolint:containedctx // of requests and watches: it ends with the next doHangUp
	hangUp context.CancelFunc
	left   chan struct{} // closed when the attempt is over
}

// readyTree is what is needed to start the command.
type readyTree struct {
	tree Tree
	env  []string
}

func newLoop(ctx context.Context, r *Runner, req Request, clock Clock, timer Timer) *loop {
	l := &loop{
		machine: newMachine(req, r.Driver.Limits(), newHolderID()), r: r, req: req, clock: clock, timer: timer, ctx: ctx,
		cancelled: ctx.Done(), checks: req.Checks, askers: map[int]Check{}, answers: make(chan input, 16),
		prepared: make(chan readyTree), panics: make(chan *panics.Panic, 1), left: make(chan struct{}),
	}
	if req.Wanted != nil {
		l.unwanted = req.Wanted.Done()
	}
	l.calls, l.hangUp = context.WithCancel(context.WithoutCancel(ctx))
	return l
}

// run is one attempt.
func (l *loop) run() Result {
	defer close(l.left)
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

// moment is read after an input has come.
func (l *loop) moment() moment {
	chance := rand.Float64() //nolint:gosec // jitter
	if l.r.jitter != nil {
		chance = l.r.jitter(time.Second).Seconds()
	}
	return moment{l.clock.Now(), time.Now(), chance}
}

func (l *loop) take(in input) { l.waiting = append(l.waiting, in) }

// receive waits for one thing to happen. What wants nothing to begin comes before what may begin something.
func (l *loop) receive() {
	if l.events == nil && l.takeEnd() {
		return
	}
	if l.machine.wantsIdle() && l.isQuiet() {
		l.take(idle{})
		return
	}
	news := l.news
	if l.machine.isAsking() { // its answer would overtake them
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
		l.asked++
		l.askers[l.asked] = c
		l.take(question{l.asked})
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

// isQuiet says whether nothing has arrived that may end the run, beside what takeEnd takes.
func (l *loop) isQuiet() bool { return len(l.req.Signals)+len(l.answers)+len(l.panics) == 0 }

// takeEnd takes our caller's wish to end, if there is one by now.
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

// takeEvent takes what the tree tells. A signal that has arrived by the end of the command came before: the command may have ended
// because of it, and who has sent it sees the run stopped, whichever of the two is looked at first.
func (l *loop) takeEvent(e lifeline.Event, open bool) {
	if !open {
		e = lifeline.Event{Kind: lifeline.Dead}
	}
	if e.Kind == lifeline.Exited || e.Kind == lifeline.Dead {
		for range len(l.req.Signals) { // nobody else receives them
			l.takeSignal(<-l.req.Signals)
		}
	}
	if e.Kind == lifeline.Dead {
		l.events = nil
	}
	l.take(treeEvent{e})
}

// beside calls f in a goroutine of its own. Its panic becomes one of the loop's, which waits for nothing without looking
// for it: so it reaches whoever called Run, and who runs other jobs beside can go on with them.
func (l *loop) beside(f func()) {
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

// answer hands the loop what became of something that was done beside, unless the attempt is over.
func (l *loop) answer(in input) {
	select {
	case l.answers <- in:
	case <-l.left:
	}
}

// errDeaf is what a request came to whose driver did not return when it had to.
var errDeaf = errors.New("the request did not end with its time")

// ask makes a request, which is answered when the driver returns. That is when its time is over; a driver that does not return is
// left behind a second later, so that no library of a store holds up a run: whatever it still does, the outcome is unknown.
func (l *loop) ask(until Instant, request func(context.Context) input, unknown func(error) input) {
	var answered atomic.Bool
	answer := func(in input) {
		if answered.CompareAndSwap(false, true) {
			l.answer(in)
		}
	}
	ctx, cancel := context.WithTimeout(l.calls, until.Sub(l.clock.Now()))
	stop := context.AfterFunc(ctx, func() {
		time.AfterFunc(farewell, func() { answer(unknown(fmt.Errorf("%w: %w", errDeaf, context.Cause(ctx)))) })
	})
	l.beside(func() {
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

func (a doProve) perform(l *loop) {
	unclaimed, found := l.req.Prove(a.refusal)
	l.take(proof{unclaimed, found})
}

// It never blocks; without a watch the timer has to do.
func (a doWatch) perform(l *loop) {
	ctx, wake := l.calls, make(chan backends.News, 1)
	l.beside(func() {
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

// What hangs is left behind when it is hung up, and cleans up after itself.
func (a doPrepare) perform(l *loop) {
	before, ctx := l.tree, l.calls
	l.tree = nil
	l.beside(func() {
		var p readyTree
		if l.req.Env != nil {
			p.env = l.req.Env(a.grant)
		}
		if before != nil { // first: its guardian would unlock under the next run what they share
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
func (doKill) perform(l *loop)      { l.tree.Kill() }

func (doDismiss) perform(l *loop) {
	for _, t := range []Tree{l.ready.tree, l.tree} {
		if t != nil {
			t.Close()
		}
	}
}

// Who asks has made room for the answer.
func (a doAnswer) perform(l *loop) {
	s := Standing{Err: a.err}
	if left := a.until.Sub(l.clock.Now()); a.err == nil && left > 0 {
		s = Standing{Leading: true, Left: left}
	} else if a.err == nil { // this process was stopped meanwhile
		s.Err = errGivenUp
	}
	select {
	case l.askers[a.number].Answer <- s:
	default:
	}
	delete(l.askers, a.number)
}
