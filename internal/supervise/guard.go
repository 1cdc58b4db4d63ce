package supervise

import (
	"slices"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/leaderrun/leaderrun/internal/boottime"
	"github.com/leaderrun/leaderrun/internal/lifeline"
	"github.com/leaderrun/leaderrun/internal/panics"
	"github.com/leaderrun/leaderrun/internal/supervise/guardian"
	"github.com/leaderrun/leaderrun/internal/supervise/tree"
)

// eventsBuffer holds every event that one run can have, so that nobody has to read them in time.
const eventsBuffer = 16

// Guard is one guardian and the run that it guards. All methods may be called by several goroutines.
type Guard struct {
	options      Options
	pid          int         // the guardian's
	givenUp      atomic.Bool // it did not come in time, and nobody wants it any more; set with the registry's mutex held
	terminalless bool        // the guardian has a session of its own, and the run with it
	conn         *guardian.Conn
	cgroup       string         // path of the leaf, "" where none can be made
	strays       map[int]uint64 // children of this process from before the guardian, by number: when each started
	timer        *boottime.Timer
	calmAt       boottime.Instant // when memory is given back if little happens until then; 0: it was. run's own
	events       chan lifeline.Event
	inbox        chan guardian.Message    // closed at the end of the channel
	answers      chan guardian.Message    // to Start
	poke         chan struct{}            // the watchdog's times have changed
	over         chan struct{}            // closed once the guardian is reaped
	killed       chan struct{}            // closed once a tree that was taken over was killed to the last process
	calm         sync.Once                // closes it
	leaving      atomic.Bool              // this process may end while the tree is not dead
	terminal     atomic.Pointer[terminal] // set by Start; nil where there is none

	mu      sync.Mutex
	queue   []outgoing // what the guardian's socket did not take at once
	sending bool       // transmit is at work on the queue
	watch   watchdog
	closing bool  // the guardian is sent away, or was lost before anything was started
	failed  bool  // Start gave up waiting: whatever the guardian answers, the run is to die
	loss    error // what became of the guardian, once the wrapper has taken over
}

type outgoing struct {
	frame []byte
	fds   []int
}

func newGuard(options Options) *Guard {
	return &Guard{
		options: options,
		events:  make(chan lifeline.Event, eventsBuffer),
		inbox:   make(chan guardian.Message),
		answers: make(chan guardian.Message, 1),
		poke:    make(chan struct{}, 1),
		over:    make(chan struct{}),
		killed:  make(chan struct{}),
	}
}

// prepare starts the guardian, which then waits for Start.
func (g *Guard) prepare() error {
	options := g.options
	var begun *guardian.Begun
	if options.Begun != nil {
		if b, ok := options.Begun(); ok {
			begun = &b
		}
	}
	timer, err := boottime.NewTimer()
	if err == nil {
		err = tree.Adopt()
	}
	if err != nil {
		dismiss(begun)
		return err
	}
	g.timer = timer
	switch {
	case begun != nil: // there was no child before it
	case options.Detached:
		g.strays = firstChildren()
	default:
		g.strays = knownChildren()
	}
	g.calmLater()
	if err := g.spawn(begun); err != nil {
		timer.Stop()
		return err
	}
	if !options.withoutCgroup {
		g.cgroup = newCgroupPath()
	}
	if g.cgroup != "" {
		g.send(guardian.Message{Kind: guardian.Setup, Strings: []string{g.cgroup}})
	}
	panics.Go(g.receive)
	panics.Go(g.run)
	reserve(options.Detached)
	return nil
}

// Start runs the command and returns when exec(2) has succeeded or failed: *ExecError, ErrTooLate, or
// ErrGuardian. It returns no later than d.End, also when the guardian is stopped. After any other error nothing was
// started.
func (g *Guard) Start(c Command, d lifeline.Deadline) error {
	if len(c.Argv) == 0 || len(c.Inherit)+len(c.Hold) > guardian.MaxInherit {
		return errState
	}
	now := boottime.Now()
	if now >= d.Term {
		return ErrTooLate
	}
	limit, err := boottime.NewTimer()
	if err != nil {
		return err
	}
	defer limit.Stop()
	limit.Set(d.End)
	g.mu.Lock()
	switch {
	case g.watch.phase != notBegun:
		g.mu.Unlock()
		return errState
	case g.closing || g.isOver():
		g.mu.Unlock()
		return ErrGone
	}
	var t *terminal
	if !g.options.Detached {
		t = findTerminal()
	}
	g.terminal.Store(t)
	request := guardian.StartRequest{
		Deadline: d, Grace: c.Grace,
		Group: t.sharedGroup(), WatchStops: t != nil && t.foreground,
		Path: c.Path, Dir: c.Dir, Socket: c.Socket, Holder: c.Holder, Argv: c.Argv, Env: c.Env, As: c.As, Inherit: len(c.Inherit),
	}
	fds, err := duplicates(slices.Concat(c.Inherit, c.Hold))
	if err != nil {
		g.mu.Unlock()
		return err
	}
	g.watch.start(d, now)
	g.enqueue(request.Message().Encode(), fds)
	g.mu.Unlock()
	g.look()
	return g.awaitStart(c, d.End, limit)
}

