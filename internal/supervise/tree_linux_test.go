package supervise

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"syscall"
	"testing"
	"time"

	"github.com/leaderrun/leaderrun/internal/lifeline"
	"github.com/leaderrun/leaderrun/internal/supervise/tree"
	"github.com/leaderrun/leaderrun/test/servers"
)

func TestLeftoversAreEnded(t *testing.T) {
	tiers(t, func(t *testing.T, o Options) {
		r := prepare(t, o)
		r.start(r.helper("daemon", "daemon", "go"), far())
		e := r.wait(lifeline.Dead)
		if want := (lifeline.Status{Known: true}); e.Status != want {
			t.Errorf("status %+v", e.Status)
		}
		// What has got its SIGKILL needs a processor to die.
		r.seen = slices.DeleteFunc(r.seen, func(e lifeline.Event) bool { return e.Kind == lifeline.Unconfirmed })
		if len(r.seen) != 3 || r.seen[0].Kind != lifeline.Exited || r.seen[1].Kind != lifeline.Leftovers || r.seen[1].Count != 1 {
			t.Errorf("events %+v", r.seen)
		}
		r.noneLeft()
	})
}

func TestLeftoversGetATermFirst(t *testing.T) {
	inTime(t, func(func(time.Duration) time.Duration) (slept bool) {
		r := prepare(t, Options{})
		c := r.shell(`(trap 'echo >termed; exit' TERM; echo >ready; while :; do sleep 0.01; done) &
while [ ! -e ready ]; do sleep 0.01; done; exit 4`)
		c.Grace = patience
		began := time.Now()
		r.start(c, far())
		if e := r.wait(lifeline.Dead); e.Status.Code != 4 {
			t.Errorf("status %+v", e.Status)
		}
		if took := time.Since(began); took > c.Grace/2 {
			t.Errorf("took %v", took)
		}
		return !r.has("termed") // it has a second from SIGTERM to SIGKILL
	})
}

// A process whose main thread has ended looks like a zombie, and cgroup.kill does not reach it.
func TestKillReachesAProcessWithoutItsMainThread(t *testing.T) {
	tiers(t, func(t *testing.T, o Options) {
		r := prepare(t, o)
		c := r.helper("headless", "headless")
		c.Argv = append([]string{"setsid", "--fork", "--wait", c.Path}, c.Argv[1:]...)
		c.Path = "/usr/bin/setsid"
		r.start(c, far())
		pid := r.pid("headless")
		r.Kill(true)
		r.wait(lifeline.Dead)
		if running(pid) {
			t.Error("Dead was told, and the process lives")
		}
		r.noneLeft()
	})
}

// A grandchild that left our cgroup, as `su` and service managers do, is still a descendant.
func TestKillReachesWhatLeftTheCgroup(t *testing.T) {
	if Tier() != "cgroup+subreaper" {
		servers.Lack(t, "cgroup", "no cgroup can be made here")
	}
	home, err := cgroupHome()
	must(t, err)
	other := filepath.Join(home, "leaderrun-test-"+strconv.Itoa(os.Getpid()))
	must(t, os.Mkdir(other, 0o755))
	defer eventually(t, "the other cgroup is removed", func() bool { return syscall.Rmdir(other) == nil })
	r := prepare(t, Options{})
	r.start(r.helper("daemon", "daemon", "stay"), far())
	daemon := r.pid("daemon")
	r.pid("command")
	must(t, os.WriteFile(filepath.Join(other, "cgroup.procs"), []byte(strconv.Itoa(daemon)), 0))
	r.Kill(true)
	r.wait(lifeline.Dead)
	if running(daemon) {
		t.Error("Dead was told, and the daemon lives")
	}
}

// Where a process from outside was put into the run's cgroup, the run is not dead before that is.
func TestDeadWaitsForAnEmptyCgroup(t *testing.T) {
	if Tier() != "cgroup+subreaper" {
		servers.Lack(t, "cgroup", "no cgroup can be made here")
	}
	guest := prepare(t, Options{withoutCgroup: true})
	guest.start(guest.helper("linger", "guest"), far())
	pid := guest.pid("guest")
	r := prepare(t, Options{})
	r.start(r.shell("echo >ready; exec sleep 100"), far())
	r.file("ready")
	must(t, os.WriteFile(filepath.Join(r.cgroup, "cgroup.procs"), []byte(strconv.Itoa(pid)), 0))
	r.Signal(syscall.SIGTERM)
	if e := r.wait(lifeline.Dead); e.Status.Signal != syscall.SIGTERM || !r.saw(lifeline.Leftovers) {
		t.Errorf("events %+v", r.seen)
	}
	if running(pid) {
		t.Error("Dead was told with a process in the cgroup")
	}
}

