package supervise

import (
	"io"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/leaderrun/leaderrun/internal/lifeline"
	"github.com/leaderrun/leaderrun/internal/supervise/tree"
	"github.com/leaderrun/leaderrun/test/alone"
	"github.com/leaderrun/leaderrun/test/servers"
)

// stormUser is nobody's: everything that runs as this user is the storm's.
const stormUser = 64321

// helperStorm starts lineages that fork twice, call setsid(2) and end, again and again: whoever looks for one of
// its processes finds that it has ended, and that another has come in its place. All lineages begin at once, when there are
// as many as there can be: those that begin before would leave no time to start the others.
func helperStorm(args []string) {
	signal.Ignore(syscall.SIGTERM, syscall.SIGHUP)
	lineages, err := strconv.Atoi(args[1])
	check(err)
	ready, err := os.Create(args[0])
	check(err)
	text := []byte("ready\n")
	runtime.GOMAXPROCS(1)
	tree.ReserveThreads(2)
	runtime.LockOSThread()
	var gate [2]int
	check(syscall.Pipe(gate[:]))
	for range lineages {
		pid, _, errno := syscall.RawSyscall6(syscall.SYS_CLONE, uintptr(syscall.SIGCHLD), 0, 0, 0, 0, 0)
		if errno != 0 {
			break // as many as there can be
		}
		if pid == 0 {
			lineage(uintptr(gate[0]), uintptr(gate[1]))
		}
	}
	_, _, _ = syscall.RawSyscall(syscall.SYS_CLOSE, uintptr(gate[1]), 0, 0)
	// There may be no thread left for Go's runtime.
	_, _, _ = syscall.RawSyscall(syscall.SYS_WRITE, ready.Fd(), uintptr(unsafe.Pointer(&text[0])), uintptr(len(text)))
	for {
		_, _, errno := syscall.RawSyscall6(syscall.SYS_WAIT4, ^uintptr(0), 0, 0, 0, 0, 0)
		if errno == syscall.ECHILD {
			_, _, _ = syscall.RawSyscall6(syscall.SYS_PPOLL, 0, 0, 0, 0, 0, 0)
		}
	}
}

// lineage runs in a process that fork(2) has made of one with many threads: nothing of Go's runtime works here.
//
//go:nosplit
//go:norace
func lineage(gate, others uintptr) {
	pause := syscall.Timespec{Nsec: 1e6}
	var end byte
	_, _, _ = syscall.RawSyscall(syscall.SYS_CLOSE, others, 0, 0)
	_, _, _ = syscall.RawSyscall(syscall.SYS_READ, gate, uintptr(unsafe.Pointer(&end)), 1)
	for {
		pid, _, errno := syscall.RawSyscall6(syscall.SYS_CLONE, uintptr(syscall.SIGCHLD), 0, 0, 0, 0, 0)
		switch {
		case errno != 0:
			_, _, _ = syscall.RawSyscall(syscall.SYS_NANOSLEEP, uintptr(unsafe.Pointer(&pause)), 0, 0)
		case pid != 0:
			_, _, _ = syscall.RawSyscall(syscall.SYS_EXIT_GROUP, 0, 0, 0)
		default:
			_, _, _ = syscall.RawSyscall(syscall.SYS_SETSID, 0, 0, 0)
		}
	}
}

// storm runs a wrapper as a user of its own with a storm below it, in a box that bounds what it can do to this
// machine, and where everything is killed at the end of the test.
type storm struct {
	t   *testing.T
	dir string
	box string
	cmd *exec.Cmd
	uid int
}

