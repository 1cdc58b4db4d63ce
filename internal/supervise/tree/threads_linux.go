package tree

import (
	"runtime"
	"sync"
	"syscall"
)

// ReserveThreads gives this process as many threads ahead as it may once need beside each other. Go's runtime starts them
// when they are needed, keeps them, and ends the process if it gets none: when a run has forked until no process or thread
// was left to its user, that would be the end of who has to kill it.
func ReserveThreads(n int) {
	var there, done sync.WaitGroup // a channel would wake the caller once for each
	there.Add(n)
	done.Add(n)
	leave := make(chan struct{})
	for range n {
		go func() {
			runtime.LockOSThread()
			there.Done()
			<-leave
			runtime.UnlockOSThread()
			done.Done()
		}()
	}
	there.Wait()
	close(leave)
	done.Wait() // until then they are nobody else's
}

// KeepAlive asks the kernel to leave this process alone when it runs out of memory, and to let its thread run first. Both are for root
// only, and children that are forked later would have it too.
func KeepAlive() {
	_ = writeFile("/proc/self/oom_score_adj", "-1000")
	_ = syscall.Setpriority(syscall.PRIO_PROCESS, 0, -20)
}
