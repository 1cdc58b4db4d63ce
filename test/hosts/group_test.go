package hosts

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/leaderrun/leaderrun/test/servers"
)

// worker starts a shell on a host and waits until it writes.
func worker(t *testing.T, n *Network, host, script string) (p *servers.Process, dir string) {
	t.Helper()
	dir = servers.Dir(t)
	p = servers.Start(t, dir, "ip", append(n.Where(host)[1:], "sh", "-c", script)...)
	servers.Eventually(t, "the shell writes", func() bool { return p.Log() != "" })
	return p, dir
}

// needsGroups skips where the kernel's control groups are of another version.
func needsGroups(t *testing.T, controller string) {
	t.Helper()
	if _, err := os.Stat(filepath.Join(controllers, controller, "cgroup.procs")); err != nil {
		servers.Lack(t, "cgroup1", "no control groups of version 1 here")
	}
}

// beats is a shell that writes all the time, and so does its child. Only the shell is killed in the end, which its child notices.
const beats = `(while kill -0 $$; do echo; done >child 2>&1) & echo up; while :; do echo; done >parent`

// beaten returns how much such a shell, and its child, have written.
func beaten(t *testing.T, dir string) (parent, child int64) {
	t.Helper()
	for name, size := range map[string]*int64{"parent": &parent, "child": &child} {
		if info, err := os.Stat(filepath.Join(dir, name)); err == nil {
			*size = info.Size()
		}
	}
	return parent, child
}

func TestFreeze(t *testing.T) {
	t.Parallel()
	needsGroups(t, "freezer")
	n := NewNetwork(t, "a", "b")
	_, frozen := worker(t, n, "a", beats)
	_, free := worker(t, n, "b", beats)
	for range 2 {
		mend, err := n.Freeze("a")
		done(t, err)
		parent, child := beaten(t, frozen)
		one, two := beaten(t, free)
		servers.Eventually(t, "the other host works", func() bool {
			p, c := beaten(t, free)
			return p > one+1000 && c > two+1000
		})
		if p, c := beaten(t, frozen); p != parent || c != child {
			t.Error("a frozen host works")
		}
		done(t, mend())
		servers.Eventually(t, "it goes on", func() bool {
			p, c := beaten(t, frozen)
			return p > parent && c > child
		})
	}
}

func TestStarve(t *testing.T) {
	t.Parallel()
	needsGroups(t, "cpu")
	n := NewNetwork(t, "a")
	worker(t, n, "a", beats)
	mend, err := n.Starve("a", 5*time.Millisecond, 100*time.Millisecond)
	done(t, err)
	dir := n.groupDir("a", "cpu")
	throttled := func() bool {
		text, err := os.ReadFile(filepath.Join(dir, "cpu.stat"))
		done(t, err)
		return !strings.Contains(string(text), "throttled_time 0\n")
	}
	servers.Eventually(t, "it has to wait", throttled)
	done(t, mend())
	if text, err := os.ReadFile(filepath.Join(dir, "cpu.cfs_quota_us")); err != nil || string(text) != "-1\n" {
		t.Errorf("after it was mended: %q, %v", text, err)
	}
}

// opener has the test's binary open files for as long as it lives, and write y for each, or n.
const opener = "LEADERRUN_TESTHOST_OPENER"

func TestMain(m *testing.M) {
	if os.Getenv(opener) == "" {
		os.Exit(m.Run())
	}
	for ; ; time.Sleep(5 * time.Millisecond) {
		f, err := os.Open(os.DevNull)
		if err != nil {
			fmt.Print("n")
			continue
		}
		f.Close()
		fmt.Print("y")
	}
}

func TestNoFiles(t *testing.T) {
	t.Parallel()
	n := NewNetwork(t, "a")
	self, err := os.Executable()
	done(t, err)
	p, _ := worker(t, n, "a", "exec env "+opener+"=1 "+self)
	last := func(word string) func() bool { return func() bool { return strings.HasSuffix(p.Log(), word) } }
	servers.Eventually(t, "it opens some", last("y"))
	comm := Comm(p.PID())
	mend, err := n.NoFiles("a", p.PID(), comm)
	done(t, err)
	servers.Eventually(t, "it opens none", last("nnn"))
	done(t, mend())
	servers.Eventually(t, "it opens some again", last("y"))
	mend, err = n.NoFiles("a", p.PID(), comm)
	done(t, err)
	p.Kill()
	done(t, mend()) // nothing is left to mend
}
