package runner

import (
	"os"
	"syscall"
	"time"

	"github.com/leaderrun/leaderrun/backends"
	"github.com/leaderrun/leaderrun/internal/lifeline"
)

// machine is one attempt to run a job: one holder, from the claim to the release. It decides everything and does nothing: it
// has no clock, no channel, no goroutine and no source of random numbers. Copies of a machine do not share state that changes, so
// tests can copy one and go on with both.
type machine struct {
	request Request // without its functions, channels and contexts: those are the loop's
	watches bool    // whether a holder watches its own lease
	claim   backends.Claim

	phase     phase
	candidate candidate // used until the lease is granted
	lease     lease     // used from then on
	tries     int       // how often the machine wanted the command started

	refusal *backends.Refusal // the last answer no to a claim
	signal  syscall.Signal    // the last ending signal that was received

	moment
	actions []action
	next    Instant // when the next thing is due
}

// moment is what the loop reads after an input has come.
type moment struct {
	now    Instant
	wall   time.Time
	chance float64 // random, in [0, 1), so that hosts do not act in step
}

// phase is where an attempt stands. Its fields are what only that phase needs.
type phase interface {
	on(m *machine, in input) phase // takes an input
}

// timed is a phase that also waits for instants.
type timed interface {
	due(m *machine) phase // does what is due, and compares instants only with m.reached, which also sets the timer
}

// held is a phase in which the machine has a lease, and renews it or is about to use it. (The verdict of that name is about the lease
// of somebody else.)
type held interface {
	phase
	timed
	lose(m *machine, how loss) phase // the store says that the lease is lost, or it was not renewed in time
	end(m *machine, s stop) phase    // the run must end for another reason: the lease is still ours
	pass(m *machine, sig syscall.Signal) phase
}

// newMachine returns the machine of a new holder.
func newMachine(req Request, limits backends.Limits, holder string) *machine {
	m := &machine{watches: limits.HolderWatches, phase: sleeping{}}
	m.candidate = candidate{behind: behindNobody, maySearch: req.FindUnclaimed != nil}
	req.Tree, req.Env, req.FindUnclaimed, req.Checks, req.Signals, req.Wanted = nil, nil, nil, nil, nil, nil
	m.request = req
	m.claim = backends.Claim{
		Job: req.Job, Holder: req.Host, Inside: req.Inside, TTL: req.Timeline.TTL, Floor: req.Floor, MinHold: req.MinHold, Trigger: req.Trigger,
	}
	m.claim.Holder.ID = holder
	return m
}

// step takes an input and returns the actions that follow, in order. It checks the lease's deadline before it looks at the input:
// after a suspend or a stop of this process, no answer that has arrived meanwhile may move the deadline, and an end of the command
// that the machine hears of after Term does not save the run. It checks everything else that is due, such as the timeout, after
// the input: so an end of the command that came in time counts.
func (m *machine) step(at moment, in input) []action {
	m.moment, m.actions = at, nil
	m.expire()
	m.phase = m.phase.on(m, in)
	for done := -1; done < len(m.actions); { // until nothing is due any more
		done, m.next = len(m.actions), never
		m.expire()
		if p, ok := m.phase.(timed); ok {
			m.phase = p.due(m)
		}
	}
	return m.actions
}

// expire ends the run when the lease was not renewed in time.
func (m *machine) expire() {
	if p, ok := m.phase.(held); ok && m.reached(m.lease.term()) {
		m.phase = p.lose(m, expired)
	}
}

// reached says whether an instant has come. If not, it also has the loop wake the machine at that instant.
func (m *machine) reached(at Instant) bool {
	m.next = min(m.next, at)
	return m.now >= at
}

// wantsIdle says whether the machine would start the command, or prepare that, if no other input is waiting.
func (m *machine) wantsIdle() bool {
	p, ok := m.phase.(interface{ ready(m *machine) bool })
	return ok && p.ready(m)
}

// isAsking says whether a claim is under way. The loop keeps news until the answer has come: the machine can use them only then.
func (m *machine) isAsking() bool {
	_, ok := m.phase.(claiming)
	return ok
}

// result returns the result of the attempt, once it is over.
func (m *machine) result() (Result, bool) {
	p, ok := m.phase.(over)
	return p.result, ok
}

func (m *machine) do(a action) { m.actions = append(m.actions, a) }

// after returns the instant that lies d ahead.
func (m *machine) after(d time.Duration) Instant { return m.now.Add(d) }

// jitter returns a random duration up to limit.
func (m *machine) jitter(limit time.Duration) time.Duration {
	return time.Duration(m.chance * float64(limit))
}

