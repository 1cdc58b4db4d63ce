package supervise

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/leaderrun/leaderrun/internal/boottime"
	"github.com/leaderrun/leaderrun/internal/lifeline"
	"github.com/leaderrun/leaderrun/internal/supervise/guardian"
	"github.com/leaderrun/leaderrun/internal/supervise/tree"
)

func splitLines(text []byte) []string { return strings.Split(string(text), "\n") }

// wrapped is a wrapper in a process of its own, with what it runs.
type wrapped struct {
	t     *testing.T
	cmd   *exec.Cmd
	dir   string
	mark  string
	lock  string
	began time.Time
}

// wrap starts helperWrapper, which runs the script until it is told otherwise.
func wrap(t *testing.T, o Options, script string, change func(*wrapperOrder)) *wrapped {
	t.Helper()
	// A run only for its shell method.
	r := &run{t: t, dir: t.TempDir(), mark: "LR_MARK=" + time.Now().Format(time.RFC3339Nano)}
	w := &wrapped{t: t, dir: r.dir, mark: r.mark, lock: filepath.Join(r.dir, "lock"), began: time.Now()}
	order := wrapperOrder{
		Dir: r.dir, Command: r.shell(script), Lock: w.lock, Term: time.Hour, WithoutCgroup: o.withoutCgroup,
	}
	if change != nil {
		change(&order)
	}
	words := []string{order.text(t)}
	if order.Ahead {
		words = append(leaderrunRun, words...)
	}
	w.cmd = exec.Command(self(t), words...)
	w.cmd.Env = append(os.Environ(), helperVariable+"=wrapper")
	w.cmd.Stderr = os.Stderr
	must(t, w.cmd.Start())
	t.Cleanup(func() {
		_ = w.cmd.Process.Kill()
		_, _ = w.cmd.Process.Wait()
		eventually(t, "everything ended", func() bool { return len(marked(w.mark)) == 0 })
	})
	w.run().file("wrapper")
	return w
}

func (w *wrapped) run() *run { return &run{t: w.t, dir: w.dir, mark: w.mark} }

// free tells whether somebody else could get the lock.
func (w *wrapped) free() bool {
	w.t.Helper()
	f, err := os.OpenFile(w.lock, os.O_CREATE|os.O_RDWR, 0o644)
	must(w.t, err)
	defer f.Close()
	return syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB) == nil
}

// freeOnlyWhenDead waits for the lock, and checks at that moment that nothing is left of the run.
func (w *wrapped) freeOnlyWhenDead() {
	w.t.Helper()
	eventually(w.t, "the lock is free", w.free)
	if left := marked(w.mark); len(left) > 0 {
		w.t.Errorf("the lock is free, and %v live", left)
	}
}

// A tree with something stubborn in it, in a session of its own.
const difficult = `"$SELF" daemon stay & trap '' TERM; echo $$ >pid; while :; do sleep 0.01; done`

func withDaemon(o *wrapperOrder) {
	// The environment of the shell makes $SELF the daemon's helper.
	for i, e := range o.Command.Env {
		if strings.HasPrefix(e, helperVariable) {
			o.Command.Env[i] = helperVariable + "=daemon"
		}
	}
}

// The guardian tidies up after a wrapper that cannot: a socket, and its directory with the last one.
func TestTheSocketGoesWhenTheWrapperIsKilled(t *testing.T) {
	socket := ""
	w := wrap(t, Options{}, `echo $$ >pid; exec sleep 1000`, func(o *wrapperOrder) {
		dir := filepath.Join(o.Dir, "sockets")
		must(t, os.Mkdir(dir, 0o700))
		socket = filepath.Join(dir, "socket")
		o.Command.Socket = socket
	})
	must(t, os.WriteFile(socket, nil, 0o600))
	other := socket + " of another run"
	must(t, os.WriteFile(other, nil, 0o600))
	w.run().pid("pid")
	must(t, w.cmd.Process.Kill())
	gone := func(path string) func() bool {
		return func() bool {
			_, err := os.Lstat(path)
			return err != nil
		}
	}
	eventually(t, "the socket is removed", gone(socket))
	must(t, os.Remove(other))
	again := wrap(t, Options{}, `echo $$ >pid; exec sleep 1000`, func(o *wrapperOrder) { o.Command.Socket = socket })
	must(t, os.WriteFile(socket, nil, 0o600))
	again.run().pid("pid")
	must(t, again.cmd.Process.Kill())
	eventually(t, "the directory is removed", gone(filepath.Dir(socket)))
}