// startStorm has limit processes and threads at most, the wrapper's and guardian's included: of the user, or, as root, of
// the box.
func startStorm(t *testing.T, uid, limit, lineages int, change func(*wrapperOrder)) *storm {
	t.Helper()
	const boxes = "/sys/fs/cgroup/pids"
	if os.Geteuid() != 0 {
		servers.Lack(t, "root", "only root can give a storm a user of its own")
	}
	if _, err := os.Stat(boxes + "/cgroup.procs"); err != nil {
		servers.Lack(t, "cgroup1", "no cgroup v1 of pids here")
	}
	s := &storm{t: t, uid: uid, box: filepath.Join(boxes, "leaderrun-storm-"+strconv.Itoa(os.Getpid()))}
	must(t, os.Mkdir(s.box, 0o755))
	t.Cleanup(s.end)
	most := 3 * limit
	if uid == 0 {
		most = limit
	}
	must(t, os.WriteFile(s.box+"/pids.max", []byte(strconv.Itoa(most)), 0))
	s.dir = t.TempDir()
	must(t, os.Chmod(filepath.Dir(s.dir), 0o755))
	must(t, os.Chmod(s.dir, 0o777))
	program := filepath.Join(s.dir, "program")
	copyProgram(t, program)

	r := &run{t: t, dir: s.dir, mark: "LR_MARK=storm"}
	order := wrapperOrder{
		Dir: s.dir, Command: r.helper("storm", "stormed", strconv.Itoa(lineages)), Term: time.Hour, WithoutCgroup: true,
	}
	order.Command.Path = program
	change(&order)
	s.cmd = exec.Command("/bin/sh", "-c", `echo $$ >"$BOX/cgroup.procs" || exit 97
[ -z "$CGROUP" ] || echo $$ >"$CGROUP/cgroup.procs" || exit 97
exec setpriv --reuid "$U" --regid "$U" --clear-groups -- prlimit --nproc="$LIMIT" "$PROGRAM" "$ORDER"`)
	s.cmd.Env = append(os.Environ(), helperVariable+"=wrapper", "BOX="+s.box, "CGROUP="+order.Cgroup, "U="+strconv.Itoa(uid),
		"LIMIT="+strconv.Itoa(limit), "PROGRAM="+program, "ORDER="+order.text(t))
	s.cmd.Dir, s.cmd.Stderr = s.dir, os.Stderr
	must(t, s.cmd.Start())
	return s
}

func (s *storm) run() *run { return &run{t: s.t, dir: s.dir} }

// left lists what lives in the box, zombies not included.
func (s *storm) left() []int {
	var pids []int
	text, _ := os.ReadFile(s.box + "/cgroup.procs")
	for field := range strings.FieldsSeq(string(text)) {
		if pid, err := strconv.Atoi(field); err == nil && running(pid) {
			pids = append(pids, pid)
		}
	}
	return pids
}

// end kills whatever is in the box, which can grow no further meanwhile.
func (s *storm) end() {
	_ = os.WriteFile(s.box+"/pids.max", []byte("0"), 0)
	if s.cmd != nil && s.cmd.Process != nil {
		_ = s.cmd.Process.Kill()
		_, _ = s.cmd.Process.Wait()
	}
	eventually(s.t, "the box is empty", func() bool {
		text, _ := os.ReadFile(s.box + "/cgroup.procs")
		for field := range strings.FieldsSeq(string(text)) {
			if pid, err := strconv.Atoi(field); err == nil {
				_ = syscall.Kill(pid, syscall.SIGKILL)
			}
		}
		return syscall.Rmdir(s.box) == nil
	})
}

func copyProgram(t *testing.T, to string) {
	t.Helper()
	from, err := os.Open("/proc/self/exe")
	must(t, err)
	defer from.Close()
	f, err := os.OpenFile(to, os.O_CREATE|os.O_WRONLY, 0o755)
	must(t, err)
	_, err = io.Copy(f, from)
	must(t, err)
	must(t, f.Close())
	must(t, os.Chmod(to, 0o755))
}

