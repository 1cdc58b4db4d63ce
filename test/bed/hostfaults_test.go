package bed

import (
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/leaderrun/leaderrun/test/hosts"
	"github.com/leaderrun/leaderrun/test/servers"
)

// hostOnly is a bed of one host without a store, on which stand-ins of the three processes of a run sleep.
type hostOnly struct {
	*Bed
	victim                     Victim
	wrapper, guardian, command *servers.Process
}

func newHostOnly(t *testing.T) *hostOnly {
	t.Helper()
	n := hosts.NewNetwork(t, "s", "a")
	n.Resolve("a")
	x := &hostOnly{Bed: &Bed{T: t, Net: n, Store: Store{TTL: 5 * time.Second}, Way: Leaderrun}}
	x.wrapper, x.guardian, x.command = x.sleeper(t, "leaderrun"), x.sleeper(t, "lr-guard"), x.sleeper(t, "witness")
	x.victim = Victim{Host: "a", Wrapper: x.wrapper.PID(), Guardian: x.guardian.PID(), Run: &Span{Host: "a", PID: x.command.PID()}}
	const number = 1
	command := *x.victim.Run
	command.Wrapper, x.pids = number, map[int]int{number: x.wrapper.PID()}
	x.registry = &registry{alive: map[string]Span{"command": command}}
	return x
}

func (x *hostOnly) sleeper(t *testing.T, name string) *servers.Process {
	t.Helper()
	sleep, err := exec.LookPath("sleep")
	if err != nil {
		t.Fatal(err)
	}
	dir := servers.Dir(t)
	path := filepath.Join(dir, name)
	// A copy could not be executed while a process that another test is just starting has it open for writing (golang/go#22315).
	if err := os.Symlink(sleep, path); err != nil {
		t.Fatal(err)
	}
	where := x.Net.Where("a")
	p := servers.Start(t, dir, where[0], append(where[1:], path, "3600")...)
	servers.Eventually(t, name+" sleeps", func() bool { return hosts.Comm(p.PID()) == name })
	return p
}

// state is what became of a process.
func state(t *testing.T, p *servers.Process) string {
	t.Helper()
	text, _ := os.ReadFile(filepath.Join("/proc", strconv.Itoa(p.PID()), "status"))
	switch {
	case p.Ended():
		return "gone"
	case strings.Contains(string(text), "\nState:\tT"):
		return "stopped"
	default:
		return "well"
	}
}

// Each fault does to the processes what its name says, the others are left alone, and what is mended is well again.
func TestHostFaults(t *testing.T) {
	t.Parallel()
	type states [3]string // of wrapper, guardian, command
	untouched := states{"well", "well", "well"}
	during := map[string]states{
		"wrapper stopped":                     {"stopped", "well", "well"},
		"wrapper killed":                      {"gone", "well", "well"},
		"wrapper asked to end":                {"gone", "well", "well"},
		"guardian stopped":                    {"well", "stopped", "well"},
		"guardian killed":                     {"well", "gone", "well"},
		"command stopped":                     {"well", "well", "stopped"},
		"command killed":                      {"well", "well", "gone"},
		"wrapper and guardian stopped":        {"stopped", "stopped", "well"},
		"wrapper stopped and guardian killed": {"stopped", "gone", "well"},
		"wrapper and guardian killed":         {"gone", "gone", "well"},
		"power cut":                           {"gone", "gone", "gone"},
	}
	for _, f := range HostFaults {
		t.Run(f.Name, func(t *testing.T) {
			t.Parallel()
			x := newHostOnly(t)
			become := func(when string, want states) {
				t.Helper()
				var got states
				servers.Eventually(t, when, func() bool {
					got = states{state(t, x.wrapper), state(t, x.guardian), state(t, x.command)}
					return got == want
				})
			}
			want, touched := during[f.Name]
			if !touched {
				want = untouched
			}
			mend, err := f.Strike(x.Bed, x.victim)
			if err != nil && strings.Contains(err.Error(), "no control groups") {
				servers.Lack(t, "cgroup", err.Error())
			}
			if err != nil {
				t.Fatal(err)
			}
			if f.Once != (mend == nil) {
				t.Errorf("once: %v, and there is something to mend: %v", f.Once, mend != nil)
			}
			become("the fault happens", want)
			if mend == nil {
				return
			}
			if err := mend(); err != nil {
				t.Fatal(err)
			}
			if f.Name == "wrapper and guardian killed" {
				want = states{"gone", "gone", "gone"} // somebody was called to end the rest
			}
			for i, s := range want {
				if s == "stopped" {
					want[i] = "well"
				}
			}
			become("it is mended", want)
		})
	}
}

// What has ended cannot be hit, and nothing else is hit in its place; what ends while a fault goes on is no failure.
func TestFaultOfWhatHasEnded(t *testing.T) {
	t.Parallel()
	for _, f := range processFaults {
		t.Run(f.Name, func(t *testing.T) {
			t.Parallel()
			x := newHostOnly(t)
			if !f.Once {
				mend, err := f.Strike(x.Bed, x.victim)
				if err != nil {
					t.Fatal(err)
				}
				x.die(t)
				if err := mend(); err != nil {
					t.Errorf("mended after the end: %v", err)
				}
			} else {
				x.die(t)
			}
			if _, err := f.Strike(x.Bed, x.victim); err == nil {
				t.Error("it happened to what has ended")
			}
			if _, err := f.Strike(x.Bed, Victim{Host: "a"}); err == nil {
				t.Error("it happened to nobody")
			}
		})
	}
}

func (x *hostOnly) die(t *testing.T) {
	t.Helper()
	x.Net.Dies("a")
	for _, p := range []*servers.Process{x.wrapper, x.guardian, x.command} {
		servers.Eventually(t, "all have ended", p.Ended)
	}
}