func (w *wrapped) noCgroup() {
	w.t.Helper()
	home, err := cgroupHome()
	if err != nil {
		return
	}
	eventually(w.t, "the cgroup is removed", func() bool {
		left, _ := filepath.Glob(filepath.Join(home, tree.Prefix+w.run().file("wrapper")+"-*"))
		// Another wrapper of that number may have been killed long ago, with its guardian: that one's stays.
		return !slices.ContainsFunc(left, func(path string) bool {
			info, err := os.Stat(path)
			return err == nil && info.ModTime().After(w.began.Add(-time.Second)) // some clocks of the kernel are coarse
		})
	})
}

func TestTheCommandGetsATermWhenTheWrapperIsKilled(t *testing.T) {
	w := wrap(t, Options{}, `trap 'echo >termed; exit' TERM; echo $$ >pid; while :; do sleep 0.01; done`, func(o *wrapperOrder) {
		o.Command.Grace = patience
	})
	w.run().pid("pid")
	must(t, w.cmd.Process.Kill())
	w.run().file("termed")
	w.freeOnlyWhenDead()
}

func TestTheTreeDiesWhenTheWrapperIsStopped(t *testing.T) {
	tiers(t, func(t *testing.T, o Options) {
		inTime(t, func(longer func(time.Duration) time.Duration) (slept bool) {
			w := wrap(t, o, difficult, func(o *wrapperOrder) {
				withDaemon(o)
				o.Term, o.Life, o.Extend = longer(1500*time.Millisecond), 300*time.Millisecond, true
			})
			r := w.run()
			until := boottime.Now().Add(longer(2 * time.Second))
			eventually(t, "it outlives its first deadlines, or is dead", func() bool {
				return r.has("daemon") && r.has("pid") && boottime.Now() > until || r.has(eventFile(lifeline.Dead))
			})
			if w.free() && len(marked(w.mark)) > 0 {
				t.Fatal("the lock is free during the run")
			}
			if len(marked(w.mark)) == 0 { // it was not extended in time
				return true
			}
			stop(t, w.cmd.Process.Pid)
			w.freeOnlyWhenDead()
			must(t, w.cmd.Process.Signal(syscall.SIGCONT))
			r.file(eventFile(lifeline.Dead))
			return false
		})
	})
}

// A wrapper that is stopped after its command ended has a lock that nobody else would give back.
func TestTheLockOfAStoppedWrapperIsGivenBackAtTheEnd(t *testing.T) {
	inTime(t, func(longer func(time.Duration) time.Duration) (slept bool) {
		w := wrap(t, Options{}, `echo >pid; read line <fifo`, func(o *wrapperOrder) {
			must(t, syscall.Mkfifo(filepath.Join(o.Dir, "fifo"), 0o600))
			o.Term, o.Life = longer(2*time.Second), 300*time.Millisecond
		})
		stop(t, w.cmd.Process.Pid) // one that hears of the end would dismiss the guardian, and the lock is the wrapper's own then
		var line *os.File
		eventually(t, "the command reads, or is dead", func() (over bool) {
			over = len(marked(w.mark)) == 0
			line, _ = os.OpenFile(filepath.Join(w.dir, "fifo"), os.O_WRONLY|syscall.O_NONBLOCK, 0) // only if somebody reads it
			return line != nil || over
		})
		if line == nil {
			return true
		}
		_, _ = line.WriteString("\n")
		must(t, line.Close())
		eventually(t, "dead", func() bool { return len(marked(w.mark)) == 0 })
		w.freeOnlyWhenDead()
		return false
	})
}

func TestTheGuardianHoldsWhatTheCommandDoesNotHave(t *testing.T) {
	w := wrap(t, Options{}, `trap "" TERM; echo >pid; while :; do sleep 0.1; done`, func(o *wrapperOrder) {
		o.Hold, o.Command.Grace = true, 2*time.Second // long enough to be seen also on a busy machine
	})
	w.run().file("pid")
	guardian := w.run().pid("guardian")
	stop(t, guardian) // so that the tree lives until the lock has been looked at
	must(t, w.cmd.Process.Kill())
	eventually(t, "the wrapper is dead", func() bool { return !running(w.cmd.Process.Pid) })
	if w.free() {
		t.Error("the lock went with the wrapper")
	}
	must(t, syscall.Kill(guardian, syscall.SIGCONT))
	w.freeOnlyWhenDead()
}

func TestALiveWrapperUnlocksItself(t *testing.T) {
	r := prepare(t, Options{})
	path := filepath.Join(r.dir, "lock")
	lock, err := os.Create(path)
	must(t, err)
	defer lock.Close()
	must(t, syscall.Flock(int(lock.Fd()), syscall.LOCK_EX))
	c := r.shell("exit 0")
	c.Inherit = []*os.File{lock}
	r.start(c, far())
	r.wait(lifeline.Dead)
	must(t, r.Close())
	if w := (&wrapped{t: t, lock: path}); w.free() {
		t.Error("the guardian unlocked what the wrapper still needs")
	}
}

