package tree

import (
	"os"
	"os/exec"
	"runtime"
	"syscall"
	"testing"
	"time"

	"github.com/leaderrun/leaderrun/test/waits"
)

// children starts processes that only a signal ends.
func children(t *testing.T, n int) []*exec.Cmd {
	t.Helper()
	var list []*exec.Cmd
	for range n {
		cmd := exec.Command("sleep", "1000")
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() {
			_ = cmd.Process.Kill()
			_ = cmd.Wait()
		})
		list = append(list, cmd)
	}
	return list
}

// What has to be got in the middle of a storm may not be there.
func TestASweepAllocatesNothing(t *testing.T) {
	s := NewSweeper()
	beats := 0
	for name, w := range map[string]Work{
		"by lists of children": {Roots: []int{syscall.Getpid()}, Alive: func() { beats++ }},
		"by a scan":            {Roots: []int{syscall.Getpid()}, Scan: true, Skip: func(Process) bool { return false }},
	} {
		t.Run(name, func(t *testing.T) {
			const some = 20
			list := children(t, some)
			var before, after runtime.MemStats
			runtime.ReadMemStats(&before)
			found, _ := s.Kill(w)
			runtime.ReadMemStats(&after)
			if found < some {
				t.Errorf("found %d processes, want %d", found, some)
			}
			if n := after.Mallocs - before.Mallocs; n > 10 { // some of the runtime's own
				t.Errorf("%d allocations", n)
			}
			for _, cmd := range list {
				if _ = cmd.Wait(); cmd.ProcessState.Sys().(syscall.WaitStatus).Signal() != syscall.SIGKILL {
					t.Errorf("a child ended with %v", cmd.ProcessState)
				}
			}
		})
	}
	if beats == 0 {
		t.Error("nobody was told that the work goes on")
	}
}

// More processes than one sweep can remember are killed by several, none of which leaves a stopped one.
func TestASweepThatIsFullKillsWhatItHas(t *testing.T) {
	s := NewSweeper()
	const some, room = 8, 3
	s.most = room
	list := children(t, some)
	w := Work{Roots: []int{syscall.Getpid()}, Skip: func(Process) bool { return false }}
	if found, calm := s.Kill(w); found != room || calm {
		t.Errorf("found %d, calm %v", found, calm)
	}
	for _, cmd := range list {
		if p, ok := Stat(cmd.Process.Pid); ok && p.State == 'T' {
			t.Errorf("%d is stopped", p.PID)
		}
	}
}

// What is found stays to be killed, and nothing else.
func TestSkippedAndStrangersAreLeftAlone(t *testing.T) {
	s := NewSweeper()
	list := children(t, 3)
	spared := list[1].Process.Pid
	w := Work{Roots: []int{syscall.Getpid()}, Skip: func(p Process) bool { return p.PID == spared }}
	for _, scan := range []bool{false, true} {
		w.Scan = scan
		s.Kill(w)
		if p, ok := Stat(spared); !ok || p.State == 'T' || p.Zombie() {
			t.Errorf("what was to be skipped is %+v", p)
		}
	}
	for _, cmd := range list { // which have got their SIGKILL, and need a processor to die
		for end := time.Now().Add(patience); cmd.Process.Pid != spared && !isZombie(cmd.Process.Pid); time.Sleep(time.Millisecond) {
			if time.Now().After(end) {
				t.Fatal("it lives")
			}
		}
	}
	for calm, end := false, time.Now().Add(patience); !calm; { // a sweep that takes too long is not
		var found int
		if found, calm = s.Kill(w); found != 0 || time.Now().After(end) {
			t.Fatalf("found %d, calm %v", found, calm)
		}
	}
}

// patience is a time that only a hang exceeds.
var patience = waits.Patience

func isZombie(pid int) bool {
	p, ok := Stat(pid)
	return ok && p.Zombie()
}

// What cannot be looked at may be full of processes.
func TestWhatCannotBeReadIsNotEmpty(t *testing.T) {
	const nobody = 1<<22 + 1 // above PID_MAX_LIMIT
	s := NewSweeper()
	if found, calm := s.Kill(Work{Roots: []int{nobody}}); found != 0 || calm {
		t.Errorf("found %d below a process that cannot be read, calm %v", found, calm)
	}
	dir := t.TempDir()
	if OthersCgroup(dir).Populated() {
		t.Error("a process is in what is no cgroup")
	}
	if err := os.Mkdir(dir+"/cgroup.events", 0o700); err != nil { // read(2) of it fails
		t.Fatal(err)
	}
	if !OthersCgroup(dir).Populated() {
		t.Error("a cgroup that cannot be read is taken for empty")
	}
}
