package supervise

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"sync"
	"syscall"
	"testing"

	"github.com/leaderrun/leaderrun/internal/lifeline"
	"github.com/leaderrun/leaderrun/internal/supervise/tree"
)

// helperTracer traces a process and never looks at it, as a debugger that somebody has left open.
func helperTracer(args []string) {
	const seize = 0x4206 // PTRACE_SEIZE of ptrace(2)
	runtime.LockOSThread()
	pid, err := strconv.Atoi(args[0])
	if err != nil {
		panic(err)
	}
	options := uintptr(0)
	if len(args) > 2 {
		options = 0x40 // PTRACE_O_TRACEEXIT
	}
	if _, _, errno := syscall.RawSyscall6(syscall.SYS_PTRACE, seize, uintptr(pid), 0, options, 0, 0); errno != 0 {
		panic(errno)
	}
	put(args[1], syscall.Gettid()) // the kernel knows a tracer by its thread
	forever()
}

// trace lets a process that is none of the run's trace one of it, and returns its number.
func (r *run) trace(pid int, options ...string) (tracer int) {
	r.t.Helper()
	name := "tracer-" + strconv.Itoa(pid)
	cmd := exec.Command("/proc/self/exe", append([]string{strconv.Itoa(pid), name}, options...)...)
	cmd.Env, cmd.Dir, cmd.Stderr = append(os.Environ(), helperVariable+"=tracer"), r.dir, os.Stderr
	must(r.t, cmd.Start())
	r.t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	})
	tracer = r.pid(name)
	tracersOfAll.Store(tracer, true)
	return tracer
}

// tracersOfAll are the tracers of all tests. Orphans of runs that have lost their guardian come to this one process, which is the
// wrapper of all: a run may be held for a moment by what another test traces.
var tracersOfAll sync.Map

// Hazard: somebody outside traces a process of the run, which keeps its end from being waited for: the run never ends, and with it a
// daemon that drains.
func TestAForeignTracerHoldsNoRun(t *testing.T) {
	t.Parallel()
	kill := func(r *run) { r.Kill(true) }
	for name, c := range map[string]struct {
		traced []string // files with the numbers
		end    func(r *run)
	}{
		"the command":        {[]string{"command"}, kill},
		"what it left":       {[]string{"daemon"}, kill},
		"both":               {[]string{"command", "daemon"}, kill},
		"without a guardian": {[]string{"command", "daemon"}, func(r *run) { must(r.t, syscall.Kill(r.Guard.pid, syscall.SIGKILL)) }},
	} {
		for _, options := range [][]string{nil, {"at its exit"}} {
			t.Run(fmt.Sprint(name, options), func(t *testing.T) {
				t.Parallel()
				r := prepare(t, Options{})
				r.start(r.helper("daemon", "daemon", "stay"), far())
				var tracers []int
				for _, file := range c.traced {
					tracers = append(tracers, r.trace(r.pid(file), options...))
				}
				r.pid("command")
				c.end(r)
				r.wait(lifeline.Dead)
				r.wantTracer()
				for _, tracer := range tracers { // else the cgroup could not be removed
					must(t, syscall.Kill(tracer, syscall.SIGKILL))
				}
				eventually(t, "the cgroup is removed", func() bool {
					err := os.Remove(r.cgroup)
					return err == nil || errors.Is(err, os.ErrNotExist)
				})
			})
		}
	}
	t.Run("the command, which ended by itself", func(t *testing.T) {
		t.Parallel()
		r := prepare(t, Options{})
		fifo := filepath.Join(r.dir, "fifo")
		must(t, syscall.Mkfifo(fifo, 0o600))
		r.start(r.shell("echo $$ >command; exec cat fifo"), far())
		end, err := os.OpenFile(fifo, os.O_WRONLY, 0)
		must(t, err)
		r.trace(r.pid("command"))
		must(t, end.Close())
		r.wait(lifeline.Dead)
		r.wantTracer()
	})
}

func (r *run) wantTracer() {
	r.t.Helper()
	for _, e := range r.seen {
		if _, is := tracersOfAll.Load(e.Tracer); is && e.Kind == lifeline.Unconfirmed && e.Count == 0 {
			return
		}
	}
	r.t.Errorf("nobody was told of a tracer: %+v", r.seen)
}

// A process that is traced and that SIGKILL does not end is not taken for dead: one that is frozen goes on when it is thawed.
func TestWhatIsTracedAndLivesIsNotDead(t *testing.T) {
	box, state := freezer(t)
	r := prepare(t, Options{})
	r.start(r.helper("linger", "linger"), far())
	pid := r.pid("linger")
	r.trace(pid)
	must(t, os.WriteFile(box+"/cgroup.procs", []byte(strconv.Itoa(pid)), 0))
	state("FROZEN")
	defer state("THAWED")
	r.Kill(false) // the guardian may take its time to begin
	if e := r.wait(lifeline.Unconfirmed); e.Count != 1 {
		t.Errorf("%+v", e)
	}
	if tracer := tree.TracedOnly(r.Guard.pid, nil, nil); tracer != 0 || r.saw(lifeline.Dead) {
		t.Errorf("%d keeps what lives: %+v", tracer, r.seen)
	}
	state("THAWED")
	r.wait(lifeline.Dead)
}
