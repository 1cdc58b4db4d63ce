package runner

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"reflect"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/leaderrun/leaderrun/backends"
	"github.com/leaderrun/leaderrun/internal/lifeline"
)

// world is what a machine deals with, at random: a store, a tree with its guardian, people who send signals and ask. It knows the
// truth, and compares after every step.
type world struct {
	*rand.Rand
	m     *machine
	now   Instant
	calm  bool // everybody answers, and wants the run to end
	told  bool // keep a trace
	trace []string
	asks  int
	wrong string // the first invariant that was broken

	pending []action // requests that have no answer yet
	shown   int64    // the highest token that the machine was shown
	expires Instant  // of the lease at the store, at the earliest
	proven  Instant  // the latest send that was answered with a yes
	gone    bool     // somebody took the lease away
	heard   bool     // and the machine was told
	stopped bool     // our caller stopped it
	readyAt Instant  // when all was ready for the last start, and the guardian before gone
	asked   map[int]bool
	tree    *simTree // nil: nothing was started
}

// simTree is the tree of one start. Its guardian obeys the last deadline it was given.
type simTree struct {
	deadline Deadline
	alive    bool
	immortal bool
	termed   bool // told to end for want of renewal
	killed   bool // by the machine
	exited   bool
	dead     bool // and that was told
	orphaned bool // its guardian is lost
	leaving  bool // its guardian is being sent away: it hears of no deadline any more
	status   lifeline.Status
	queue    []lifeline.Event
}

func (w *world) fail(format string, args ...any) {
	if w.wrong == "" {
		w.wrong = fmt.Sprintf(format, args...)
	}
}

func (w *world) often() bool  { return w.IntN(2) == 0 }
func (w *world) seldom() bool { return w.IntN(12) == 0 }

func (w *world) upTo(d time.Duration) time.Duration { return time.Duration(w.Int64N(int64(d) + 1)) }

// newWorld makes a world, and a machine with options at random.
func newWorld(seed, number uint64) *world {
	w := &world{Rand: rand.New(rand.NewPCG(seed, number)), now: boot, asked: map[int]bool{}} //nolint:gosec // a test
	plan, _ := NewTimeline(MinTTL+w.upTo(20*time.Second), -1)
	req := Request{Job: "job", Timeline: plan, BackendWait: w.upTo(10 * time.Second), Floor: w.Int64N(5)}
	w.shown = req.Floor
	if w.often() {
		req.Wait = []time.Duration{Forever, w.upTo(10 * time.Second)}[w.IntN(2)]
	}
	if w.often() {
		req.Retries, req.RetryDelay = w.IntN(3), w.upTo(20*time.Second)
	}
	if w.often() {
		req.Timeout = time.Second + w.upTo(20*time.Second)
	}
	if w.often() {
		req.KillAfter = w.upTo(5 * time.Second)
	}
	if w.often() {
		req.Trigger = backends.Trigger{Tick: w.wall().Add(w.upTo(4*time.Second) - 2*time.Second).Unix()}
		if w.often() {
			req.Trigger.StartDeadline = w.upTo(time.Minute)
		}
	}
	if w.often() {
		req.FindUnclaimed = func(backends.Refusal) (backends.Unclaimed, bool) { panic("the machine calls a function") }
	}
	w.m = newMachine(req, backends.Limits{HolderWatches: w.often()}, "holder")
	return w
}

func (w *world) wall() time.Time { return time.Unix(1e9, 0).Add(w.now.Sub(boot)) }

