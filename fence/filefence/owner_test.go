package filefence_test

import (
	"errors"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/leaderrun/leaderrun/fence"
	"github.com/leaderrun/leaderrun/fence/filefence"
	"github.com/leaderrun/leaderrun/test/servers"
)

func inodeOf(info fs.FileInfo) uint64 { return info.Sys().(*syscall.Stat_t).Ino }

func TestPermissionBits(t *testing.T) {
	dir := memoryDir(t)
	path := filepath.Join(dir, "report")
	mask := syscall.Umask(0o027)
	defer syscall.Umask(mask)
	w := raise(t, open(t, path, filefence.Options{}), 1)
	bits := func(path string) fs.FileMode {
		t.Helper()
		info, err := os.Stat(path)
		if err != nil {
			t.Fatal(err)
		}
		return info.Mode()
	}
	replace(t, w, "new")
	for _, name := range []string{"report", ".report.fence", ".report.fence.lock"} {
		if got := bits(filepath.Join(dir, name)); got != 0o640 {
			t.Errorf("%s is new and has %v", name, got)
		}
	}
	for _, c := range []struct{ old, want fs.FileMode }{
		{0o600, 0o600},
		{0o666, 0o666},
		{0o751, 0o751},
		{0o400, 0o400},
		{0o755 | fs.ModeSetuid | fs.ModeSetgid, 0o755},
	} {
		if err := os.Chmod(path, c.old); err != nil {
			t.Fatal(err)
		}
		err := w.Replace(t.Context(), func(to io.Writer) error {
			for _, name := range temporaries(t, dir) { // nobody may read in between what nobody could read before
				if got := bits(filepath.Join(dir, name)); got.Perm()&^c.want != 0 {
					t.Errorf("in between it has %v, where the old one has %v", got, c.old)
				}
			}
			return write("more")(to)
		})
		if err != nil {
			t.Error(err)
		}
		if got := bits(path); got != c.want {
			t.Errorf("the old one has %v, the new one %v, want %v", c.old, got, c.want)
		}
	}
}

// temporaries are the names of the temporary files in a directory.
func temporaries(t *testing.T, dir string) []string {
	t.Helper()
	found, err := filepath.Glob(filepath.Join(dir, ".*.fence.*.tmp"))
	if err != nil {
		t.Fatal(err)
	}
	for i, path := range found {
		found[i] = filepath.Base(path)
	}
	return found
}

func TestOwnerStays(t *testing.T) {
	t.Parallel()
	if os.Geteuid() != 0 {
		servers.Lack(t, "root", "only root can give files away")
	}
	path := filepath.Join(memoryDir(t), "report")
	if err := os.WriteFile(path, []byte("old"), 0o640); err != nil {
		t.Fatal(err)
	}
	if err := os.Chown(path, 12345, 23456); err != nil {
		t.Fatal(err)
	}
	replace(t, raise(t, open(t, path, filefence.Options{}), 1), "new")
	holds(t, path, "new")
	info, err := os.Stat(path)
	if err != nil {
		t.Fatal(err)
	}
	if stat := info.Sys().(*syscall.Stat_t); stat.Uid != 12345 || stat.Gid != 23456 || info.Mode() != 0o640 {
		t.Errorf("it belongs to %d and %d, with %v", stat.Uid, stat.Gid, info.Mode())
	}
}

// commonUser runs a test again in a process that has no more rights than others: as root without capabilities, which may do
// with files what their bits and owner allow. It says whether this is that process.
func commonUser(t *testing.T) bool {
	t.Helper()
	const variable = "FILEFENCE_TEST_COMMON_USER"
	if os.Geteuid() != 0 || os.Getenv(variable) != "" {
		return true
	}
	setpriv, err := exec.LookPath("setpriv")
	if err != nil {
		servers.Lack(t, "root", "without setpriv(1) root cannot give up its rights")
	}
	cmd := exec.CommandContext(t.Context(), setpriv, "--bounding-set=-all", os.Args[0], "-test.run=^"+t.Name()+"$", "-test.v")
	cmd.Env = append(os.Environ(), variable+"=1")
	out, err := cmd.CombinedOutput()
	if err != nil || !strings.Contains(string(out), "--- PASS: "+t.Name()) {
		t.Errorf("without root's rights: %v\n%s", err, out)
	}
	return false
}

// Hazard: a file of somebody else's becomes ours unnoticed, and its owner cannot read it any more.
func TestOwnerThatCannotStay(t *testing.T) {
	if os.Geteuid() != 0 {
		servers.Lack(t, "root", "only root can give files away")
	}
	dir := os.Getenv("FILEFENCE_TEST_DIR")
	if dir == "" {
		dir = memoryDir(t)
		path := filepath.Join(dir, "report")
		if err := errors.Join(os.WriteFile(path, []byte("old"), 0o666), os.Chown(path, 12345, 23456)); err != nil {
			t.Fatal(err)
		}
		t.Setenv("FILEFENCE_TEST_DIR", dir)
	}
	if !commonUser(t) {
		return
	}
	path := filepath.Join(dir, "report")
	w := raise(t, open(t, path, filefence.Options{}), 1) // which writes no file of somebody else's
	err := w.Replace(t.Context(), func(io.Writer) error { t.Error("content was asked for in vain"); return nil })
	if !isSetup(err, fence.Credentials) || !strings.Contains(err.Error(), "user 12345 and group 23456") {
		t.Errorf("got %v", err)
	}
	holds(t, path, "old")
	contains(t, dir, ".report.fence", ".report.fence.lock", "report")
}

func TestDirectoryThatMayNotBeWritten(t *testing.T) {
	if !commonUser(t) {
		return
	}
	dir := memoryDir(t)
	path := filepath.Join(dir, "report")
	f := open(t, path, filefence.Options{})
	w := raise(t, f, 1)
	replace(t, w, "old")
	chmod := func(path string, mode fs.FileMode) {
		t.Helper()
		if err := os.Chmod(path, mode); err != nil {
			t.Fatal(err)
		}
	}
	refused := func(what string, err error) {
		t.Helper()
		if !isSetup(err, fence.Credentials) {
			t.Errorf("%s: %v", what, err)
		}
	}
	raises := func() error {
		_, err := f.Raise(t.Context(), fence.Run{Token: 2})
		return err
	}
	for _, mode := range []fs.FileMode{0o500, 0o300} { // one cannot be written, the other not be synced, which is found before anything changes
		chmod(dir, mode)
		refused("a raise in a directory of "+mode.String(), raises())
		refused("a write in a directory of "+mode.String(), w.Replace(t.Context(), write("new")))
	}
	holds(t, path, "old")
	holds(t, f.State(), "1\n")
	chmod(dir, 0o700)
	for _, file := range []string{f.State(), f.Lock()} {
		chmod(file, 0)
		refused(file+" of somebody else's", raises())
	}
	chmod(dir, 0)
	_, err := filefence.Open(path, filefence.Options{})
	refused("a directory that may not be entered", err)
	chmod(dir, 0o700)
	holds(t, path, "old")
}
