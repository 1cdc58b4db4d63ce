package hosts

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// controllers is where the kernel's control groups are, a hierarchy for each controller (version 1). Those of
// version 2 are left alone: leaderrun has its runs in groups of that hierarchy, and who moved them out of there would
// not stop them, but take them away from it.
const controllers = "/sys/fs/cgroup"

// Freeze stops every process of a host, as a pause of a virtual machine does, except that the clocks go on and that
// what is started there from outside runs.
func (n *Network) Freeze(host string) (mend func() error, err error) {
	dir, err := n.group(host, "freezer")
	if err != nil {
		return nil, err
	}
	mend = func() error { return put(dir, "freezer.state", "THAWED") }
	if err := errors.Join(put(dir, "freezer.state", "FROZEN"), n.gather(host, dir), freeze(dir)); err != nil {
		return nil, errors.Join(err, mend())
	}
	return mend, nil
}

// freeze waits until every process of a group has stopped. It says so again and again: a parent in vfork(2) whose child
// stopped before its exec(2) is not asked a second time otherwise.
func freeze(dir string) error {
	for end := time.Now().Add(10 * time.Second); ; time.Sleep(time.Millisecond) {
		if err := put(dir, "freezer.state", "FROZEN"); err != nil {
			return err
		}
		state, err := os.ReadFile(filepath.Join(dir, "freezer.state"))
		if err != nil || strings.TrimSpace(string(state)) == "FROZEN" {
			return err
		}
		if time.Now().After(end) {
			return fmt.Errorf("%s does not come to rest", dir)
		}
	}
}

// thaw ends the Freeze of a host, if there is one.
func (n *Network) thaw(host string) {
	dir := n.groupDir(host, "freezer")
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.groups[dir] {
		_ = put(dir, "freezer.state", "THAWED")
	}
}

// Starve leaves all processes of a host together so much of every period of one processor, at least 1 ms.
func (n *Network) Starve(host string, quota, period time.Duration) (mend func() error, err error) {
	dir, err := n.group(host, "cpu")
	if err != nil {
		return nil, err
	}
	mend = func() error { return put(dir, "cpu.cfs_quota_us", "-1") }
	if err := errors.Join(
		n.gather(host, dir),
		put(dir, "cpu.cfs_period_us", strconv.FormatInt(period.Microseconds(), 10)),
		put(dir, "cpu.cfs_quota_us", strconv.FormatInt(quota.Microseconds(), 10)),
	); err != nil {
		return nil, errors.Join(err, mend())
	}
	return mend, nil
}

func (n *Network) groupDir(host, controller string) string {
	return filepath.Join(controllers, controller, n.Name(host))
}

// group returns the folder of a host's control group, which is made if there is none yet.
func (n *Network) group(host, controller string) (dir string, err error) {
	dir = n.groupDir(host, controller)
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.groups[dir] {
		return dir, nil
	}
	if err := os.Mkdir(dir, 0o700); err != nil {
		return "", fmt.Errorf("no control groups of version 1 here: %w", err)
	}
	n.groups[dir] = true
	n.t.Cleanup(func() {
		n.thaw(host)
		// What still lives goes back to where it came from, or the group could not be removed.
		for end := time.Now().Add(10 * time.Second); os.Remove(dir) != nil; time.Sleep(time.Millisecond) {
			for _, pid := range members(dir) {
				_ = put(filepath.Dir(dir), "cgroup.procs", strconv.Itoa(pid))
			}
			if time.Now().After(end) {
				n.t.Errorf("%s cannot be removed", dir)
				return
			}
		}
	})
	return dir, nil
}

// gather moves the processes of a host into a group. What they start is in there from its start.
func (n *Network) gather(host, dir string) error {
	for {
		pids, err := n.pids(host)
		if err != nil {
			return err
		}
		in := members(dir)
		pids = slices.DeleteFunc(pids, func(pid int) bool { return slices.Contains(in, pid) })
		if len(pids) == 0 {
			return nil
		}
		for _, pid := range pids {
			if err := put(dir, "cgroup.procs", strconv.Itoa(pid)); err != nil && !errors.Is(err, syscall.ESRCH) {
				return err
			}
		}
	}
}

// members returns the processes of a group.
func members(dir string) []int {
	text, _ := os.ReadFile(filepath.Join(dir, "cgroup.procs"))
	var pids []int
	for word := range strings.FieldsSeq(string(text)) {
		if pid, err := strconv.Atoi(word); err == nil {
			pids = append(pids, pid)
		}
	}
	return pids
}

// put writes a value to a file of a group, which exists.
func put(dir, name, value string) error {
	f, err := os.OpenFile(filepath.Join(dir, name), os.O_WRONLY, 0)
	if err != nil {
		return err
	}
	_, err = f.WriteString(value)
	return errors.Join(err, f.Close())
}
