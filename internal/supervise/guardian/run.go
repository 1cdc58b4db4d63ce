package guardian

import (
	"syscall"
	"time"

	"github.com/leaderrun/leaderrun/internal/boottime"
	"github.com/leaderrun/leaderrun/internal/lifeline"
	"github.com/leaderrun/leaderrun/internal/supervise/tree"
)

const (
	heartbeat     = 100 * time.Millisecond // between two Killing messages
	leftoverGrace = time.Second            // the longest time that leftovers get between TERM and KILL
)

// phase is how far the guardian has come.
type phase int

const (
	waiting  phase = iota // no command was started yet
	guarding              // a command was started, and SIGKILL was not sent
	killing               // SIGKILL was sent, and something may be left
	dead                  // nothing is left of the tree
)

// guardian is the state of one run. Only run's goroutine touches it.
type guardian struct {
	phase     phase
	conn      *Conn
	events    *events
	inherited []int  // descriptors that were there before ours, for the command
	out       []byte // told, not yet taken by the wrapper's socket
	gone      bool   // the wrapper closed the channel: it is dead

	cgroup *tree.Cgroup
	locks  []int // descriptors that came with Start

	deadline  lifeline.Deadline
	request   StartRequest
	pid       int              // the command; 0: none was started
	running   bool             // the command has not been reaped: its number is its own
	childless bool             // wait4 says that no child is left
	status    lifeline.Status  // of the command
	termed    bool             // SIGTERM was sent for this deadline
	killAt    boottime.Instant // an earlier SIGKILL than the deadline's, 0: none

	sweeper *tree.Sweeper
	left    int  // what the last sweep found
	calm    bool // it has seen all there was

	endedAt boottime.Instant // the kernel has told that the command has ended, whether it can be waited for or not; 0: it has not

	killedAt  boottime.Instant // when SIGKILL was sent first
	beatAt    boottime.Instant // next Killing message
	toldAlive bool             // Unconfirmed was told
	toldLeft  bool
	dismissed bool
	poll      time.Duration
	pollAt    boottime.Instant
}

type received struct {
	message Message
	fds     []int
	err     error
}

// run serves until nothing is left to guard. Whatever woke it, it first compares the clock with the
// deadlines: after a stop, a thaw or a suspend nothing else may come first.
func (g *guardian) run() int {
	g.awaitStart()
	for {
		g.act()
		g.flush()
		if g.phase == dead { // while the wrapper finishes
			_ = g.cgroup.Remove()
		}
		if g.finished() {
			g.leave()
			return exitDone
		}
		if r, ok := g.await(g.next()); ok {
			g.act()
			g.handle(r)
		}
	}
}

// awaitStart only reads, as long as nothing runs and no deadline counts.
func (g *guardian) awaitStart() {
	for g.phase == waiting && !g.gone && !g.dismissed {
		m, fds, err := g.conn.Receive()
		g.handle(received{m, fds, err})
		g.flush()
	}
}

// finished says whether nothing is left to do: no tree is alive, and the wrapper is dead, has dismissed this guardian, or has been
// told everything while the locks are given back.
func (g *guardian) finished() bool {
	switch {
	case g.phase == guarding || g.phase == killing:
		return false
	case g.gone || g.dismissed:
		return true
	default:
		return g.phase == dead && len(g.out) == 0 && len(g.locks) == 0
	}
}

func (g *guardian) leave() {
	if g.gone && g.phase == dead {
		g.unlock()
	}
	if g.gone {
		removeSocket(g.request.Socket)
	}
	// The last process of a cgroup leaves it a moment after wait4(2) has returned. A wrapper that lives removes it too.
	for range cgroupTries {
		if g.cgroup.Remove() == nil || !g.gone {
			return
		}
		time.Sleep(cgroupPause)
	}
}

const (
	cgroupTries = 100
	cgroupPause = 10 * time.Millisecond
)

