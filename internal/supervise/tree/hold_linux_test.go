package tree

import (
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"syscall"
	"testing"
	"time"

	"github.com/leaderrun/leaderrun/test/servers"
)

// Only what is ours, is named as ours and is held by nobody is abandoned; and who has just made a directory that somebody took for
// that does not believe that it holds it.
func TestOnlyWhatNobodyHoldsIsAbandoned(t *testing.T) {
	parent := t.TempDir()
	folder := func(name string) string {
		dir := filepath.Join(parent, name)
		if err := os.Mkdir(dir, 0o700); err != nil {
			t.Fatal(err)
		}
		return dir
	}
	abandoned := folder(Prefix + "abandoned")
	folder("other")
	held := folder(Prefix + "held")
	fd, err := Hold(held)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(parent, Prefix+"file"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(abandoned, filepath.Join(parent, Prefix+"link")); err != nil {
		t.Fatal(err)
	}
	if os.Geteuid() == 0 {
		if err := os.Chown(folder(Prefix+"another user's"), 65534, 65534); err != nil {
			t.Fatal(err)
		}
	}
	look := func() (found []string) {
		RemoveAbandoned(parent, func(dir string) {
			found = append(found, dir)
			if _, err := Hold(dir); err != syscall.ENOENT {
				t.Errorf("a directory that is being removed can be held: %v", err)
			}
		})
		slices.Sort(found)
		return found
	}
	if got := look(); !slices.Equal(got, []string{abandoned}) {
		t.Errorf("abandoned: %q", got)
	}
	_ = syscall.Close(fd)
	if got := look(); !slices.Equal(got, []string{abandoned, held}) {
		t.Errorf("abandoned after its holder's end: %q", got)
	}
	if err := os.Rename(held, filepath.Join(parent, "moved")); err != nil {
		t.Fatal(err)
	}
	folder(filepath.Base(held))
	if fd, err = openDirectory(filepath.Join(parent, "moved")); err != nil || isAt(fd, held) {
		t.Errorf("a directory that is not there any more is held: %v", err)
	}
	_ = syscall.Close(fd)
}

func TestAbandonedCgroupsAreRemoved(t *testing.T) {
	home := "/sys/fs/cgroup/unified"
	if _, err := os.Stat(home + "/cgroup.procs"); err != nil {
		home = "/sys/fs/cgroup"
	}
	home = filepath.Join(home, "leaderrun-test-"+filepath.Base(t.TempDir()))
	if err := os.Mkdir(home, 0o755); err != nil {
		servers.Lack(t, "cgroup", "no cgroup can be made here")
	}
	defer func() { _ = os.Remove(home) }()
	c, err := MakeCgroup(filepath.Join(home, Prefix+"1"))
	if err != nil {
		servers.Lack(t, "cgroup", err.Error())
	}
	if info, err := os.Stat(c.path); err != nil {
		t.Fatal(err)
	} else if info.Mode().Perm()&0o066 != 0 {
		t.Error("others can open the cgroup, and so lock it:", info.Mode())
	}
	RemoveAbandonedCgroups(home)
	if !exists(c.path) {
		t.Fatal("the cgroup of a live run was removed")
	}
	sleeper := children(t, 1)[0]
	pid := strconv.Itoa(sleeper.Process.Pid)
	if err := os.WriteFile(c.path+"/cgroup.procs", []byte(pid), 0); err != nil {
		t.Fatal(err)
	}
	c.Close()
	RemoveAbandonedCgroups(home)
	if !exists(c.path) {
		t.Fatal("a cgroup with a process in it was removed")
	}
	c.Kill()
	_ = sleeper.Wait()
	for c.Populated() { // the process leaves it a moment later
		time.Sleep(time.Millisecond)
	}
	RemoveAbandonedCgroups(home)
	if exists(c.path) {
		t.Error("a cgroup that nobody holds stays")
	}
}
