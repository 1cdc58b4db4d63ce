package supervise

import (
	"os"
	"sync"
	"time"

	"github.com/leaderrun/leaderrun/internal/panics"
	"github.com/leaderrun/leaderrun/internal/supervise/tree"
)

// strayAfter is how long a dead child is left to whoever started it.
const strayAfter = 5 * time.Second

var strays sync.Once

// ReapStrays makes the first process of a container wait for what others leave to it (pid_namespaces(7)): a process that a
// `kubectl exec` has forked, and that would stay in the process table for as long as the container runs. It returns at
// once, and may be called again. In any other process it does nothing.
func ReapStrays() {
	if os.Getpid() != 1 {
		return
	}
	strays.Do(func() {
		panics.Go(func() {
			var dead map[int]uint64
			for range time.Tick(strayAfter) {
				dead = guards.reapStrays(dead)
			}
		})
	})
}

// reapStrays takes the status of the children that were dead before, too, and returns those that are dead now. Guardians
// are waited for by others, and so, at once, is all else that this process starts.
func (r *registry) reapStrays(before map[int]uint64) map[int]uint64 {
	r.mu.Lock()
	defer r.mu.Unlock()
	dead := map[int]uint64{}
	for _, p := range tree.Children() {
		if p.Zombie() && r.pids[p.PID] == nil {
			if started, was := before[p.PID]; !was || started != p.Started || !reap(p.PID) {
				dead[p.PID] = p.Started
			}
		}
	}
	return dead
}