// removeSocket removes a socket, and the directory that it was the last one in.
func removeSocket(path string) {
	for end := len(path) - 1; end > 0; end-- {
		if path[end] == '/' {
			_ = syscall.Unlink(path)
			_ = syscall.Rmdir(path[:end])
			return
		}
	}
}

// next is when to look again if nothing happens.
func (g *guardian) next() boottime.Instant {
	const never = boottime.Instant(1<<63 - 1)
	at := never
	soonest := func(t boottime.Instant) {
		if t != 0 && t < at {
			at = t
		}
	}
	if len(g.out) > 0 {
		soonest(boottime.Now().Add(tree.SlowestPoll))
	}
	switch g.phase {
	case waiting:
	case guarding:
		soonest(g.pollAt)
		soonest(g.killAt)
		soonest(g.deadline.Kill)
		soonest(g.hiddenAt())
		if !g.termed {
			soonest(g.deadline.Term)
		}
	case killing:
		soonest(g.pollAt)
		soonest(g.beatAt)
	case dead:
		if len(g.locks) > 0 {
			soonest(g.deadline.End) // and a wrapper that does not come for them
		}
	}
	return at
}

// act does what the clock and the children ask for.
func (g *guardian) act() {
	now := boottime.Now()
	switch g.phase {
	case waiting:
		return
	case dead:
		if now >= g.deadline.End {
			g.unlock()
		}
		return
	case guarding:
		if now >= g.deadline.Term && !g.termed {
			g.reap() // what has ended by itself is not told to
		}
		switch {
		case now >= g.deadline.Kill:
			if !g.termed && !g.empty() { // the machine or this process slept through the time of SIGTERM
				g.termed = true
				g.tell(Message{Kind: Termed})
			}
			g.kill(now)
		case g.killAt != 0 && now >= g.killAt, g.hiddenAt() != 0 && now >= g.hiddenAt():
			g.kill(now)
		case now >= g.deadline.Term && !g.termed && !g.empty():
			g.terminate()
			g.tell(Message{Kind: Termed})
		}
	case killing:
	}
	g.reap()
	if g.running && g.phase == guarding {
		return
	}
	g.confirm(boottime.Now())
}

// hiddenAt is when all that is left is killed because the command has ended and cannot be waited for: a process outside traces it, and
// does not look. 0: it has not ended, or its status was taken.
func (g *guardian) hiddenAt() boottime.Instant {
	if !g.running || g.endedAt == 0 {
		return 0
	}
	return g.endedAt.Add(lifeline.KillBudget)
}

// confirm finds out what is left once the command has ended or SIGKILL was sent.
func (g *guardian) confirm(now boottime.Instant) {
	if g.empty() || g.isTracedOnly(now) {
		g.phase = dead
		g.tell(statusMessage(Dead, g.status))
		if now >= g.deadline.Term { // the wrapper may be stopped: nobody is to wait for it
			g.unlock()
		}
		return
	}
	if g.phase == killing {
		g.killAgain(now)
		return
	}
	if now < g.pollAt {
		return
	}
	if !g.toldLeft {
		g.endLeftovers(now)
	}
	g.pollLater(now)
}

// endLeftovers gives what outlived the command a SIGTERM and little time.
func (g *guardian) endLeftovers(now boottime.Instant) {
	g.soonerKill(now.Add(min(g.request.Grace, leftoverGrace)))
	found, others := g.alive()
	count := len(found) + len(others)
	if count == 0 && groupLeft(g.ownGroup()) {
		count = 1 // at least: nobody can count them here
	}
	if count > 0 {
		g.toldLeft = true
		g.tell(Message{Kind: Leftovers, Numbers: []int64{int64(count)}})
		g.signalAll(syscall.SIGTERM)
		g.signalAll(syscall.SIGCONT)
	}
}

// pollLater sets the next look at what dies without a SIGCHLD for us: grandchildren whose parent lives,
// and a cgroup that empties a moment after wait4(2) has returned.
func (g *guardian) pollLater(now boottime.Instant) {
	g.poll = tree.NextPoll(g.poll, g.phase == killing && !g.calm && now < g.killedAt.Add(tree.LongestStorm))
	g.pollAt = now.Add(g.poll)
}

