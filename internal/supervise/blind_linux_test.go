package supervise

import (
	"syscall"
	"testing"
	"unsafe"

	"github.com/leaderrun/leaderrun/internal/lifeline"
)

// A wrapper that can open nothing sees nothing of a tree that lives. That proves no death.
func TestAWrapperThatCanOpenNothingProvesNoDeath(t *testing.T) {
	tiers(t, func(t *testing.T, o Options) {
		r := prepare(t, o)
		r.start(r.helper("daemon", "daemon", "stay"), far())
		daemon := r.pid("daemon")
		r.pid("command")
		restore := limitDescriptors(t, 3)
		must(t, syscall.Kill(r.Guard.pid, syscall.SIGKILL))
		r.wait(lifeline.GuardianLost)
		r.wait(lifeline.Unconfirmed)
		restore()
		r.wait(lifeline.Dead)
		if running(daemon) {
			t.Error("Dead was told of a tree that lives")
		}
		r.noneLeft()
	})
}

// A wrapper that has used up its descriptors has some in reserve to end a tree with.
func TestAWrapperWithoutDescriptorsEndsTheTree(t *testing.T) {
	tiers(t, func(t *testing.T, o Options) {
		r := prepare(t, o)
		r.start(r.helper("daemon", "daemon", "stay"), far())
		daemon := r.pid("daemon")
		r.pid("command")
		restore := limitDescriptors(t, 100)
		var taken []int
		for {
			fd, err := syscall.Open("/", syscall.O_RDONLY|syscall.O_CLOEXEC, 0)
			if err != nil {
				break
			}
			taken = append(taken, fd)
		}
		must(t, syscall.Kill(r.Guard.pid, syscall.SIGKILL))
		r.wait(lifeline.GuardianLost)
		r.wait(lifeline.Dead)
		restore()
		closeAll(taken)
		if running(daemon) {
			t.Error("Dead was told of a tree that lives")
		}
		r.noneLeft()
	})
}

// limitDescriptors lowers the limit of this process. Not by package syscall, which would keep it for all children.
func limitDescriptors(t *testing.T, most uint64) (restore func()) {
	t.Helper()
	set := func(to, was *[2]uint64) {
		if _, _, errno := syscall.RawSyscall6(syscall.SYS_PRLIMIT64, 0, syscall.RLIMIT_NOFILE,
			uintptr(unsafe.Pointer(to)), uintptr(unsafe.Pointer(was)), 0, 0); errno != 0 {
			t.Error("prlimit:", errno)
		}
	}
	var was [2]uint64
	set(nil, &was)
	set(&[2]uint64{most, was[1]}, nil)
	restored := false
	restore = func() {
		if !restored {
			restored = true
			set(&was, nil)
		}
	}
	t.Cleanup(restore)
	return restore
}
