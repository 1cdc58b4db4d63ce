package supervise

import (
	"os"
	"runtime"
	"slices"
	"syscall"

	"github.com/leaderrun/leaderrun/internal/panics"
	"github.com/leaderrun/leaderrun/internal/supervise/tree"
)

// fork is a guardian between fork(2) and the return of exec(2), which hangs while a file system does not answer. No lock is held
// meanwhile, because other runs have deadlines. Their sweeps meet the child before its number is known here, and must not take it for an
// orphan. Its thread tells: orphans come to the main thread (exit(2), "subreaper"), and no guardian is forked there.
type fork struct {
	thread int
	before []int // what that thread had forked earlier
	known  bool  // before is
}

// register notes a guardian that is there.
func (r *registry) register(g *Guard, pid int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.reserve()
	r.pids[pid] = g
}

// fork lets start fork a guardian, so that no sweep takes it for an orphan. One that was given up is not forked any more.
func (r *registry) fork(g *Guard, start func() (pid int, err error)) (err error) {
	offMainThread(func() {
		if err = r.beginFork(g); err != nil {
			return
		}
		var pid int
		pid, err = start()
		r.mu.Lock()
		defer r.mu.Unlock()
		delete(r.forks, g)
		if err == nil {
			r.pids[pid] = g
		}
	})
	return err
}

func (r *registry) beginFork(g *Guard) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if g.givenUp.Load() {
		return ErrTooLate
	}
	r.reserve()
	thread := threadID()
	before, known := forkedBy(thread)
	r.forks[g] = &fork{thread: thread, before: before, known: known}
	return nil
}

// forkedBy is where tests take a kernel's knowledge away.
var forkedBy = tree.ForkedBy

// forked says whether a child of ours is, or may be, a guardian whose fork is under way; where that is not known, it may. It needs
// r.mu.
func (r *registry) forked(pid int) (is, known bool) {
	known = true
	for _, f := range r.forks {
		pids, ok := forkedBy(f.thread)
		if slices.Contains(pids, pid) {
			return true, true
		}
		known = known && ok
	}
	return !known, known
}

// giveUp lets no guardian be forked for g any more, and kills one that hangs in exec(2). It returns at once.
func (r *registry) giveUp(g *Guard) {
	r.mu.Lock()
	defer r.mu.Unlock()
	g.givenUp.Store(true)
	f := r.forks[g]
	if f == nil || !f.known {
		return
	}
	pids, _ := forkedBy(f.thread)
	for _, pid := range pids {
		if r.pids[pid] == nil && !slices.Contains(f.before, pid) {
			_ = syscall.Kill(pid, syscall.SIGKILL) // our child, not waited for yet: the number is its own
		}
	}
}

// offMainThread calls f on a thread that is not the first one of this process, and on no other until it returns.
func offMainThread(f func()) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	if threadID() != os.Getpid() {
		f()
		return
	}
	done := make(chan struct{})
	panics.Go(func() { // not here: this thread is taken
		defer close(done)
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		f()
	})
	<-done
}