func TestTheTreeDiesWhenTheGuardianIsKilled(t *testing.T) {
	tiers(t, func(t *testing.T, o Options) {
		r := prepare(t, o)
		r.start(r.helper("daemon", "daemon", "stay"), far())
		daemon := r.pid("daemon")
		r.pid("command")
		must(t, syscall.Kill(r.Guard.pid, syscall.SIGKILL))
		lost, e := r.wait(lifeline.GuardianLost), r.wait(lifeline.Dead)
		if running(daemon) || e.Status.Known || !errors.Is(lost.Err, ErrGuardian) || !strings.HasSuffix(lost.Err.Error(), "it died") {
			t.Errorf("events %+v", r.seen)
		}
		r.noneLeft()
	})
}

func TestAStoppedGuardianIsReplacedByTheWrapper(t *testing.T) {
	reasons := map[string]func(r *run, d lifeline.Deadline) (latest boottime.Instant){
		"an extension is not acknowledged": func(r *run, d lifeline.Deadline) boottime.Instant {
			r.Extend(far())
			return d.Kill
		},
		"it does not kill at the deadline": func(_ *run, d lifeline.Deadline) boottime.Instant { return d.End },
		"it does not kill when asked": func(r *run, _ lifeline.Deadline) boottime.Instant {
			r.Kill(true)
			return boottime.Now().Add(time.Second)
		},
	}
	for reason, act := range reasons {
		t.Run(reason, func(t *testing.T) {
			tiers(t, func(t *testing.T, o Options) {
				inTime(t, func(longer func(time.Duration) time.Duration) (slept bool) {
					r := prepare(t, o)
					d := within(longer(time.Second), longer(2*time.Second))
					if !r.startInTime(r.shell("trap '' TERM; ("+stubborn+") & while :; do sleep 0.01; done"), d) {
						return true
					}
					stop(t, r.Guard.pid)
					if boottime.Now() >= d.Term {
						return true
					}
					latest := act(r, d)
					lost := r.wait(lifeline.GuardianLost)
					r.wait(lifeline.Dead)
					late := boottime.Now().Sub(latest)
					if !errors.Is(lost.Err, ErrGuardian) || !strings.HasSuffix(lost.Err.Error(), " in time") {
						t.Error(lost.Err)
					}
					r.noneLeft()
					if late > 0 {
						t.Logf("dead %v too late", late)
					}
					return late > 0
				})
			})
		})
	}
}

// A guardian may be stopped at any moment after it has said that it kills. The wrapper then does not wait for its silence.
func TestAGuardianThatIsStoppedWhileItKillsIsHelped(t *testing.T) {
	tiers(t, func(t *testing.T, o Options) {
		inTime(t, func(longer func(time.Duration) time.Duration) (slept bool) {
			r := prepare(t, o)
			d := within(longer(time.Second), longer(time.Second))
			if !r.startInTime(r.shell(stubborn), d) {
				return true
			}
			pid := r.pid("pid")
			stop(t, r.Guard.pid)
			if boottime.Now() >= d.Kill {
				return true
			}
			var now boottime.Instant
			eventually(t, "dead, or the end", func() bool {
				r.handle(guardian.Message{Kind: guardian.Killing}) // what it says before it is stopped
				r.look()
				dead := !running(pid)
				now = boottime.Now()
				return dead || now >= d.End
			})
			if now < d.Kill {
				t.Errorf("dead %v before the time of SIGKILL", d.Kill.Sub(now))
			}
			must(t, syscall.Kill(r.Guard.pid, syscall.SIGCONT))
			r.wait(lifeline.Dead)
			if now >= d.End || r.saw(lifeline.GuardianLost) {
				t.Logf("dead %v after the end: %+v", now.Sub(d.End), r.seen)
				return true
			}
			return false
		})
	})
}

// A renewal may be answered just before SIGTERM is due. A guardian that had no time yet to read of it is not lost.
func TestAGuardianMayAnswerAnExtensionLate(t *testing.T) {
	inTime(t, func(longer func(time.Duration) time.Duration) (slept bool) {
		r := prepare(t, Options{})
		d := within(longer(2*time.Second), 10*time.Second)
		if !r.startInTime(r.shell(stubborn), d) {
			return true
		}
		stop(t, r.Guard.pid)
		eventually(t, "just before SIGTERM", func() bool { return boottime.Now() >= d.Term.Add(-20*time.Millisecond) })
		next := far()
		r.Extend(next)
		sent := boottime.Now()
		eventually(t, "after it, and after the second look", func() bool { return boottime.Now() >= d.Term.Add(4*secondLook) })
		_ = syscall.Kill(r.Guard.pid, syscall.SIGCONT)
		var lost error
		eventually(t, "acknowledged, or lost", func() bool {
			r.mu.Lock()
			defer r.mu.Unlock()
			lost = r.loss
			return lost != nil || r.watch.acked == next
		})
		r.Kill(true)
		r.wait(lifeline.Dead)
		if sent >= d.Term || lost != nil {
			t.Log("it was lost:", lost)
			return true
		}
		return false
	})
}

