package filefence_test

import (
	"bytes"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/leaderrun/leaderrun/fence"
	"github.com/leaderrun/leaderrun/fence/filefence"
	"github.com/leaderrun/leaderrun/test/servers"
)

func TestMounts(t *testing.T) {
	t.Parallel()
	const mounts = `22 1 0:21 / /proc rw,nosuid shared:5 - proc proc rw
36 35 98:0 /mnt1 /mnt2 rw,noatime master:1 - ext3 /dev/root rw,errors=continue
37 35 98:0 / /several rw master:1 shared:2 propagate_from:3 - xfs /dev/sdb rw
38 35 0:40 / /none rw - btrfs /dev/sdc rw
39 35 0:41 / /with\040blank rw - fuse.sshfs me@host:/ rw
3 35 0:42 / - rw - nfs4 server:/ rw
361 35 0:43 / /longer rw - vfat /dev/sdd rw
40 35 0:44 / /short rw
41 35 0:45 / /cut rw -
`
	for id, want := range map[string]string{
		"22": "proc", "36": "ext3", "37": "xfs", "38": "btrfs", "39": "fuse.sshfs", "3": "nfs4", "361": "vfat", "40": "", "41": "", "99": "", "": "",
	} {
		if got := filefence.MountedAs(mounts, id); got != want {
			t.Errorf("mount %q: got %q, want %q", id, got, want)
		}
	}
	for info, want := range map[string]string{
		"pos:\t0\nflags:\t02100000\nmnt_id:\t36\nino:\t2\n": "36",
		"pos:\t0\nflags:\t02100000\n":                       "",
		"":                                                  "",
	} {
		if got := filefence.MountOf(info); got != want {
			t.Errorf("%q: got %q, want %q", info, got, want)
		}
	}
}

// A file system that is really there, and refused by its real name.
func TestRefusedFileSystem(t *testing.T) {
	t.Parallel()
	_, err := filefence.Open("/proc/report", filefence.Options{})
	if !isSetup(err, fence.Configuration) || !strings.Contains(err.Error(), `"proc"`) {
		t.Errorf("got %v", err)
	}
}

// mount mounts a small tmpfs for the test.
func mount(t *testing.T) (dir string) {
	t.Helper()
	if os.Geteuid() != 0 {
		servers.Lack(t, "root", "only root can mount")
	}
	dir = t.TempDir()
	if err := syscall.Mount("filefence", dir, "tmpfs", 0, "size=256k"); errors.Is(err, syscall.EPERM) {
		servers.Lack(t, "root", "nothing may be mounted here")
	} else if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := syscall.Unmount(dir, 0); err != nil {
			t.Error(err)
		}
	})
	return dir
}

// Hazard: the disk is full, and half of the content is taken for all of it.
func TestFullDisk(t *testing.T) {
	t.Parallel()
	dir := mount(t)
	path := filepath.Join(dir, "report")
	f := open(t, path, filefence.Options{})
	w := raise(t, f, 1)
	replace(t, w, "old")
	heedless := func(to io.Writer) error { // who looks at no error
		for range 10 {
			_, _ = to.Write(bytes.Repeat([]byte("x"), 100<<10))
		}
		return nil
	}
	err := w.Replace(t.Context(), heedless)
	if setup, ok := errors.AsType[*fence.SetupError](err); !errors.Is(err, syscall.ENOSPC) || ok {
		t.Errorf("content: %v, %v", err, setup)
	}
	holds(t, path, "old")
	contains(t, dir, ".report.fence", ".report.fence.lock", "report")

	if err := os.WriteFile(filepath.Join(dir, "full"), bytes.Repeat([]byte("x"), 1<<20), 0o600); !errors.Is(err, syscall.ENOSPC) {
		t.Fatal(err)
	}
	if _, err := f.Raise(t.Context(), fence.Run{Token: 2}); !errors.Is(err, syscall.ENOSPC) {
		t.Errorf("a raise: %v", err)
	}
	holds(t, f.State(), "1\n")
	contains(t, dir, ".report.fence", ".report.fence.lock", "full", "report")
}

// Hazard: a file that is mounted by itself, as containers do it, can be written and not replaced.
func TestFileThatIsAMount(t *testing.T) {
	t.Parallel()
	dir := mount(t)
	path, inner := filepath.Join(dir, "report"), filepath.Join(dir, "inner")
	if err := errors.Join(os.WriteFile(path, []byte("outer"), 0o600), os.WriteFile(inner, []byte("inner"), 0o600)); err != nil {
		t.Fatal(err)
	}
	if err := syscall.Mount(inner, path, "", syscall.MS_BIND, ""); err != nil {
		t.Fatal(err)
	}
	defer syscall.Unmount(path, 0)
	if err := raise(t, open(t, path, filefence.Options{}), 1).Replace(t.Context(), write("new")); !isSetup(err, fence.Configuration) {
		t.Errorf("got %v", err)
	}
	holds(t, path, "inner")
	contains(t, dir, ".report.fence", ".report.fence.lock", "inner", "report")
}
