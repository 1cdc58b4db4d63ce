package supervise

import (
	"errors"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/leaderrun/leaderrun/internal/boottime"
	"github.com/leaderrun/leaderrun/internal/panics"
	"github.com/leaderrun/leaderrun/internal/supervise/tree"
)

// ownExecutable names the running program itself, also when its file was replaced or removed since.
func ownExecutable() (string, error) { return "/proc/self/exe", nil }

func threadID() int { return unix.Gettid() }

// errNoCgroup: this process is in no cgroup v2 hierarchy that it can see.
var errNoCgroup = errors.New("no cgroup v2 hierarchy")

// cgroupHome returns the directory of this process's own cgroup in the v2 hierarchy, where the leaves of
// its runs are made (cgroups(7)).
var cgroupHome = sync.OnceValues(func() (string, error) {
	return findCgroup(string(tree.ReadFile("/proc/self/cgroup")), string(tree.ReadFile("/proc/self/mountinfo")))
})

func findCgroup(own, mounts string) (string, error) {
	path, found := "", false
	for line := range strings.Lines(own) {
		if rest, ok := strings.CutPrefix(strings.TrimSuffix(line, "\n"), "0::"); ok {
			path, found = rest, true
		}
	}
	if !found || strings.HasPrefix(path, "/..") { // outside of our cgroup namespace
		return "", errNoCgroup
	}
	for line := range strings.Lines(mounts) {
		// 36 35 98:0 ROOT MOUNTPOINT OPTIONS … - cgroup2 SOURCE OPTIONS, see proc_pid_mountinfo(5).
		before, _, ok := strings.Cut(line, " - cgroup2 ")
		fields := strings.Fields(before)
		const root, mountPoint = 3, 4
		if !ok || len(fields) <= mountPoint {
			continue
		}
		below, err := filepath.Rel(fields[root], path)
		if err == nil && below != ".." && !strings.HasPrefix(below, "../") {
			return filepath.Join(fields[mountPoint], below), nil
		}
	}
	return "", errNoCgroup
}

var (
	cgroupCount atomic.Uint64
	tidy        sync.Once
)

// newCgroupPath names a leaf that nobody else makes; the guardian makes it.
func newCgroupPath() string {
	home, err := cgroupHome()
	if err != nil {
		return ""
	}
	tidy.Do(func() { panics.Go(func() { tree.RemoveAbandonedCgroups(home) }) })
	now := uint64(boottime.Now()) + cgroupCount.Add(1)
	return filepath.Join(home, tree.Prefix+strconv.Itoa(os.Getpid())+"-"+strconv.FormatUint(now, 36))
}

// FindsProcesses says whether /proc shows the processes of this PID namespace. Where it is another's, a number in it is that of a
// stranger here, and what a run leaves behind is found by nobody.
func FindsProcesses() bool {
	self, err := os.Readlink("/proc/self")
	return err == nil && self == strconv.Itoa(os.Getpid())
}

// Tier names by what means a run's tree is ended on this host, strongest first. It tries them.
func Tier() string {
	if path := newCgroupPath(); path != "" {
		if c, err := tree.MakeCgroup(path); err == nil {
			_ = c.Remove()
			return "cgroup+subreaper"
		}
	}
	return "subreaper"
}

// Reraise ends this process by the signal, as if it had never been caught. The kernel's default action
// is restored by the system call itself: Go's own for SIGQUIT prints every goroutine. It returns only
// where the kernel drops the signal, in the first process of a container (pid_namespaces(7)): exit with
// 128+N then.
func Reraise(sig syscall.Signal) {
	// struct sigaction of the kernel, all zero: SIG_DFL, no flags, empty mask (rt_sigaction(2)). It is
	// larger here than on any architecture.
	var action [64]byte
	set := uint64(1) << (uint(sig) - 1)
	const unblock = 1 // SIG_UNBLOCK; 2 on MIPS, where nothing is blocked anyway
	_, _, _ = syscall.RawSyscall6(syscall.SYS_RT_SIGACTION, uintptr(sig), uintptr(unsafe.Pointer(&action)), 0, 8, 0, 0)
	_, _, _ = syscall.RawSyscall6(syscall.SYS_RT_SIGPROCMASK, unblock, uintptr(unsafe.Pointer(&set)), 0, 8, 0, 0)
	_ = syscall.Kill(syscall.Getpid(), sig)
	time.Sleep(reraiseWait) // another thread may be the one that takes it
}

const reraiseWait = 200 * time.Millisecond

// awaitExit waits until the child has ended and leaves its status to be taken (waitid(2), WNOWAIT):
// its number stays its own until the registry forgets it.
func awaitExit(pid int) {
	for interrupted := true; interrupted; {
		interrupted = unix.Waitid(unix.P_PID, pid, nil, unix.WEXITED|unix.WNOWAIT, nil) == unix.EINTR
	}
}