// pause returns how long to wait before the next request, after so many failures in a row. The first repetition follows at once.
func (m *machine) pause(failures int) time.Duration {
	if failures <= 1 {
		return 0
	}
	pause := min(firstPause<<min(failures-2, 8), lastPause)
	return pause/2 + m.jitter(pause/2)
}

// note says whether a signal ends a run, and remembers it if it does.
func (m *machine) note(sig syscall.Signal) bool {
	if lifeline.EndsRun(sig) {
		m.signal = sig
	}
	return lifeline.EndsRun(sig)
}

// Pauses between requests.
const (
	firstPause = 100 * time.Millisecond
	lastPause  = time.Second
	minLook    = 100 * time.Millisecond // between two looks at a job that is held, without a notification
	maxJitter  = 500 * time.Millisecond
	// minClaimTime is the shortest time that a claim gets, even when patience is about to end: a slow store is not a dead one. Only the
	// start deadline of a tick can make it shorter.
	minClaimTime   = time.Second
	withdrawalTime = time.Second // how long a wrapper that gives up tries to take its claim back
	returnTime     = time.Second // how long a driver may take to return from a request whose context has ended

	nearTick = 2 * time.Second // the machine waits for a tick that is at most this far ahead: cron may be early after a clock step
)

// input is something that the machine hears of.
type input any

// The inputs. Each action that asks for an answer gets exactly one. After doHangUp only the answer to a claim is certain to
// come.
type (
	begin       struct{} // the first one
	woken       struct{} // the timer: something may be due
	idle        struct{} // no other input is waiting
	signal      struct{ sig syscall.Signal }
	cancelled   struct{ err error }  // our caller wants the run to end
	unwanted    struct{ err error }  // our caller wants nothing to start any more
	question    struct{ number int } // a check that wants an answer
	leaseNews   struct{ backends.News }
	watchClosed struct{}
	treeEvent   struct{ lifeline.Event }
	claimAnswer struct {
		grant backends.Grant
		err   error
	}
	searchAnswer struct {
		unclaimed backends.Unclaimed
		found     bool
	}
	renewAnswer struct {
		doRenew // the request that is answered
		answer  backends.RenewAnswer
		err     error
	}
	releaseAnswer struct{ err error }
	prepared      struct{}            // the command can be started
	startAnswer   struct{ err error } // nil: the command runs; lifeline.ErrGuardian: it may run; any other: it does not
)

// action is something that the loop does for the machine.
type action interface{ perform(l *loop) }

// The actions.
type (
	doTell  struct{ event Event }
	doClaim struct { // a claimAnswer follows
		claim backends.Claim
		until Instant
	}
	doSearch struct{ refusal backends.Refusal } // a searchAnswer follows
	doWatch  struct{}                           // leaseNews follow
	doRenew  struct {                           // a renewAnswer follows
		grant     backends.Grant
		number    int
		t0, until Instant
		forCheck  bool // it goes out because a check waits for it, not because it is due
	}
	doFinish struct { // a releaseAnswer follows
		grant   backends.Grant
		outcome backends.Outcome
		until   Instant
	}
	doAbandon struct { // a releaseAnswer follows
		claim backends.Claim
		until Instant
	}
	doHangUp  struct{} // ends the watch and all requests that are under way
	doPrepare struct{ grant backends.Grant }
	doStart   struct { // a startAnswer follows
		hold, inherit []*os.File
		deadline      Deadline
	}
	doExtend    struct{ deadline Deadline }
	doSignal    struct{ sig syscall.Signal }
	doTerminate struct{}
	doKill      struct{ lost bool }
	doDismiss   struct{} // sends the guardian of the last tree away
	doAnswer    struct { // answers a check: until when the run leads, or why it does not
		number int
		until  Instant
		err    error // why not, in words that anybody may read
		cause  error // what the backend says of it; nil: nothing
	}
)

// over is the end of the attempt.
type over struct{ result Result }

func (p over) on(*machine, input) phase { return p }

// finish ends the attempt: nothing follows but what hangs up requests and dismisses the guardian, which stays if the tree may still
// live. What records a run's end in the store came before (doFinish).
func (m *machine) finish(r Result) phase {
	r.Refusal, r.Grant, r.Signal = m.refusal, m.lease.grant, m.signal
	r.Floor = max(m.claim.Floor, m.lease.grant.Token)
	m.do(doHangUp{})
	if r.Ending != Unconfirmed {
		m.do(doDismiss{})
	}
	return over{r}
}