// step gives the machine an input, does what it wants, and looks for what must not be.
func (w *world) step(in input) {
	at := moment{w.now, w.wall(), w.Float64()}
	if w.told {
		w.trace = append(w.trace, fmt.Sprintf("%v %T %T%+v", w.now.Sub(boot), w.m.phase, in, in))
	}
	before, again := w.m.phase, *w.m
	_, isHeld := before.(held)
	isLate := isHeld && w.now >= w.m.lease.term()
	actions := w.m.step(at, in)
	if w.seldom() {
		twice := again.step(at, in)
		if !reflect.DeepEqual(actions, twice) || !reflect.DeepEqual(again, *w.m) { //nolint:govet // the errors are those of the same input
			w.fail("two copies of a machine differ: %v, %v", actions, twice)
		}
	}
	if _, isHeld = w.m.phase.(held); isHeld && isLate && w.m.lease.owner == ours {
		w.fail("1: what comes after the deadline puts it off")
	}
	var sync []input
	for _, a := range actions {
		_, starts := a.(doStart)
		if _, isIdle := in.(idle); starts && !isIdle {
			w.fail("the command is started although something may wait")
		}
		if _, ok := a.(doTell); !ok && w.told {
			w.trace = append(w.trace, fmt.Sprintf("\t%T%+v", a, a))
		}
		sync = append(sync, w.perform(a)...)
	}
	w.check(before, in)
	for _, in := range sync {
		w.step(in)
	}
}

// perform does what the machine wants, and returns what the loop would say at once.
func (w *world) perform(a action) (sync []input) {
	switch a := a.(type) {
	case doClaim:
		if a.claim.Floor < w.shown {
			w.fail("5: a claim with floor %d after token %d was shown", a.claim.Floor, w.shown)
		}
		if a.until <= w.now {
			w.fail("a claim without time")
		}
		w.pending = append(w.pending, a)
	case doRenew:
		if a.t0 != w.now {
			w.fail("2: t0 %v of a renewal that is sent at %v", a.t0, w.now)
		}
		w.pending = append(w.pending, a)
	case doPrepare:
		if tl := w.m.lease.timeline; w.now.Sub(w.proven) > tl.TTL/2 {
			w.fail("1: a start is made ready with less than half of the lease left")
		}
		if w.tree != nil {
			w.tree.leaving = true
		}
		w.pending = append(w.pending, a)
	case doFinish, doAbandon:
		if w.tree != nil && !w.tree.dead {
			w.fail("3: the lease is released while the tree may be alive")
		}
		w.pending = append(w.pending, a)
	case doSearch:
		return []input{searchAnswer{found: w.often()}}
	case doHangUp:
		w.hangUp()
	case doStart:
		return []input{w.start(a)}
	case doExtend:
		if w.tree != nil && !w.tree.leaving {
			if w.tree.termed {
				w.fail("3: a command that was told to end is saved by a renewal")
			}
			w.tree.deadline = a.deadline
		}
	case doSignal, doTerminate:
		if _, ok := a.(doTerminate); ok {
			w.tree.termed = true
		}
		if w.tree.alive && w.often() {
			w.die(lifeline.Status{Known: true, Signal: syscall.SIGTERM})
		}
	case doKill:
		w.tree.killed = true
		w.kill()
	case doAnswer:
		if !w.asked[a.number] {
			w.fail("a check is answered that was not asked, or twice")
		}
		delete(w.asked, a.number)
		if a.err == nil && (a.until > w.expires || w.heard) {
			w.fail("1: a check is told that the run leads until %v, the lease ends at %v", a.until, w.expires)
		}
	}
	return nil
}

// hangUp ends requests. A claim's answer is waited for, and that of a release was not asked yet.
func (w *world) hangUp() {
	var kept []action
	for _, a := range w.pending {
		if _, ok := a.(doClaim); ok {
			kept = append(kept, a)
		}
	}
	w.pending = kept
}

func (w *world) start(a doStart) input {
	switch {
	case w.tree != nil && !w.tree.dead:
		w.fail("3: a try is started while the tree before may be alive")
	case w.now >= w.m.lease.timeline.Deadline(w.proven).Term || w.now >= w.expires || w.heard:
		w.fail("1: the command is started at %v, the lease ends at %v", w.now, w.expires)
	case w.stopped:
		w.fail("the command is started although our caller stopped the run")
	case w.tree != nil && w.readyAt >= w.tree.deadline.End:
		w.fail("1: the guardian of the try before has given back what it shares with the next one")
	}
	w.now = w.now.Add(w.upTo(time.Second))
	if w.seldom() {
		return startAnswer{errors.New("no such file")}
	}
	w.tree = &simTree{deadline: a.deadline, alive: true, immortal: w.seldom() && !w.calm}
	if w.seldom() {
		w.tree.orphaned = true
		w.tree.queue = append(w.tree.queue, lifeline.Event{Kind: lifeline.GuardianLost, Err: lifeline.ErrGuardian})
		w.confirmDead()
		return startAnswer{lifeline.ErrGuardian}
	}
	return startAnswer{}
}

