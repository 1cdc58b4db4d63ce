package runner

import (
	"context"
	"os"
	"syscall"
	"time"

	"github.com/leaderrun/leaderrun/internal/lifeline"
)

// newTree makes the tree of one start. The tree before must be dead, and who watched over it gone.
func (b *bed) newTree() Tree {
	b.mu.Lock()
	defer b.mu.Unlock()
	if n := len(b.trees); n > 0 {
		if !b.trees[n-1].closed {
			b.t.Error("the guardian of the tree before is still there, with the files of the lease")
		}
		b.events = make(chan lifeline.Event, 16)
	}
	t := &bedTree{bed: b, events: b.events}
	b.trees = append(b.trees, t)
	return t
}

// bedTree is the process tree of one start. It obeys its deadlines as the guardian does.
type bedTree struct {
	*bed
	events chan lifeline.Event
	begun  bool
	closed bool
}

func (t *bedTree) Start([]string, []*os.File, []*os.File, Deadline) error {
	b := t.bed
	b.mu.Lock()
	t.begun = true
	alive := b.runs
	b.mu.Unlock()
	if b.each != nil {
		b.each(len(b.trees))
	}
	switch {
	case alive && b.startErr == nil:
		b.t.Error("a try starts while a process of the one before is alive")
	case b.startErr != nil:
		return b.startErr
	}
	b.note("start")
	b.lives(true)
	if b.duration > 0 {
		status := lifeline.Status{Known: true, Code: b.code}
		time.AfterFunc(b.duration, func() {
			if t.isLast() {
				b.die(status)
			}
		})
	}
	return nil
}

func (t *bedTree) isLast() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t == t.trees[len(t.trees)-1]
}

func (b *bed) lives(alive bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.runs = alive
}

// leaseEnd needs b.mu.
func (b *bed) leaseEnd() time.Time {
	if b.store == nil {
		return b.expires
	}
	status, err := b.store.Inspect(context.Background(), "job")
	if err != nil || status.Lease == nil {
		return time.Time{}
	}
	return time.Now().Add(status.Lease.Left)
}

// loseGuardian has the guardian be lost some time from now, and the tree with it.
func (b *bed) loseGuardian(after time.Duration) {
	time.AfterFunc(after, func() {
		b.lives(false)
		b.events <- lifeline.Event{Kind: lifeline.GuardianLost, Err: lifeline.ErrGuardian}
		b.events <- lifeline.Event{Kind: lifeline.Dead}
		close(b.events)
	})
}

// die ends the command, once, and when what it leaves behind has lingered the rest of the tree.
func (b *bed) die(s lifeline.Status) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if !b.runs || b.lingering {
		return
	}
	b.events <- lifeline.Event{Kind: lifeline.Exited, Status: s}
	if b.lingers == 0 {
		b.buried(s)
		return
	}
	b.events <- lifeline.Event{Kind: lifeline.Leftovers, Count: 1}
	if b.unguarded {
		b.events <- lifeline.Event{Kind: lifeline.GuardianLost, Err: lifeline.ErrGuardian}
	}
	b.lingering = true
	time.AfterFunc(b.lingers, func() {
		b.mu.Lock()
		defer b.mu.Unlock()
		b.lingering, b.lingers = false, 0
		b.buried(s)
	})
}

// buried says that nothing is left of the tree, and checks that the lease was still ours. It needs b.mu.
func (b *bed) buried(s lifeline.Status) {
	b.runs = false
	if expires := b.leaseEnd(); b.clock.slept == 0 && !time.Now().Before(expires) {
		b.t.Errorf("the run died %v after its lease ran out", time.Since(expires))
	}
	b.events <- lifeline.Event{Kind: lifeline.Dead, Status: s}
	close(b.events)
}

func (t *bedTree) Extend(d Deadline) {
	b := t.bed
	if !t.begun {
		b.t.Error("a tree is told of a deadline that was not started")
	}
	b.note("extend to %v", d.End.Sub(boot))
}

func (t *bedTree) Signal(sig syscall.Signal) {
	b := t.bed
	b.note("%v", sig)
	if b.traps && sig == syscall.SIGTERM {
		b.die(lifeline.Status{Known: true})
		return
	}
	if !b.ignores && sig != syscall.SIGUSR1 {
		b.die(lifeline.Status{Known: true, Signal: sig})
	}
}

func (t *bedTree) Terminate() {
	b := t.bed
	b.note("TERM")
	if !b.ignores {
		b.die(lifeline.Status{Known: true, Signal: syscall.SIGTERM})
	}
}

func (t *bedTree) Kill(lost bool) {
	b := t.bed
	if lost {
		b.note("KILL at once")
	} else {
		b.note("KILL")
	}
	if b.immortal {
		time.AfterFunc(killBudget, func() { b.events <- lifeline.Event{Kind: lifeline.Unconfirmed, Count: 1} })
		return
	}
	b.die(lifeline.Status{Known: true, Signal: syscall.SIGKILL})
}

func (t *bedTree) Events() <-chan lifeline.Event { return t.events }

func (t *bedTree) Close() {
	last := t.isLast()
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.runs && last && t.startErr == nil {
		t.t.Error("the guardian is sent away while a process is alive")
	}
	t.closed = true
}