// awaitStart waits for the guardian's answer until end, at which limit fires.
func (g *Guard) awaitStart(c Command, end boottime.Instant, limit *boottime.Timer) error {
	for {
		select {
		case m, ok := <-g.answers:
			switch {
			case !ok:
				return g.whyLost()
			case m.Number(0) != 0:
				return nil
			case m.Number(2) != 0:
				return ErrTooLate
			}
			return &ExecError{Path: c.Path, Errno: syscall.Errno(m.Number(1))}
		case <-limit.C():
			if boottime.Now() >= end && g.fail() {
				g.Kill(true)
				return guardianLost(notStarted)
			}
		}
	}
}

// fail gives up waiting for the guardian's answer. false: it has said already that nothing was started, and nobody would tell of a death.
func (g *Guard) fail() bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.failed = g.watch.phase != notBegun
	return g.failed
}

// whyLost is an ErrGuardian that says as much as is known.
func (g *Guard) whyLost() error {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.loss != nil {
		return g.loss
	}
	return ErrGuardian
}

// Extend lets the run live until a later deadline; one that is not later is ignored. It never waits.
func (g *Guard) Extend(d lifeline.Deadline) {
	g.mu.Lock()
	if frame := g.watch.extend(d, boottime.Now()); frame != nil {
		g.enqueue(frame, nil)
	}
	g.mu.Unlock()
	g.look()
}

// Signal passes a signal on: TERM (followed by CONT), INT, HUP and QUIT to the command's process group,
// others to the command alone. On a terminal where the command shares our group, INT and QUIT are not
// passed on: the terminal has already done it.
func (g *Guard) Signal(n syscall.Signal) {
	if !g.terminal.Load().delivers(n) {
		g.send(guardian.Message{Kind: guardian.Signal, Numbers: []int64{int64(n)}})
	}
}

// Terminate sends SIGTERM now; SIGKILL follows at the deadline, unless that is extended.
func (g *Guard) Terminate() { g.send(guardian.Message{Kind: guardian.Terminate}) }

// Kill sends SIGKILL to the whole tree now. If the guardian does not begin in time, or falls silent over it, the wrapper kills it and
// the tree itself: at once if the lease is lost, otherwise after five seconds or at the deadline.
func (g *Guard) Kill(lost bool) {
	g.mu.Lock()
	g.watch.askKill(boottime.Now(), lost)
	g.mu.Unlock()
	g.send(guardian.Message{Kind: guardian.Kill})
	g.look()
}

// Events tells what becomes of the tree. It is closed after Dead, or by Close where nothing was started.
func (g *Guard) Events() <-chan lifeline.Event { return g.events }

// Close ends the guardian of a run that is dead or was never started, and removes the cgroup. While the
// tree is not confirmed dead it returns an error, but not before all that a dead guardian leaves to this process was killed.
// It can be called repeatedly.
func (g *Guard) Close() error {
	if err := g.Dismiss(); err != nil {
		return err
	}
	<-g.over
	return nil
}

// Dismiss is Close without the wait: the guardian's end costs time in which its wrapper can do something else.
func (g *Guard) Dismiss() error {
	g.mu.Lock()
	if g.watch.phase.mayLive() && !g.isOver() {
		g.mu.Unlock()
		g.killAll()
		if !g.isOver() {
			return errState
		}
		g.mu.Lock()
	}
	if !g.closing {
		g.closing = true
		g.enqueue(guardian.Message{Kind: guardian.Dismiss}.Encode(), nil)
	}
	g.mu.Unlock()
	g.look()
	return nil
}

func (g *Guard) isOver() bool {
	select {
	case <-g.over:
		return true
	default:
		return false
	}
}

func (g *Guard) send(m guardian.Message) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.enqueue(m.Encode(), nil)
}

// enqueue needs g.mu. It sends what the socket takes at once, without a goroutine in between, and never waits.
// A guardian that reads nothing gets no more than the queue holds: the watchdog ends it soon.
func (g *Guard) enqueue(frame []byte, fds []int) {
	const most = 1024
	switch {
	case !g.sending:
		rest, err := g.conn.TrySend(frame, fds)
		if err != nil || len(rest) == 0 {
			closeAll(fds) // after an error the guardian is dead, or does not acknowledge what it did not get
			return
		}
		if len(rest) < len(frame) { // the descriptors travelled with the first byte
			closeAll(fds)
			fds = nil
		}
		g.queue, g.sending = append(g.queue, outgoing{rest, fds}), true
		panics.Go(g.transmit)
	case len(g.queue) < most:
		g.queue = append(g.queue, outgoing{frame, fds})
	default:
		closeAll(fds)
	}
}

// transmit is the goroutine that may wait for the guardian to read, so that no caller has to. The end of the
// channel ends the wait.
func (g *Guard) transmit() {
	for {
		g.mu.Lock()
		queue := g.queue
		g.queue, g.sending = nil, len(queue) > 0
		g.mu.Unlock()
		if len(queue) == 0 {
			return
		}
		for _, o := range queue {
			_ = g.conn.Send(o.frame, o.fds)
			closeAll(o.fds)
		}
	}
}

// look makes the watchdog look again: its times have changed, or it is to leave.
func (g *Guard) look() {
	select {
	case g.poke <- struct{}{}:
	default:
	}
}

func (g *Guard) receive() {
	defer close(g.inbox)
	for {
		m, _, err := g.conn.Receive()
		if err != nil {
			return
		}
		select {
		case g.inbox <- m:
		case <-g.over:
			return
		}
	}
}

func (g *Guard) warn(message string) {
	if g.options.Warn != nil {
		g.options.Warn(message)
	}
}

// graceToAnswer is how long a guardian may take to begin what it must do at once.
const graceToAnswer = 100 * time.Millisecond
