package filefence_test

import (
	"errors"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/leaderrun/leaderrun/fence"
	"github.com/leaderrun/leaderrun/fence/filefence"
)

// platter is what is left after a power cut: of a file what was synced, of a directory the names that it had when it was
// synced last. A disk may keep more than that, in any order; so nothing may depend on less.
type platter struct {
	t      *testing.T
	dir    string
	files  map[uint64]string // content by inode, as of its last fsync
	names  map[string]uint64 // inode by name, as of the last fsync of the directory
	log    []string
	failOn string // of log: fails instead
	fault  error  // by which it fails
}

func watch(t *testing.T, f *filefence.File, dir string) *platter {
	t.Helper()
	p := &platter{t: t, dir: dir, files: map[uint64]string{}, names: map[string]uint64{}}
	f.Disk(p.sync, p.rename)
	return p
}

func (p *platter) sync(f *os.File) error {
	info, err := f.Stat()
	if err != nil {
		p.t.Fatal(err)
	}
	what := "fsync " + p.plain(f.Name())
	p.log = append(p.log, what)
	if what == p.failOn {
		return &os.PathError{Op: "sync", Path: f.Name(), Err: p.fault}
	}
	if !info.IsDir() {
		text, err := os.ReadFile(f.Name())
		if err != nil {
			p.t.Fatal(err)
		}
		p.files[inodeOf(info)] = string(text)
		return f.Sync()
	}
	entries, err := os.ReadDir(f.Name())
	if err != nil {
		p.t.Fatal(err)
	}
	clear(p.names)
	for _, e := range entries {
		info, err := e.Info()
		if err != nil {
			p.t.Fatal(err)
		}
		p.names[e.Name()] = inodeOf(info)
	}
	return f.Sync()
}

func (p *platter) rename(from, to string) error {
	p.log = append(p.log, "rename to "+p.plain(to))
	info, err := os.Stat(from)
	if err != nil {
		p.t.Fatal(err)
	}
	text, err := os.ReadFile(from)
	if err != nil {
		p.t.Fatal(err)
	}
	// From now on the new name may be on the disk at any moment: its content must have been before.
	if kept, ok := p.files[inodeOf(info)]; !ok || kept != string(text) {
		p.t.Errorf("%s gets a content that a power cut would tear: %.40q of %.40q", to, kept, text)
	}
	return os.Rename(from, to)
}

// plain is a file's name without what is left to chance.
func (p *platter) plain(path string) string {
	if path == p.dir {
		return "the directory"
	}
	base := filepath.Base(path)
	if strings.HasSuffix(base, ".tmp") {
		return "a temporary file"
	}
	return base
}

// after is what a file would hold after a power cut now, at least.
func (p *platter) after(name string) string { return p.files[p.names[name]] }

// Hazard: power is cut. What was told to be raised or written is not on the disk then, or is there in part.
func TestPowerCut(t *testing.T) {
	t.Parallel()
	dir, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(dir, "report")
	f := open(t, path, filefence.Options{})
	p := watch(t, f, dir)
	said := func(what string, want ...string) {
		t.Helper()
		if !slices.Equal(p.log, want) {
			t.Errorf("%s: %q, want %q", what, p.log, want)
		}
		p.log = nil
	}
	w := raise(t, f, 3)
	said("the first raise", "fsync a temporary file", "rename to .report.fence", "fsync the directory")
	if got := p.after(".report.fence"); got != "3\n" {
		t.Errorf("the fence was raised to 3, and a power cut leaves %q", got)
	}
	replace(t, w, "one")
	said("a write", "fsync a temporary file", "rename to report", "fsync the directory")
	if got := p.after("report"); got != "one" {
		t.Errorf("it was told that %q was written, and a power cut leaves %q", "one", got)
	}
	// Whoever wrote this token may have been killed before the names were on the disk.
	w = raise(t, f, 3)
	said("the same token", "fsync the directory")
	if err := os.Chmod(path, 0o640); err != nil {
		t.Fatal(err)
	}
	err = w.Replace(t.Context(), func(to io.Writer) error {
		if err := os.Chmod(path, 0o600); err != nil { // its bits, too, must be on the disk
			return err
		}
		return write("two")(to)
	})
	if err != nil {
		t.Error(err)
	}
	said("a write, when the old file changed", "fsync a temporary file", "fsync a temporary file", "rename to report", "fsync the directory")
	// A fence that somebody has removed is back before the content is there.
	if err := os.Remove(f.State()); err != nil {
		t.Fatal(err)
	}
	replace(t, w, "three")
	said("a write without a fence", "fsync a temporary file", "rename to .report.fence", "fsync the directory",
		"fsync a temporary file", "rename to report", "fsync the directory")
	if state, content := p.after(".report.fence"), p.after("report"); state != "3\n" || content != "three" {
		t.Errorf("a power cut leaves %q and %q", state, content)
	}
	if _, err := f.Raise(t.Context(), fence.Run{Token: 2}); !isStale(err) {
		t.Error(err)
	}
	said("a stale run")
}

// Hazard: a disk that cannot write says so when it is asked to sync, and nobody listens.
func TestSyncThatFails(t *testing.T) {
	t.Parallel()
	for _, raises := range []bool{true, false} { // the failure is that of the raise
		dir, err := filepath.EvalSymlinks(memoryDir(t))
		if err != nil {
			t.Fatal(err)
		}
		f := open(t, filepath.Join(dir, "report"), filefence.Options{})
		w := raise(t, f, 1)
		replace(t, w, "old")
		p := watch(t, f, dir)
		p.failOn, p.fault = "fsync a temporary file", syscall.EIO
		if raises {
			_, err = f.Raise(t.Context(), fence.Run{Token: 2})
		} else {
			err = w.Replace(t.Context(), write("new"))
		}
		if err == nil || isStale(err) {
			t.Errorf("it raises: %v: %v", raises, err)
		}
		holds(t, filepath.Join(dir, "report"), "old")
		holds(t, f.State(), "1\n")
		contains(t, dir, ".report.fence", ".report.fence.lock", "report")
	}
}

// Hazard: the error says that nothing was written, and the file was replaced, or the fence raised.
func TestSyncThatFailsAfterTheRename(t *testing.T) {
	t.Parallel()
	for _, fault := range []error{syscall.EIO, syscall.EINVAL, syscall.EACCES, syscall.ENOSYS, syscall.EROFS} {
		dir, err := filepath.EvalSymlinks(memoryDir(t))
		if err != nil {
			t.Fatal(err)
		}
		path := filepath.Join(dir, "report")
		f := open(t, path, filefence.Options{})
		w := raise(t, f, 2)
		replace(t, w, "old")
		p := watch(t, f, dir)
		p.failOn, p.fault = "fsync the directory", fault
		is := func(what string, err error, replaced bool) {
			t.Helper()
			if _, setup := errors.AsType[*fence.SetupError](err); setup || !errors.Is(err, fault) || errors.Is(err, filefence.ErrUnsynced) != replaced {
				t.Errorf("%s, %v: %v", what, fault, err)
			}
		}
		is("a write", w.Replace(t.Context(), write("new")), true)
		holds(t, path, "new")
		_, err = f.Raise(t.Context(), fence.Run{Token: 2})
		is("the same token", err, false)
		_, err = f.Raise(t.Context(), fence.Run{Token: 3})
		is("a higher token", err, false)
		holds(t, f.State(), "3\n")
		if err := os.Remove(f.State()); err != nil { // the write will raise it, and gets no further
			t.Fatal(err)
		}
		is("a write that raises the fence", w.Replace(t.Context(), write("newer")), false)
		holds(t, path, "new")
	}
}