// die ends the command. What it leaves behind may live on.
func (w *world) die(s lifeline.Status) {
	t := w.tree
	if t.exited {
		return
	}
	t.exited, t.status = true, s
	t.queue = append(t.queue, lifeline.Event{Kind: lifeline.Exited, Status: s})
	if w.often() {
		t.queue = append(t.queue, lifeline.Event{Kind: lifeline.Leftovers, Count: 1})
		return
	}
	w.confirmDead()
}

func (w *world) kill() {
	t := w.tree
	switch {
	case !t.alive:
	case t.immortal:
		t.queue = append(t.queue, lifeline.Event{Kind: lifeline.Unconfirmed, Count: 1})
	default:
		if !t.exited {
			t.exited, t.status = true, lifeline.Status{Known: true, Signal: syscall.SIGKILL}
			t.queue = append(t.queue, lifeline.Event{Kind: lifeline.Exited, Status: t.status})
		}
		w.confirmDead()
	}
}

// confirmDead confirms that the whole tree is dead, which must be so before the lease can be another's.
func (w *world) confirmDead() {
	t := w.tree
	if t.alive && !t.immortal && !w.gone && w.now >= w.expires {
		w.fail("3: the tree dies at %v, the lease ended at %v", w.now, w.expires)
	}
	t.alive = false
	t.queue = append(t.queue, lifeline.Event{Kind: lifeline.Dead, Status: t.status})
}

// pass lets time pass. The guardian kills in time, whatever the wrapper does.
func (w *world) pass(d time.Duration) {
	end := w.now.Add(d)
	if t := w.tree; t != nil && t.alive && !t.immortal && end >= t.deadline.Kill {
		w.now = max(w.now, t.deadline.Kill.Add(w.upTo(killBudget)))
		w.kill()
	}
	w.now = max(w.now, end)
}

// check compares what the machine believes with the truth.
func (w *world) check(before phase, in input) {
	m, l := w.m, &w.m.lease
	if e, ok := in.(woken); ok && m.next <= w.now && !m.wantsIdle() {
		w.fail("the machine wants to be woken again and again: %v", e)
	}
	if _, isHeld := m.phase.(held); isHeld {
		if l.sentAt != w.proven {
			w.fail("2: the lease counts from %v, the request that was answered was sent at %v", l.sentAt, w.proven)
		}
		if l.deadline.End > l.timeline.Deadline(w.proven).End || l.validUntil() > w.expires && !w.gone {
			w.fail("1: the lease is believed until %v, it ends at %v", l.validUntil(), w.expires)
		}
	}
	if t := w.tree; t != nil && !t.dead {
		switch m.phase.(type) {
		case starting, running, sweeping, over:
		default:
			w.fail("3: a tree that may be alive in %T", m.phase)
		}
		_, isStarting := m.phase.(starting)
		switch believes := l.timeline.Deadline(w.proven); {
		case isStarting, t.killed, t.orphaned:
		case w.heard, w.now >= believes.Kill:
			w.fail("1: a tree is left alive past its deadline, or without a lease")
		case w.now >= believes.Term && !t.termed:
			w.fail("1: a command goes on past its deadline")
		}
	}
	if changed := changedOutcome(before, m.phase, in); changed != "" {
		w.fail("4: %s", changed)
	}
	if p, ok := m.phase.(over); ok {
		if p.result.Floor < w.shown {
			w.fail("5: floor %d after token %d was shown", p.result.Floor, w.shown)
		}
		if len(w.asked) > 0 {
			w.fail("%d checks are left without an answer", len(w.asked))
		}
	}
}

// changedOutcome compares the outcome of a command that has ended for good with what becomes of it by an input.
func changedOutcome(before, after phase, in input) string {
	was, ok := before.(sweeping)
	if !ok || was.follows {
		return ""
	}
	var now backends.Outcome
	switch p := after.(type) {
	case sweeping:
		now = p.cause.outcome(p.status)
	case releasing:
		now = p.outcome
	case over:
		return ""
	default:
		return fmt.Sprintf("a command that has ended for good comes to %T", p)
	}
	s, isSignal := in.(signal)
	if then := was.cause.outcome(was.status); now != then && now.State != backends.Lost && !(isSignal && s.sig == was.status.Signal) {
		return fmt.Sprintf("the outcome changes from %v to %v", then, now)
	}
	return ""
}

