package process

import (
	"fmt"
	"sync"
	"syscall"
	"time"

	"github.com/leaderrun/leaderrun/internal/boottime"
	"github.com/leaderrun/leaderrun/internal/lifeline"
	"github.com/leaderrun/leaderrun/internal/process/tree"
)

const (
	firstPoll     = time.Millisecond
	slowestPoll   = 100 * time.Millisecond
	unconfirmedAt = 700 * time.Millisecond
)

// registry knows the guardians of this process: the sweep of one must not touch another.
type registry struct {
	mu    sync.Mutex
	pids  map[int]*Guard   // a number is free again when the guardian was reaped, and may be another one's
	forks map[*Guard]*fork // under way: their guardians have no number yet
}

var guards = registry{pids: make(map[int]*Guard), forks: make(map[*Guard]*fork)}

// reap takes the status of one guardian, without waiting, and then forgets it.
func (r *registry) reap(g *Guard) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.pids[g.pid] == g && reap(g.pid) {
		delete(r.pids, g.pid)
	}
	return r.pids[g.pid] != g
}

// reap tells whether the child is gone. Only ever asked of one number: other children of this process
// belong to somebody else.
func reap(pid int) bool {
	for {
		got, err := syscall.Wait4(pid, nil, syscall.WNOHANG, nil)
		if err != syscall.EINTR {
			return got == pid || err != nil
		}
	}
}

// bury waits for the end of a guardian that has nothing to guard, and removes its cgroup.
func (g *Guard) bury() {
	g.terminal.Load().release()
	_ = syscall.Kill(g.pid, syscall.SIGKILL)
	awaitExit(g.pid)
	for pause := firstPoll; !guards.reap(g); pause = min(2*pause, slowestPoll) {
		time.Sleep(pause)
	}
	if c := g.openCgroup(); c != nil {
		_ = c.Remove()
		c.Close()
	}
}

func (g *Guard) openCgroup() *tree.Cgroup {
	if g.cgroup == "" {
		return nil
	}
	c, err := tree.OpenCgroup(g.cgroup)
	if err != nil {
		return nil
	}
	return c
}

// takeOver ends a run whose guardian is dead or does not do its work: a run never survives its guardian.
// Its orphans have come to us, the next subreaper above (PR_SET_CHILD_SUBREAPER). why is for people.
func (g *Guard) takeOver(why string) {
	loss := guardianLost(why)
	g.mu.Lock()
	g.loss = loss
	status := g.watch.status
	g.mu.Unlock()
	_ = syscall.Kill(g.pid, syscall.SIGKILL)
	g.events <- lifeline.Event{Kind: lifeline.GuardianLost, Err: loss}
	close(g.answers)
	cgroup := g.openCgroup()
	began, told := boottime.Now(), false
	for pause := firstPoll; ; pause = min(2*pause, slowestPoll) {
		cgroup.Kill()
		buried := guards.reap(g) // first: then all that it has adopted is ours
		left := g.sweep()
		if buried && left == 0 && !cgroup.Populated() {
			break
		}
		if !told && boottime.Now() >= began.Add(unconfirmedAt) {
			told = true
			g.events <- lifeline.Event{Kind: lifeline.Unconfirmed, Count: max(left, len(cgroup.Processes()), 1)}
		}
		time.Sleep(pause)
	}
	_ = cgroup.Remove()
	cgroup.Close()
	g.tellDead(status)
}

func guardianLost(why string) error { return fmt.Errorf("%w: it %s", ErrGuardian, why) }

// sweep kills and reaps what is left of the run outside of its cgroup, and returns how much there was. Only a sweep that
// finds nothing, not even a zombie to reap, proves that nothing is left: one that ends while it is looked at may have
// forked what the look has missed.
func (g *Guard) sweep() int {
	guards.mu.Lock()
	defer guards.mu.Unlock()
	tree.Sweep(func() []tree.Process { return g.orphans(tree.List) })
	left := 0
	for _, p := range g.orphans(tree.Scan) {
		left++
		if p.Parent == syscall.Getpid() && p.Zombie() {
			reap(p.PID)
		}
	}
	return left
}

// orphans lists the run's processes: below the guardian while that is not reaped, and below us what is
// neither a guardian's nor ours from before, nor in our session where the guardian had left it.
func (g *Guard) orphans(list func(int, func(tree.Process) bool) []tree.Process) []tree.Process {
	var found []tree.Process
	if guards.pids[g.pid] == g {
		found = list(g.pid, nil)
	}
	self := syscall.Getpid()
	own, _ := tree.Stat(self)
	foreign := func(p tree.Process) bool {
		if p.Parent != self {
			return false
		}
		started, known := g.strays[p.PID]
		return guards.pids[p.PID] != nil || guards.forked(p.PID) || known && started == p.Started ||
			g.terminalless && p.Session == own.Session
	}
	return append(found, list(self, foreign)...)
}