// empty is the proof of death: no child is left (every orphan below is ours, we are its subreaper) and
// nothing is in the cgroup.
func (g *guardian) empty() bool {
	if !g.childless {
		return false
	}
	g.sweeper.Release()
	defer g.sweeper.Reserve()
	return !g.cgroup.Populated() && !groupLeft(g.ownGroup())
}

// isTracedOnly is the proof of death where a process outside traces what runs no more code, and would keep it for ever. The tracer has
// had time to look by then. isTracedOnly also tells the wrapper.
func (g *guardian) isTracedOnly(now boottime.Instant) bool {
	if g.phase != killing || !g.calm || now < g.killedAt.Add(lifeline.KillBudget) {
		return false
	}
	g.sweeper.Release()
	defer g.sweeper.Reserve()
	tracer := tree.TracedOnly(syscall.Getpid(), nil, g.cgroup)
	if tracer == 0 {
		return false
	}
	g.tell(Message{Kind: Unconfirmed, Numbers: []int64{0, int64(tracer)}})
	return true
}

func (g *guardian) kill(now boottime.Instant) {
	g.phase, g.killedAt, g.poll = killing, now, 0
	g.tell(Message{Kind: Killing}) // before the work: a large tree takes longer than the wrapper's patience
	g.flush()
	g.beatAt = now.Add(heartbeat)
	g.sweep()
	g.pollLater(now)
}

func (g *guardian) killAgain(now boottime.Instant) {
	g.beat()
	if now >= g.pollAt {
		g.sweep()
		g.pollLater(now)
	}
	if !g.toldAlive && now >= g.killedAt.Add(lifeline.KillBudget) {
		g.toldAlive = true
		g.tell(Message{Kind: Unconfirmed, Numbers: []int64{int64(max(g.left, len(g.cgroup.Processes()), 1))}})
	}
}

// sweep sends SIGKILL to the whole tree, by every means there is.
func (g *guardian) sweep() {
	g.sweeper.Release()
	defer g.sweeper.Reserve()
	g.cgroup.Kill()
	if group := g.ownGroup(); group > 0 && (g.running || groupLeft(group)) {
		_ = syscall.Kill(-group, syscall.SIGKILL)
	}
	work := tree.Work{Roots: []int{syscall.Getpid()}, Alive: g.beat}
	g.left, g.calm = g.sweeper.Kill(work)
	g.reap() // first: whoever has only dead children need not read the whole process table
	if g.left == 0 && !g.childless {
		work.Scan = true
		g.left, g.calm = g.sweeper.Kill(work)
		g.reap()
	}
}

// beat tells a wrapper that reads that the work goes on. A stopped one needs only one message.
func (g *guardian) beat() {
	now := boottime.Now()
	if g.phase != killing || now < g.beatAt {
		return
	}
	g.beatAt = now.Add(heartbeat)
	g.flush()
	if len(g.out) == 0 {
		g.tell(Message{Kind: Killing})
		g.flush()
	}
}

// terminate sends SIGTERM for the deadline, once.
func (g *guardian) terminate() {
	if g.termed {
		return
	}
	g.termed = true
	g.signalGroup(syscall.SIGTERM)
}

func (g *guardian) soonerKill(at boottime.Instant) {
	if g.killAt == 0 || at < g.killAt {
		g.killAt = at
	}
}

// tell queues a message; flush sends what the socket takes, because a stopped wrapper must not stop its
// guardian.
func (g *guardian) tell(m Message) {
	if !g.gone {
		g.out = append(g.out, m.Encode()...)
	}
}

func (g *guardian) flush() {
	if len(g.out) == 0 {
		return
	}
	rest, err := g.conn.TrySend(g.out, nil)
	if err != nil {
		rest = nil // the reader sees the end of the channel too, and that counts
	}
	g.out = append(g.out[:0], rest...)
}
