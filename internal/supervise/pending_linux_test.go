package supervise

import (
	"errors"
	"os"
	"os/exec"
	"slices"
	"syscall"
	"testing"
	"time"

	"github.com/leaderrun/leaderrun/internal/boottime"
	"github.com/leaderrun/leaderrun/internal/lifeline"
	"github.com/leaderrun/leaderrun/internal/supervise/guardian"
	"github.com/leaderrun/leaderrun/internal/supervise/tree"
)

// hang lets the start of the next guardian hang where nobody knows its number yet, and tells that number. go ends the hang.
func hang(t *testing.T) (forked <-chan int, release func()) {
	t.Helper()
	pids, hung := make(chan int, 1), make(chan struct{})
	begin := beginGuardian
	beginGuardian = func(path string, inherited []int, standard [3]uintptr, detached bool) (guardian.Begun, error) {
		b, err := begin(path, inherited, standard, detached)
		pids <- b.PID
		<-hung
		return b, err
	}
	t.Cleanup(func() { beginGuardian = begin })
	return pids, func() { close(hung) }
}

// Hazard: the guardian of a run dies while that of another one hangs in its exec(2), as on a disk that does not answer. The
// orphans must not wait for that one, and it is none of them.
func TestALostGuardianIsReplacedWhileAnotherOneHangs(t *testing.T) {
	tiers(t, func(t *testing.T, o Options) {
		o.Detached = true
		lost := prepare(t, o)
		lost.start(lost.helper("daemon", "daemon", "stay"), far())
		lost.pid("daemon")
		lost.pid("command")
		forked, release := hang(t)
		pending := Begin(o)
		young := <-forked
		must(t, syscall.Kill(lost.Guard.pid, syscall.SIGKILL))
		lost.wait(lifeline.Dead)
		lost.noneLeft()
		if !running(young) {
			t.Error("the guardian that hangs was taken for an orphan")
		}
		release()
		g, err := pending.By(boottime.Now().Add(patience))
		must(t, err)
		must(t, g.Close())
	})
}

// The same where the kernel does not tell who forked what (no CONFIG_PROC_CHILDREN): then nothing is killed that may be the guardian
// that hangs, and nothing is known to be dead.
func TestNoGuardianThatHangsIsKilledUnknown(t *testing.T) {
	tell := forkedBy
	t.Cleanup(func() { forkedBy = tell })
	forkedBy = func(int) ([]int, bool) { return nil, false }
	o := Options{Detached: true, withoutCgroup: true}
	lost := prepare(t, o)
	lost.start(lost.helper("daemon", "daemon", "stay"), far())
	lost.pid("daemon")
	lost.pid("command")
	forked, release := hang(t)
	pending := Begin(o)
	young := <-forked
	must(t, syscall.Kill(lost.Guard.pid, syscall.SIGKILL))
	lost.wait(lifeline.Unconfirmed)
	if !running(young) {
		t.Error("the guardian that hangs was taken for an orphan")
	}
	release()
	g, err := pending.By(boottime.Now().Add(patience))
	must(t, err)
	lost.wait(lifeline.Dead)
	lost.noneLeft()
	must(t, g.Close())
}

// Hazard: the lease runs out while the guardian hangs.
func TestAGuardianThatComesTooLateIsKilled(t *testing.T) {
	forked, release := hang(t)
	done := make(chan struct{})
	pending := Begin(Options{Detached: true, Forked: func() { close(done) }})
	young := <-forked
	end := boottime.Now().Add(20 * time.Millisecond)
	if _, err := pending.By(end); !errors.Is(err, ErrTooLate) || boottime.Now() < end {
		t.Errorf("%v, %v before the end", err, end.Sub(boottime.Now()))
	}
	eventually(t, "what was forked is killed", func() bool { return !running(young) })
	select {
	case <-done:
		t.Error("the files are closed that the hanging start may still use")
	default:
	}
	release()
	<-done
	eventually(t, "nothing is left", func() bool { return syscall.Kill(young, 0) != nil })
	if _, err := pending.By(boottime.Now().Add(patience)); !errors.Is(err, ErrTooLate) {
		t.Errorf("one that was given up came back: %v", err)
	}
}