// answer answers one request.
func (w *world) answer() {
	i := w.IntN(len(w.pending))
	a := w.pending[i]
	w.pending = append(w.pending[:i:i], w.pending[i+1:]...)
	switch a := a.(type) {
	case doClaim:
		w.step(w.answerClaim(a))
	case doRenew:
		w.step(w.answerRenewal(a))
	case doPrepare:
		w.readyAt = w.now
		w.step(prepared{})
	case doFinish, doAbandon:
		w.step(releaseAnswer{w.trouble()})
	}
}

func (w *world) trouble() error {
	switch {
	case w.calm, w.often():
		return nil
	case w.seldom():
		return backends.ErrLost
	}
	return errRefused
}

func (w *world) answerClaim(a doClaim) input {
	p, ok := w.m.phase.(claiming)
	if !ok { // nobody looks at the answer any more
		return claimAnswer{err: errRefused}
	}
	t0 := p.t0
	switch n := w.IntN(10); {
	case !w.calm && n < 2:
		return claimAnswer{err: errRefused}
	case n < 5:
		r := backends.Refusal{Verdict: []backends.Verdict{
			backends.Held, backends.Held, backends.Vanished, backends.Quarantined, backends.Outdated, backends.IsDone,
		}[w.IntN(6)]}
		r.Wait, r.Token = w.upTo(20*time.Second), w.shown+w.Int64N(3)
		r.Seen = backends.LastSeen{Token: r.Token, Beat: w.Int64N(3)}
		w.shown = r.Token
		return claimAnswer{err: &r}
	case n == 5 && w.seldom():
		return claimAnswer{err: backends.Misconfigured("", "no such database")}
	}
	if w.now >= w.m.request.Timeline.Deadline(t0).Term { // the machine gives it up
		w.shown = max(w.shown, a.claim.Floor) + 1
		return claimAnswer{grant: backends.Grant{Token: w.shown, TTL: a.claim.TTL, Claim: a.claim}}
	}
	w.shown = max(w.shown, a.claim.Floor) + 1 + w.Int64N(3)
	w.expires, w.proven = t0.Add(a.claim.TTL), t0
	return claimAnswer{grant: backends.Grant{Token: w.shown, TTL: a.claim.TTL, Claim: a.claim, Tick: a.claim.Tick}}
}

func (w *world) answerRenewal(a doRenew) input {
	if a.grant.Token != w.shown {
		w.fail("5: token %d is renewed after %d", a.grant.Token, w.shown)
	}
	s := backends.RenewAnswer{}
	switch {
	case w.gone, a.t0 >= w.expires: // somebody else may have been granted
		w.heard, w.gone = true, true
		return renewAnswer{doRenew: a, err: backends.ErrLost}
	case !w.calm && w.often(), w.calm && w.tree != nil && w.tree.immortal: // else its lease is kept for ever
		return renewAnswer{doRenew: a, err: errRefused}
	case w.seldom():
		s.Break = &backends.BreakRequest{Token: a.grant.Token}
	}
	w.expires = max(w.expires, a.t0.Add(a.grant.TTL))
	if w.now < w.m.lease.timeline.Deadline(w.proven).End { // else the machine must not believe it
		w.proven = max(w.proven, a.t0)
	}
	return renewAnswer{doRenew: a, answer: s}
}

