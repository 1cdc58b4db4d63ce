package runner

import (
	"os"
	"syscall"
	"time"

	"github.com/leaderrun/leaderrun/backends"
	"github.com/leaderrun/leaderrun/internal/lifeline"
)

// machine is one attempt to run a job: one holder, from the claim to the release. It decides everything and does nothing: it
// has no clock, no channel, no goroutine and no chance of its own. A copy of a machine goes its own way.
type machine struct {
	request Request // without its functions, channels and contexts: those are the loop's
	watches bool    // a holder watches its own lease
	claim   backends.Claim

	phase     phase
	candidate candidate // what counts until the lease is granted
	lease     lease     // what counts from then on
	tries     int       // how often the command was to be started

	refusal *backends.Refusal // the last one
	signal  syscall.Signal    // the last ending signal that was received

	moment
	actions []action
	next    Instant // when something is due
}

// moment is what the loop reads after an input has come.
type moment struct {
	now    Instant
	wall   time.Time
	chance float64 // in [0, 1): so that hosts do not act in step
}

// phase is where an attempt stands, with what is known only there.
type phase interface {
	on(m *machine, in input) phase // takes an input
}

// timed is a phase that also waits for instants.
type timed interface {
	due(m *machine) phase // does what is due, and asks for every instant with m.reached
}

// held is a phase under a lease that is being renewed or about to be used.
type held interface {
	phase
	timed
	lose(m *machine, how loss) phase // the lease is lost, or given up
	end(m *machine, s stop) phase    // the run is to end for a reason that leaves the lease ours
	pass(m *machine, sig syscall.Signal) phase
}

// newMachine returns the machine of a new holder.
func newMachine(req Request, limits backends.Limits, holder string) *machine {
	m := &machine{watches: limits.HolderWatches, phase: sleeping{}}
	m.candidate = candidate{behind: behindNobody, mayProve: req.Prove != nil}
	req.Tree, req.Env, req.Prove, req.Checks, req.Signals, req.Wanted = nil, nil, nil, nil, nil, nil
	m.request = req
	m.claim = backends.Claim{
		Job: req.Job, Holder: req.Host, TTL: req.Timeline.TTL, Floor: req.Floor, MinHold: req.MinHold, Trigger: req.Trigger,
	}
	m.claim.Holder.ID = holder
	return m
}

// step takes an input and returns what is to be done, in order. The deadline of the lease applies before the input: after a
// suspend or a stop of this process, nothing that has arrived puts it off, and an end of the command that is heard of after Term
// does not save the run. What else is due, as the timeout, comes after the input, so that an end that came in time counts.
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

// expire gives the lease up when it was not renewed in time.
func (m *machine) expire() {
	if p, ok := m.phase.(held); ok && m.reached(m.lease.term()) {
		m.phase = p.lose(m, expired)
	}
}

// reached says whether an instant has come, and has the machine woken at it where not.
func (m *machine) reached(at Instant) bool {
	m.next = min(m.next, at)
	return m.now >= at
}

// wantsIdle says whether the machine goes on to the start of the command if nothing else waits to be heard.
func (m *machine) wantsIdle() bool {
	p, ok := m.phase.(interface{ ready(m *machine) bool })
	return ok && p.ready(m)
}

// isAsking says whether a claim is under way: news would be overtaken by its answer.
func (m *machine) isAsking() bool {
	_, ok := m.phase.(claiming)
	return ok
}

// result returns what the attempt came to, once it is over.
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

// pause returns the time before the next request after so many failures in a row. The first repetition follows at once.
func (m *machine) pause(failures int) time.Duration {
	if failures <= 1 {
		return 0
	}
	pause := min(firstPause<<min(failures-2, 8), lastPause)
	return pause/2 + m.jitter(pause/2)
}

// note keeps a signal that ends a run, and says whether it is one.
func (m *machine) note(sig syscall.Signal) bool {
	if endsRun(sig) {
		m.signal = sig
	}
	return endsRun(sig)
}

func endsRun(sig syscall.Signal) bool {
	return asksToEnd(sig) || sig == syscall.SIGHUP || sig == syscall.SIGQUIT
}

// asksToEnd says whether a signal means the end of a command in any case: some use the others for a reload, or a dump.
func asksToEnd(sig syscall.Signal) bool { return sig == syscall.SIGTERM || sig == syscall.SIGINT }

// Pauses between requests.
const (
	firstPause = 100 * time.Millisecond
	lastPause  = time.Second
	minLook    = 100 * time.Millisecond // between two looks at a job that is held, without a notification
	maxJitter  = 500 * time.Millisecond
	// fairTry: no claim gets less, however late it is, but the last one before a start deadline. A slow store is not one that
	// is gone.
	fairTry  = time.Second
	farewell = time.Second // how long a wrapper that gives up tries to take its claim back

	nearTick = 2 * time.Second // a tick that is no further ahead is slept to: cron may be early after a clock step
)

// input is what comes to the machine.
type input any

// The inputs. An answer comes once for each action that asks for it; where the requests were hung up, only that of a claim
// is certain to come.
type (
	begin       struct{} // the first one
	woken       struct{} // perhaps something is due
	idle        struct{} // nothing waits to be heard
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
	proof struct {
		unclaimed backends.Unclaimed
		found     bool
	}
	renewAnswer struct {
		doRenew // the request
		signal  backends.Signal
		err     error
	}
	releaseAnswer struct{ err error }
	prepared      struct{}            // all is ready to start the command
	startAnswer   struct{ err error } // nil: the command runs; lifeline.ErrGuardian: nobody knows; else it does not
)

// action is something that the loop does for the machine. The instants are absolute.
type action interface{ perform(l *loop) }

// The actions.
type (
	doTell  struct{ event Event }
	doClaim struct { // a claimAnswer follows
		claim backends.Claim
		until Instant
	}
	doProve struct{ refusal backends.Refusal } // a proof follows
	doWatch struct{}                           // leaseNews follow
	doRenew struct {                           // a renewAnswer follows
		grant     backends.Grant
		number    int
		t0, until Instant
		forCheck  bool // it goes out because somebody asked, not because it is due
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
	doHangUp  struct{} // ends the watch, and the requests that are under way
	doPrepare struct{ grant backends.Grant }
	doStart   struct { // a startAnswer follows
		hold, inherit []*os.File
		deadline      Deadline
	}
	doExtend    struct{ deadline Deadline }
	doSignal    struct{ sig syscall.Signal }
	doTerminate struct{}
	doKill      struct{}
	doDismiss   struct{} // sends away who watched over the tree that was made last
	doAnswer    struct { // of a check: until when the run leads, or why it does not
		number int
		until  Instant
		err    error
	}
)

// over is the end of the attempt.
type over struct{ result Result }

func (p over) on(*machine, input) phase { return p }

// finish ends the attempt. Who watches over a tree that survives stays.
func (m *machine) finish(r Result) phase {
	r.Refusal, r.Grant, r.Signal = m.refusal, m.lease.grant, m.signal
	r.Floor = max(m.claim.Floor, m.lease.grant.Token)
	m.do(doHangUp{})
	if r.Ending != Unconfirmed {
		m.do(doDismiss{})
	}
	return over{r}
}