// The same where it is forked only after that: it could not be killed then.
func TestAGuardianForkedAfterItWasGivenUpIsKilled(t *testing.T) {
	forked, release := hang(t)
	begin, wait, begun := beginGuardian, make(chan struct{}), make(chan struct{})
	beginGuardian = func(path string, inherited []int, standard [3]uintptr, detached bool) (guardian.Begun, error) {
		close(begun)
		<-wait
		return begin(path, inherited, standard, detached)
	}
	done := make(chan struct{})
	pending := Begin(Options{Detached: true, Forked: func() { close(done) }})
	<-begun
	if _, err := pending.By(boottime.Now()); !errors.Is(err, ErrTooLate) {
		t.Error(err)
	}
	close(wait)
	young := <-forked
	eventually(t, "what was forked is killed", func() bool { return !running(young) })
	release()
	<-done
}

// Nothing is forked any more for a start that was given up before.
func TestAStartThatWasGivenUpForksNothing(t *testing.T) {
	forked, release := hang(t)
	defer release()
	wait := make(chan struct{})
	done := make(chan struct{})
	pending := Begin(Options{Forked: func() { close(done) }, Begun: func() (guardian.Begun, bool) {
		<-wait
		return guardian.Begun{}, false
	}})
	if _, err := pending.By(boottime.Now()); !errors.Is(err, ErrTooLate) {
		t.Error(err)
	}
	close(wait)
	select {
	case pid := <-forked:
		t.Errorf("%d was forked", pid)
	case <-done:
	}
}

func TestNoGuardianIsForkedOnTheMainThread(t *testing.T) {
	cmd := exec.Command(self(t))
	cmd.Env = append(os.Environ(), helperVariable+"=main")
	out, err := cmd.CombinedOutput()
	if err != nil || string(out) != "true false\n" {
		t.Errorf("%v: %q", err, out)
	}
}

// What a sweep goes by: an orphan comes to our main thread, and what hangs was forked on another one, which knows it from
// what it forked before.
func TestAForkIsToldByItsThread(t *testing.T) {
	offMainThread(func() {
		child := exec.Command("sleep", "1000")
		must(t, child.Start())
		if pids, _ := tree.ForkedBy(threadID()); !slices.Contains(pids, child.Process.Pid) {
			t.Errorf("%d is not among %v", child.Process.Pid, pids)
		}
		g := newGuard(Options{})
		must(t, guards.beginFork(g))
		defer func() { guards.mu.Lock(); delete(guards.forks, g); guards.mu.Unlock() }()
		guards.giveUp(g)
		must(t, child.Process.Signal(syscall.SIGTERM)) // SIGKILL would come first
		_ = child.Wait()
		if status, _ := child.ProcessState.Sys().(syscall.WaitStatus); status.Signal() != syscall.SIGTERM {
			t.Error("a child was killed that had been forked before:", child.ProcessState)
		}
	})
	r := prepare(t, Options{Detached: true})
	r.start(r.helper("daemon", "daemon", "stay"), far())
	orphan := r.pid("daemon")
	r.pid("command")
	r.mu.Lock() // or the orphans would be seen to
	must(t, syscall.Kill(r.Guard.pid, syscall.SIGKILL))
	var at []int
	eventually(t, "the orphan is ours", func() bool {
		p, ok := tree.Stat(orphan)
		at, _ = tree.ForkedBy(os.Getpid())
		return ok && p.Parent == os.Getpid()
	})
	r.mu.Unlock()
	if !slices.Contains(at, orphan) {
		t.Errorf("the orphan %d is not the main thread's: %v", orphan, at)
	}
	r.wait(lifeline.Dead)
}