func TestKillEndsAForkBomb(t *testing.T) {
	tiers(t, func(t *testing.T, o Options) {
		r := prepare(t, o)
		r.start(r.helper("bomb", "count"), far())
		eventually(t, "it forks", func() bool {
			info, err := os.Stat(filepath.Join(r.dir, "count"))
			return err == nil && info.Size() > 20
		})
		r.Kill(true)
		r.wait(lifeline.Dead)
		r.noneLeft()
	})
}

// freezer makes a box of which every process is frozen at will (cgroup v1 freezer): a frozen process
// does not act on SIGKILL before it is thawed, and that is what an unkillable one looks like.
func freezer(t *testing.T) (box string, state func(string)) {
	t.Helper()
	const root = "/sys/fs/cgroup/freezer"
	box = filepath.Join(root, "leaderrun-test-"+strconv.Itoa(os.Getpid()))
	if err := os.Mkdir(box, 0o755); errors.Is(err, fs.ErrNotExist) || errors.Is(err, fs.ErrPermission) || errors.Is(err, syscall.EROFS) {
		servers.Lack(t, "cgroup1", "no cgroup v1 freezer to be made here: "+err.Error())
	} else {
		must(t, err)
	}
	state = func(s string) {
		eventually(t, s, func() bool {
			// Again and again: a parent in vfork(2) whose child froze before its exec is not asked a second time.
			must(t, os.WriteFile(box+"/freezer.state", []byte(s), 0))
			got, _ := os.ReadFile(box + "/freezer.state")
			return string(got) == s+"\n"
		})
	}
	t.Cleanup(func() { eventually(t, "the freezer is removed", func() bool { return syscall.Rmdir(box) == nil }) })
	return box, state
}

// A frozen tree is not dead, whether its guardian lives, was killed, or is frozen with it: then the wrapper waits just the same.
func TestAFrozenTreeIsUnconfirmedUntilThawed(t *testing.T) {
	for name, c := range map[string]struct {
		first string // what goes into the freezer before the command
		end   func(r *run)
		lost  bool
	}{
		"the guardian lives":   {"", func(r *run) { r.Kill(false) }, false}, // it may take its time to begin
		"the guardian dies":    {"", func(r *run) { must(r.t, syscall.Kill(r.Guard.pid, syscall.SIGKILL)) }, true},
		"the guardian freezes": {"echo $PPID >box; ", func(r *run) { r.Kill(true) }, true},
	} {
		t.Run(name, func(t *testing.T) {
			tiers(t, func(t *testing.T, o Options) {
				box, state := freezer(t)
				r := prepare(t, o)
				t.Cleanup(func() { state("THAWED") })
				must(t, os.Symlink(box+"/cgroup.procs", filepath.Join(r.dir, "box")))
				r.start(r.shell(c.first+"echo $$ >box; echo $$ >pid; sleep 100"), far())
				r.pid("pid")
				state("FROZEN")
				c.end(r)
				if e := r.wait(lifeline.Unconfirmed); e.Count < 1 || r.saw(lifeline.Dead) || r.saw(lifeline.GuardianLost) != c.lost {
					t.Errorf("events %+v", r.seen)
				}
				state("THAWED")
				r.wait(lifeline.Dead)
				r.noneLeft()
			})
		})
	}
}

// A wrapper and its guardian may both be killed: the next run that has a cgroup beside theirs removes what they have left.
func TestALaterRunRemovesTheCgroupOfAKilledOne(t *testing.T) {
	home, err := cgroupHome()
	if os.Geteuid() != 0 || err != nil || Tier() != "cgroup+subreaper" {
		servers.Lack(t, "cgroup", "no cgroup can be made here")
	}
	own := filepath.Join(home, "leaderrun-test-tidy-"+strconv.Itoa(os.Getpid()))
	left := filepath.Join(own, tree.Prefix+"left")
	must(t, os.Mkdir(own, 0o755))
	must(t, os.Mkdir(left, 0o755))
	t.Cleanup(func() {
		_ = os.Remove(left)
		eventually(t, "the cgroup is removed", func() bool { return os.Remove(own) == nil })
	})
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	cmd := exec.CommandContext(ctx, "/bin/sh", "-c", `echo $$ >"$1/cgroup.procs" && exec "$2" "$3"`, "sh", own, self(t), left)
	cmd.Env = append(os.Environ(), helperVariable+"=tidy")
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Errorf("it stays: %v\n%s", err, out)
	}
}
