package supervise

import (
	"fmt"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/leaderrun/leaderrun/internal/boottime"
	"github.com/leaderrun/leaderrun/internal/lifeline"
	"github.com/leaderrun/leaderrun/internal/supervise/tree"
)

// registry knows the guardians of this process: the sweep of one must not touch another.
type registry struct {
	mu      sync.Mutex
	pids    map[int]*Guard   // a number is free again when the guardian was reaped, and may be another one's
	forks   map[*Guard]*fork // under way: their guardians have no number yet
	sweeper *tree.Sweeper    // for all of them; nil until the first guardian is there or to be forked
}

var guards = registry{pids: make(map[int]*Guard), forks: make(map[*Guard]*fork)}

// reserve makes what sweeps need, before there is anything to sweep. It needs r.mu.
func (r *registry) reserve() {
	if r.sweeper == nil {
		r.sweeper = tree.NewSweeper()
	}
}

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

// collect waits for the end of a guardian that has nothing to guard, and removes its cgroup.
func (g *Guard) collect() {
	g.terminal.Load().release()
	_ = syscall.Kill(g.pid, syscall.SIGKILL)
	awaitExit(g.pid)
	for pause := time.Duration(0); !guards.reap(g); {
		pause = tree.NextPoll(pause, false)
		time.Sleep(pause)
	}
	_ = tree.OthersCgroup(g.cgroup).Remove()
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
	cgroup := tree.OthersCgroup(g.cgroup)
	began, told := boottime.Now(), false
	for pause := time.Duration(0); ; {
		reaped := guards.reap(g) // first: then all that it has adopted is ours
		left, calm := g.sweep(cgroup)
		if reaped && left == 0 {
			break
		}
		now := boottime.Now()
		if reaped && calm && now >= began.Add(lifeline.KillBudget) {
			if tracer := g.tracedOnly(cgroup); tracer != 0 {
				g.events <- lifeline.Event{Kind: lifeline.Unconfirmed, Tracer: tracer}
				break
			}
		}
		if calm {
			g.calm.Do(func() { close(g.killed) })
		}
		if !told && now >= began.Add(lifeline.KillBudget) {
			told = true
			g.events <- lifeline.Event{Kind: lifeline.Unconfirmed, Count: left}
		}
		pause = tree.NextPoll(pause, !calm && now < began.Add(tree.LongestStorm))
		time.Sleep(pause)
	}
	_ = cgroup.Remove()
	g.tellDead(status)
}

func guardianLost(why string) error { return fmt.Errorf("%w: it %s", ErrGuardian, why) }

// killBeside sends SIGKILL to all that is below a guardian that kills too: it may be stopped at any moment.
func (g *Guard) killBeside() {
	guards.mu.Lock()
	defer guards.mu.Unlock()
	guards.sweeper.Release()
	defer guards.sweeper.Reserve()
	tree.OthersCgroup(g.cgroup).Kill()
	if guards.pids[g.pid] == g {
		guards.sweeper.Kill(tree.Work{Roots: []int{g.pid}, AtOnce: g.leaving.Load()})
	}
}

// sweep kills and reaps what is left of the run, and returns how much there was, or may have been, and whether all that
// there was has got its SIGKILL. Only a sweep that sees everything and finds nothing, not even a zombie to reap, proves that
// nothing is left: one that ends while it is looked at may have forked what the look has missed.
func (g *Guard) sweep(cgroup *tree.Cgroup) (left int, calm bool) {
	guards.mu.Lock()
	defer guards.mu.Unlock()
	guards.sweeper.Release()
	defer guards.sweeper.Reserve()
	cgroup.Kill()
	unsure := false
	work := tree.Work{Roots: []int{syscall.Getpid()}, Skip: g.foreign(&unsure), AtOnce: g.leaving.Load()}
	if guards.pids[g.pid] == g {
		work.Roots = append(work.Roots, g.pid)
	}
	_, calm = guards.sweeper.Kill(work)
	for _, root := range work.Roots {
		found, all := tree.Scan(root, work.Skip)
		if !all {
			left, calm = left+1, false
		}
		for _, p := range found {
			left++
			if p.Parent == syscall.Getpid() && p.Zombie() {
				reap(p.PID)
			}
		}
	}
	if unsure {
		left, calm = left+1, false
	}
	if cgroup.Populated() {
		left = max(left, len(cgroup.Processes()), 1)
	}
	return left, calm
}

// tracedOnly tells whether all that is left of the run has ended, and which process outside keeps it; 0: something else is left.
func (g *Guard) tracedOnly(cgroup *tree.Cgroup) (tracer int) {
	guards.mu.Lock()
	defer guards.mu.Unlock()
	unsure := false
	tracer = tree.TracedOnly(syscall.Getpid(), g.foreign(&unsure), cgroup)
	if unsure {
		return 0
	}
	return tracer
}

// foreign says which children of this process are not the run's: guardians, those that are being forked too; children from before the
// run; and those in our session, if the guardian has left it. If nobody can tell of a child, it is left alone and unsure is set: then
// nothing proves that the run is dead.
func (g *Guard) foreign(unsure *bool) func(tree.Process) bool {
	self := syscall.Getpid()
	session, _ := unix.Getsid(0) // of this process: that cannot fail
	return func(p tree.Process) bool {
		if p.Parent != self {
			return false
		}
		started, stray := g.strays[p.PID]
		if guards.pids[p.PID] != nil || stray && started == p.Started || g.terminalless && p.Session == session {
			return true
		}
		forked, known := guards.forked(p.PID)
		*unsure = *unsure || !known
		return forked
	}
}

// killAll returns when every process of a run that was taken over has got its SIGKILL, or cannot get it: whatever is left then
// runs no more code of its own, and does not stay stopped for good. From then on nothing is stopped any more: this process may end at
// any time.
func (g *Guard) killAll() {
	g.mu.Lock()
	lost := g.loss != nil
	g.mu.Unlock()
	if !lost || g.leaving.Load() {
		return // its guardian lives, and stays until nothing is left; or it was waited for before
	}
	select {
	case <-g.killed:
	case <-g.over:
	case <-time.After(tree.LongestStorm):
	}
	guards.mu.Lock() // after a sweep that has begun before
	defer guards.mu.Unlock()
	g.leaving.Store(true)
}