// A busy machine may give the guardian no time for a while. While the lease is ours, that costs no run its outcome.
func TestAGuardianMayBeginToKillLate(t *testing.T) {
	inTime(t, func(func(time.Duration) time.Duration) (slept bool) {
		r := prepare(t, Options{})
		r.start(r.shell(stubborn), far())
		r.pid("pid")
		stop(t, r.Guard.pid)
		asked := boottime.Now()
		r.Kill(false)
		eventually(t, "later than a lost lease would allow", func() bool { return boottime.Now() >= asked.Add(2*graceToAnswer+2*secondLook) })
		_ = syscall.Kill(r.Guard.pid, syscall.SIGCONT)
		woken := boottime.Now()
		e := r.wait(lifeline.Dead)
		if woken >= asked.Add(slack/2) {
			t.Log("late: ", woken.Sub(asked))
			return true
		}
		if e.Status.Signal != syscall.SIGKILL || r.saw(lifeline.GuardianLost) {
			t.Errorf("%+v", r.seen)
		}
		return false
	})
}

// Nothing of the others is touched when one guardian of several is lost.
func TestOneLostGuardianLeavesTheOthersAlone(t *testing.T) {
	tiers(t, func(t *testing.T, o Options) {
		stranger := exec.Command("sleep", "100")
		stranger.SysProcAttr = &syscall.SysProcAttr{Setsid: true} // nothing but its age tells it from an orphan
		must(t, stranger.Start())
		defer func() {
			must(t, stranger.Process.Kill())
			if err := stranger.Wait(); err == nil {
				t.Error("the stranger ended by itself")
			}
		}()
		var runs []*run
		for range 3 {
			r := prepare(t, o)
			r.start(r.helper("daemon", "daemon", "stay"), far())
			r.pid("daemon")
			r.pid("command")
			runs = append(runs, r)
		}
		newcomer := exec.Command("sleep", "100")
		must(t, newcomer.Start())
		must(t, syscall.Kill(runs[0].Guard.pid, syscall.SIGKILL))
		runs[0].wait(lifeline.Dead)
		for _, r := range runs[1:] {
			if len(r.Events()) != 0 || len(marked(r.mark)) != 2 {
				t.Errorf("events %d, processes %v", len(r.Events()), marked(r.mark))
			}
		}
		for _, cmd := range []*exec.Cmd{stranger, newcomer} {
			if !running(cmd.Process.Pid) {
				t.Error("a stranger was killed")
			}
		}
		must(t, newcomer.Process.Kill())
		_ = newcomer.Wait()
	})
}

// What ended while the wrapper looked may have forked what the look has missed.
func TestASweepThatFindsAZombieProvesNothing(t *testing.T) {
	g := &Guard{strays: knownChildren()}
	guards.sweeper = tree.NewSweeper()
	cmd := exec.Command("true")
	must(t, cmd.Start())
	defer func() { _ = cmd.Wait() }()
	eventually(t, "its end", func() bool {
		p, ok := tree.Stat(cmd.Process.Pid)
		return ok && p.Zombie()
	})
	if left, _ := g.sweep(nil); left != 1 {
		t.Errorf("%d processes were found, want 1", left)
	}
	if left, _ := g.sweep(nil); left != 0 {
		t.Errorf("%d processes were found after the last one was reaped", left)
	}
}

// Who waited once for a storm to end does not wait for it again.
func TestAStormIsWaitedForOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newGuard(Options{})
		g.loss = ErrGuardian
		began := time.Now()
		for range 3 {
			g.killAll()
		}
		if waited := time.Since(began); waited != tree.LongestStorm {
			t.Errorf("waited %v, want %v", waited, tree.LongestStorm)
		}
	})
}

// A guardian that dies before there is anything to guard costs nothing but another guardian.
func TestGuardianDiesBeforeTheStart(t *testing.T) {
	r := prepare(t, Options{})
	must(t, syscall.Kill(r.Guard.pid, syscall.SIGKILL))
	for range r.Events() {
		t.Error("an event, although nothing was started")
	}
	if err := r.Start(r.shell("exit 0"), far()); !errors.Is(err, ErrGone) {
		t.Errorf("got %v, want ErrGone", err)
	}
}