// disturb gives the machine an input at random.
func (w *world) disturb() {
	t := w.tree
	switch n := w.IntN(20); {
	case n < 5 && len(w.pending) > 0:
		w.answer()
	case n < 9 && t != nil && len(t.queue) > 0:
		w.deliver()
	case n == 9 && t != nil && t.alive:
		w.die(lifeline.Status{Known: true, Code: w.IntN(3)})
	case n == 10 && t != nil && t.alive && t.exited && !t.immortal:
		w.confirmDead()
	case n == 11 && t != nil && t.alive && !t.orphaned && !t.immortal && w.seldom():
		t.orphaned = true
		t.queue = append(t.queue, lifeline.Event{Kind: lifeline.GuardianLost, Err: lifeline.ErrGuardian})
		w.confirmDead()
	case n == 12 && w.seldom():
		all := []syscall.Signal{syscall.SIGTERM, syscall.SIGINT, syscall.SIGHUP, syscall.SIGQUIT, syscall.SIGUSR1}
		w.step(signal{all[w.IntN(len(all))]})
	case n == 13 && w.seldom():
		w.gone = w.gone || t != nil && w.often()
	case n == 14 && w.seldom() && w.often():
		if _, isPrepared := w.m.phase.(starting); !isPrepared {
			w.stopped = true
			w.step(cancelled{errEnough})
		}
	case n == 15 && !w.m.isAsking():
		w.step(leaseNews{backends.News{Look: w.often(), Seen: backends.LastSeen{Token: w.Int64N(3), Beat: w.Int64N(3)}}})
	case n == 16:
		w.asks++
		w.asked[w.asks] = true
		w.step(question{w.asks})
	case n == 17:
		w.pass(w.upTo(3 * time.Second))
	case n == 18 && w.seldom():
		w.pass(w.upTo(30 * time.Second)) // the machine slept
	case len(w.pending) > 0 && w.IntN(4) > 0: // most requests are answered before anything else is due
		w.answer()
	default:
		w.goOn()
	}
}

// deliver tells the machine what the tree told first.
func (w *world) deliver() {
	t := w.tree
	e := t.queue[0]
	t.queue = t.queue[1:]
	t.dead = e.Kind == lifeline.Dead
	w.step(treeEvent{e})
}

// goOn wakes the machine when it wants that.
func (w *world) goOn() {
	if w.m.wantsIdle() {
		w.step(idle{})
		return
	}
	if w.m.next != never && (w.calm || w.m.next < w.now.Add(time.Minute)) {
		w.pass(max(w.m.next.Sub(w.now), 0))
		w.step(woken{})
	}
}

// live lets the machine live in a troubled world, and then in a calm one, in which it must come to an end.
func (w *world) live() {
	w.step(begin{})
	isOver := func() bool { _, ok := w.m.result(); return ok || w.wrong != "" }
	for range 60 + w.IntN(200) {
		if isOver() {
			return
		}
		w.disturb()
	}
	w.calm = true
	for i := range 500 {
		t := w.tree
		switch {
		case isOver():
			return
		case i == 0 || i == 100:
			w.step(signal{syscall.SIGTERM})
		case len(w.pending) > 0:
			w.answer()
		case t != nil && len(t.queue) > 0:
			w.deliver()
		case t != nil && t.alive && !t.immortal:
			w.die(lifeline.Status{Known: true})
			if t.alive {
				w.confirmDead()
			}
		default:
			w.goOn()
		}
	}
	w.fail("the run does not end")
}

// TestInvariants feeds machines the inputs of random worlds. The numbers are those of the package comment.
func TestInvariants(t *testing.T) {
	seed, worlds := rand.Uint64(), uint64(6000) //nolint:gosec // a test
	if text := os.Getenv("RUNNER_SEED"); text != "" {
		var err error
		if seed, err = strconv.ParseUint(text, 10, 64); err != nil {
			t.Fatal(err)
		}
	}
	endings := map[Ending]int{}
	for n := range worlds {
		w := newWorld(seed, n)
		w.live()
		if w.wrong != "" {
			again := newWorld(seed, n)
			again.told = true
			again.live()
			t.Fatalf("RUNNER_SEED=%d, world %d: invariant %s\n%s", seed, n, again.wrong, strings.Join(again.trace, "\n"))
		}
		if r, ok := w.m.result(); ok {
			endings[r.Ending]++
		}
	}
	t.Logf("seed %d, endings %v", seed, endings)
	for e := Refused; e <= Unconfirmed; e++ {
		if endings[e] == 0 {
			t.Errorf("RUNNER_SEED=%d: no world of %d came to ending %d: %v", seed, worlds, e, endings)
		}
	}
}
