package guardian

import (
	"syscall"

	"github.com/leaderrun/leaderrun/internal/lifeline"
	"github.com/leaderrun/leaderrun/internal/supervise/tree"
)

// reap takes the status of every child that ended: the command, of which it tells, and the orphans we adopted.
func (g *guardian) reap() {
	for {
		var ws syscall.WaitStatus
		pid, err := syscall.Wait4(-1, &ws, waitOptions(g.request.WatchStops), nil)
		switch {
		case err == syscall.EINTR:
			continue
		case err != nil: // ECHILD
			g.childless = true
			return
		case pid == 0:
			g.childless = false
			return
		case pid != g.pid, !g.running: // a number that the command had once is another one's
			continue
		}
		if ws.Stopped() {
			if g.phase == guarding {
				g.tell(Message{Kind: Stopped, Numbers: []int64{int64(ws.StopSignal())}})
			}
			continue
		}
		g.running = false
		g.status = lifeline.Status{Known: true}
		if ws.Signaled() {
			g.status.Signal = ws.Signal()
		} else {
			g.status.Code = ws.ExitStatus()
		}
		g.tell(statusMessage(Exited, g.status))
		g.flush() // at once: what follows may take its time, or kill us
	}
}

// ownGroup is the process group that only the run is in, 0: there is none.
func (g *guardian) ownGroup() int {
	if g.request.Group != 0 {
		return 0
	}
	return g.pid
}

// alive lists what is left of the run, without zombies. others are numbers of what is in the cgroup alone.
func (g *guardian) alive() (found []tree.Process, others []int) {
	all := tree.List()
	if len(all) == 0 && !g.childless {
		all, _ = tree.Scan(syscall.Getpid(), nil)
	}
	seen := make(map[int]bool)
	for _, p := range all {
		seen[p.PID] = true
		if !p.Zombie() {
			found = append(found, p)
		}
	}
	for _, pid := range g.cgroup.Processes() {
		if !seen[pid] {
			others = append(others, pid)
		}
	}
	return found, others
}

// signal passes a signal on: those that ask a program to end go to the command's group, SIGTERM followed
// by SIGCONT because a stopped process does not see it otherwise; the others go to the command alone.
func (g *guardian) signal(n syscall.Signal) {
	if g.phase == waiting || g.phase == dead {
		return
	}
	switch n {
	case syscall.SIGTERM, syscall.SIGINT, syscall.SIGHUP, syscall.SIGQUIT,
		syscall.SIGTSTP, syscall.SIGCONT:
		g.signalGroup(n)
	default:
		if g.running {
			_ = syscall.Kill(g.pid, n)
		}
	}
}

// signalGroup reaches the command's group. A group that the command shares with the wrapper and others
// is never signalled as one: only those of its members that descend from us. Once the command was
// reaped, the number of its group may be somebody else's: then it is everything that is left.
func (g *guardian) signalGroup(n syscall.Signal) {
	switch {
	case !g.running:
		g.signalAll(n)
	case g.ownGroup() != 0:
		_ = syscall.Kill(-g.pid, n)
	default:
		_ = syscall.Kill(g.pid, n)
		for _, p := range tree.List() {
			if p.Group == g.request.Group && p.PID != g.pid {
				tree.Signal(p, n)
			}
		}
	}
	if n == syscall.SIGTERM {
		g.signalGroup(syscall.SIGCONT)
	}
}

func (g *guardian) signalAll(n syscall.Signal) {
	if group := g.ownGroup(); groupLeft(group) {
		_ = syscall.Kill(-group, n)
	}
	found, others := g.alive()
	for _, p := range found {
		tree.Signal(p, n)
	}
	for _, pid := range others {
		g.cgroup.Signal(pid, n)
	}
}
