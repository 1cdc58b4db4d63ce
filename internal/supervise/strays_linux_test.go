package supervise

import (
	"os"
	"syscall"
	"testing"
	"time"

	"github.com/leaderrun/leaderrun/internal/supervise/tree"
)

// zombie starts a process that has ended, and that nobody waits for.
func zombie(t *testing.T) int {
	t.Helper()
	pid, err := syscall.ForkExec("/bin/true", []string{"true"}, &syscall.ProcAttr{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { reap(pid) })
	for end := time.Now().Add(patience); !isZombie(pid); time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			t.Fatal("it does not end")
		}
	}
	return pid
}

func isZombie(pid int) bool {
	p, ok := tree.Stat(pid)
	return ok && p.Parent == os.Getpid() && p.Zombie()
}

func TestStraysAreReaped(t *testing.T) {
	pid := zombie(t)
	seen := guards.reapStrays(nil)
	if seen[pid] == 0 || !isZombie(pid) {
		t.Fatal("who has just died is waited for by whoever started it")
	}
	if seen = guards.reapStrays(seen); seen[pid] != 0 || isZombie(pid) {
		t.Error("nobody waits for the stray")
	}
}

func TestGuardiansAreNoStrays(t *testing.T) {
	g := &Guard{}
	pid := zombie(t)
	if err := guards.fork(g, func() (int, error) { return pid, nil }); err != nil {
		t.Fatal(err)
	}
	g.pid = pid
	defer guards.reap(g)
	guards.reapStrays(guards.reapStrays(nil))
	if !isZombie(pid) {
		t.Error("the status of a guardian was taken from its own Guard")
	}
}