// stormed waits until the storm rages, or is over because nobody else came to run.
func (s *storm) stormed() {
	s.t.Helper()
	eventually(s.t, "a storm", func() bool {
		text, _ := os.ReadFile(filepath.Join(s.dir, "stormed"))
		_, err := os.Stat(filepath.Join(s.dir, eventFile(lifeline.Dead)))
		return len(text) > 0 || err == nil
	})
}

func (s *storm) killGuardian() {
	s.t.Helper()
	must(s.t, syscall.Kill(s.run().pid("guardian"), syscall.SIGKILL))
}

// ended waits for the wrapper's end and returns its exit code.
func (s *storm) ended() int {
	s.t.Helper()
	exit := make(chan error, 1)
	go func() { exit <- s.cmd.Wait() }()
	select {
	case <-exit:
	case <-time.After(patience):
		s.t.Fatal("the wrapper has not seen the end of it")
	}
	return s.cmd.ProcessState.ExitCode()
}

// noneLeft looks for processes that were left behind. Those that have got a SIGKILL may still be ending.
func (s *storm) noneLeft() {
	s.t.Helper()
	var states string
	for _, pid := range s.left() {
		if p, ok := tree.Stat(pid); ok {
			states += string(p.State)
		}
	}
	if strings.Contains(states, "T") {
		s.t.Errorf("stopped processes are left: %s", states)
	}
	eventually(s.t, "all of the storm has ended", func() bool { return len(s.left()) == 0 })
}

// everyStorm is one of a user who has reached the limit, and one of root, on a host that has reached its own.
func everyStorm(t *testing.T, test func(t *testing.T, uid int)) {
	alone.Await()
	t.Run("of a user", func(t *testing.T) { test(t, stormUser) })
	t.Run("of root", func(t *testing.T) { test(t, 0) })
}

const (
	stormLimit    = 300
	stormLineages = 200
)

// A storm ends when its store is cut off, and without its guardian, although no thread can be had any more. A wrapper that gives up then, as
// one does when the lease has run out, leaves nothing behind that it has stopped and not killed. It kills for ten seconds at most, so the
// storm is one that a busy machine can end by then.
func TestAStormIsEnded(t *testing.T) {
	servers.SkipShort(t)
	for name, c := range map[string]struct {
		lineages int
		order    wrapperOrder
		end      func(s *storm)
	}{
		"by its deadline": {
			stormLineages,
			wrapperOrder{Term: time.Second, Life: 700 * time.Millisecond, Extend: true},
			func(s *storm) { put(filepath.Join(s.dir, "cut off"), 1) },
		},
		"without its guardian":       {stormLineages, wrapperOrder{Term: time.Hour}, (*storm).killGuardian},
		"by a wrapper that gives up": {stormLineages / 4, wrapperOrder{Term: time.Hour, Leave: true}, (*storm).killGuardian},
	} {
		t.Run(name, func(t *testing.T) {
			everyStorm(t, func(t *testing.T, uid int) {
				s := startStorm(t, uid, stormLimit, c.lineages, func(o *wrapperOrder) {
					o.Term, o.Life, o.Extend, o.Leave = c.order.Term, c.order.Life, c.order.Extend, c.order.Leave
				})
				s.stormed()
				c.end(s)
				if code := s.ended(); code != 0 && (code != 75 || !c.order.Leave) {
					t.Errorf("the wrapper ended with %d", code)
				}
				if !c.order.Leave {
					s.run().file(eventFile(lifeline.Dead))
				}
				s.noneLeft()
			})
		})
	}
}

// helperThreads prepares a run, and then needs as many threads as were reserved, when no new one can be had.
func helperThreads([]string) {
	g, err := prepared(Options{withoutCgroup: true})
	check(err)
	check(unix.Setrlimit(unix.RLIMIT_NPROC, &unix.Rlimit{Cur: 1, Max: 1}))
	there, processors := make(chan int), runtime.GOMAXPROCS(0)
	for range 2 { // as those that wait in the kernel
		go func() {
			runtime.LockOSThread()
			there <- 1
			forever()
		}()
		<-there
	}
	var running atomic.Int32
	for range processors {
		go func() {
			running.Add(1)
			for running.Load() < int32(processors) { // at the same time
				continue
			}
			there <- 1
		}()
	}
	for range processors {
		<-there
	}
	check(g.Close())
	syscall.Exit(0) // at once: on its way out the race detector waits, on a thread more
}

func TestThreadsAreThereWhenNoneCanBeHad(t *testing.T) {
	dir := t.TempDir()
	must(t, os.Chmod(filepath.Dir(dir), 0o755))
	must(t, os.Chmod(dir, 0o755))
	program := filepath.Join(dir, "program")
	copyProgram(t, program)
	cmd := exec.Command(program)
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), helperVariable+"=threads", "GOMAXPROCS=4")
	if os.Geteuid() == 0 { // whom no limit holds back
		cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: stormUser, Gid: stormUser}}
	}
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Errorf("%v\n%.300s", err, out)
	}
}

// What keeps the guardian alive and quick is not the command's.
func TestOnlyTheGuardianIsKeptAlive(t *testing.T) {
	r := prepare(t, Options{})
	own, err := os.ReadFile("/proc/self/oom_score_adj")
	must(t, err)
	r.start(r.shell(`cat /proc/self/oom_score_adj >score; nice >nice; echo >ready; exec sleep 1000`), far())
	r.file("ready")
	if got := r.file("score"); got != strings.TrimSpace(string(own)) {
		t.Errorf("the command's score is %s, ours is %s", got, own)
	}
	niceness, err := exec.Command("nice").Output()
	must(t, err)
	if got := r.file("nice"); got != strings.TrimSpace(string(niceness)) {
		t.Errorf("the command is as nice as %s, we are as %s", got, niceness)
	}
	if exec.Command("sh", "-c", "echo -1000 >/proc/self/oom_score_adj").Run() == nil {
		eventually(t, "the guardian is the last to be killed", func() bool {
			text, _ := os.ReadFile("/proc/" + strconv.Itoa(r.Guard.pid) + "/oom_score_adj")
			return string(text) == "-1000\n"
		})
	}
}

// A user to whom a cgroup is delegated, as systemd does below user@UID.service and with Delegate=, has one for each run: a storm
// in there ends by one write.
func TestADelegatedCgroupIsUsed(t *testing.T) {
	home, err := cgroupHome()
	if os.Geteuid() != 0 || err != nil || Tier() != "cgroup+subreaper" {
		servers.Lack(t, "cgroup", "no cgroup can be delegated here")
	}
	delegated := filepath.Join(home, "leaderrun-test-delegated-"+strconv.Itoa(os.Getpid()))
	must(t, os.Mkdir(delegated, 0o755))
	t.Cleanup(func() { eventually(t, "the cgroup is removed", func() bool { return syscall.Rmdir(delegated) == nil }) })
	for _, name := range []string{"", "cgroup.procs", "cgroup.threads", "cgroup.subtree_control"} {
		must(t, os.Chown(filepath.Join(delegated, name), stormUser, stormUser))
	}
	s := startStorm(t, stormUser, stormLimit, stormLineages, func(o *wrapperOrder) {
		o.WithoutCgroup, o.Cgroup = false, delegated
	})
	s.stormed()
	leaves, err := filepath.Glob(filepath.Join(delegated, tree.Prefix+"*", "cgroup.procs"))
	must(t, err)
	if len(leaves) != 1 {
		t.Fatalf("leaves of runs: %q", leaves)
	}
	if text, err := os.ReadFile(leaves[0]); err != nil || len(text) == 0 {
		t.Errorf("nothing of the run is in its cgroup: %v", err)
	}
	s.killGuardian()
	if code := s.ended(); code != 0 {
		t.Errorf("the wrapper ended with %d", code)
	}
	s.noneLeft()
}
