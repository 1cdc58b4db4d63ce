package file

import (
	"errors"
	"fmt"
	"hash/crc32"
	"net/url"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"testing"

	"github.com/leaderrun/leaderrun/backends"
	"github.com/leaderrun/leaderrun/internal/flock"
	"github.com/leaderrun/leaderrun/test/servers"
	"github.com/leaderrun/leaderrun/test/suite"
)

const nobody = 65534

// wantMisconfigured wants an error that says so, and the remedy.
func wantMisconfigured(t *testing.T, err error, says, remedy string) {
	t.Helper()
	p, ok := errors.AsType[*backends.PermanentError](err)
	if !ok || p.Kind != backends.Configuration || !strings.Contains(p.Error(), says) || !strings.Contains(p.Hint, remedy) {
		t.Errorf("%#v, want a fault of the configuration that says %q, with the remedy %q", err, says, remedy)
	}
}

// giveAway makes a file or folder nobody's.
func giveAway(t *testing.T, path string) {
	t.Helper()
	if os.Geteuid() != 0 {
		servers.Lack(t, "root", "only root gives files away")
	}
	if err := os.Lchown(path, nobody, nobody); err != nil {
		t.Fatal(err)
	}
}

func chmod(t *testing.T, path string, mode os.FileMode) {
	t.Helper()
	if err := os.Chmod(path, mode); err != nil {
		t.Fatal(err)
	}
}

// Whoever can write a folder, or one above it, says who runs the jobs whose records are there, and what is done.
func TestFolderOfOthersIsRefused(t *testing.T) {
	for name, c := range map[string]struct {
		prepare      func(t *testing.T, parent, dir string)
		says, remedy string
	}{
		"it belongs to another user": {func(t *testing.T, _, dir string) { giveAway(t, dir) }, "/dir belongs to", "chown root"},
		"all may write it":           {func(t *testing.T, _, dir string) { chmod(t, dir, 0o777) }, "/dir can be written by others (mode 0777)", "chmod go-w"},
		"the one above belongs to another user": {
			func(t *testing.T, parent, _ string) { giveAway(t, parent) }, "/parent belongs to", "run as its owner",
		},
		"all may write the one above": {func(t *testing.T, parent, _ string) { chmod(t, parent, 0o777) }, "/parent can be written", "chmod go-w"},
		"its group may write it": {func(t *testing.T, _, dir string) {
			if err := os.Chown(dir, -1, groupOfOthers(t)); err != nil {
				t.Fatal(err)
			}
			chmod(t, dir, 0o770)
		}, "/dir can be written", "chmod go-w"},
		"another's link leads to it": {func(t *testing.T, parent, dir string) {
			chmod(t, parent, 0o777|os.ModeSticky)
			if err := os.Rename(dir, dir+".there"); err != nil {
				t.Fatal(err)
			}
			if err := os.Symlink("dir.there", dir); err != nil {
				t.Fatal(err)
			}
			giveAway(t, dir)
		}, "/dir belongs to", "run as its owner"},
		"it is to be made in another's": {func(t *testing.T, parent, dir string) {
			if err := os.Remove(dir); err != nil {
				t.Fatal(err)
			}
			giveAway(t, parent)
		}, "/parent belongs to", "run as its owner"},
	} {
		t.Run(name, func(t *testing.T) {
			parent := filepath.Join(t.TempDir(), "parent")
			dir := filepath.Join(parent, "dir")
			if err := os.MkdirAll(dir, 0o755); err != nil {
				t.Fatal(err)
			}
			c.prepare(t, parent, dir)
			_, err := Open("file://" + dir)
			wantMisconfigured(t, err, c.says, c.remedy)
			wantMisconfigured(t, err, c.says, "?trust=shared")
			d, err := Open("file://" + dir + "?trust=shared")
			if err != nil {
				t.Fatal(err)
			}
			if got := d.Redacted(); got != "file://"+dir+"?trust=shared" {
				t.Errorf("it calls itself %s", got)
			}
		})
	}
}

// A path that leads nowhere is one to be mended, and not a fault of leaderrun.
func TestPathThatLeadsNowhere(t *testing.T) {
	dir := t.TempDir()
	path := func(name string) string { return filepath.Join(dir, name) }
	if err := errors.Join(os.WriteFile(path("file"), nil, fileMode), os.Symlink("loop", path("loop"))); err != nil {
		t.Fatal(err)
	}
	for name, says := range map[string]string{"file/dir": "not a directory", "loop/dir": "too many levels", strings.Repeat("n", 300): "too long"} {
		_, err := Open("file://" + path(name))
		wantMisconfigured(t, err, says, "name another directory")
		_, err = Open("file://" + path(name) + "?trust=shared")
		wantMisconfigured(t, err, "cannot make the directory", "name one")
	}
}

// groupOfOthers is a group that this user may give files to, and not root's.
func groupOfOthers(t *testing.T) int {
	t.Helper()
	groups, err := os.Getgroups()
	if err != nil {
		t.Fatal(err)
	}
	if os.Geteuid() == 0 {
		return nobody
	}
	for _, g := range append(groups, os.Getegid()) {
		if g != 0 {
			return g
		}
	}
	servers.Lack(t, "root", "this user has no group but root's")
	return 0
}

// In a folder like /tmp all may make files, and none may touch another's.
func TestStickyFolder(t *testing.T) {
	steps := suite.On(t)
	dir := t.TempDir()
	chmod(t, dir, 0o777|os.ModeSticky)
	d := openDir(t, dir)
	steps.Finish(d, steps.Acquire(d, claimFor("job")))
	p := d.store.paths("job")
	for _, path := range []string{p.record, p.beat, p.lock, p.tree} {
		if err := os.Lchown(path, nobody, nobody); err != nil {
			servers.Lack(t, "root", "only root gives files away")
		}
		_, err := d.Acquire(t.Context(), claimFor("job"))
		wantMisconfigured(t, err, path+" belongs to", "trust=shared")
		if err := os.Chown(path, os.Geteuid(), os.Getegid()); err != nil {
			t.Fatal(err)
		}
	}
	steps.Finish(d, steps.Acquire(d, claimFor("job")))
}

// What is in the place of a job's file and is none is not waited for, and not followed.
func TestFileOfAJobIsRegular(t *testing.T) {
	for name, put := range map[string]func(path string) error{
		"a pipe":                func(path string) error { return syscall.Mkfifo(path, fileMode) },
		"a directory":           func(path string) error { return os.Mkdir(path, dirMode) },
		"a link to a file":      func(path string) error { return os.Symlink("/etc/passwd", path) },
		"a link to nothing":     func(path string) error { return os.Symlink("elsewhere", path) },
		"what others can write": func(path string) error { return errors.Join(os.WriteFile(path, nil, fileMode), os.Chmod(path, 0o666)) },
	} {
		t.Run(name, func(t *testing.T) {
			for _, file := range []func(p paths) string{
				func(p paths) string { return p.lock }, func(p paths) string { return p.tree },
				func(p paths) string { return p.beat }, func(p paths) string { return p.record },
			} {
				dir := t.TempDir()
				d := openDir(t, dir)
				path := file(d.store.paths("job"))
				if err := put(path); err != nil {
					t.Fatal(err)
				}
				if _, err := d.Acquire(t.Context(), claimFor("job")); err == nil {
					t.Errorf("granted with it in the place of %s", filepath.Base(path))
				}
				if _, err := os.Lstat(filepath.Join(dir, "elsewhere")); err == nil {
					t.Errorf("the link in the place of %s was followed", filepath.Base(path))
				}
			}
		})
	}
}

// A command that has given up its rights keeps what it has inherited. It cannot give the lease away with it, nor change
// whom it was granted to.
func TestCommandCannotGiveTheLeaseAway(t *testing.T) {
	steps := suite.On(t)
	dir := t.TempDir()
	d, other := openDir(t, dir), openDir(t, dir)
	g := steps.Acquire(d, claimFor("job"))
	for _, f := range g.Inherit {
		if err := flock.Ask(f, syscall.LOCK_UN); err != nil {
			t.Fatal(err)
		}
		if _, err := f.WriteString("{}"); err == nil {
			t.Errorf("it can write %s", f.Name())
		}
	}
	steps.Refused(other, claimFor("job"), backends.Held)
	if _, err := d.Renew(t.Context(), g); err != nil {
		t.Errorf("Renew: %v", err)
	}
	steps.Finish(d, g)
	steps.Finish(other, steps.Acquire(other, claimFor("job")))
}

// A lock file that somebody removed does not let others in while the tree of its run lives.
func TestTreeOutlivesTheLockFile(t *testing.T) {
	steps := suite.On(t)
	dir := t.TempDir()
	d, other := openDir(t, dir), openDir(t, dir)
	g := steps.Acquire(d, claimFor("job"))
	remove(t, pathsIn(dir, "job").lock)
	r := steps.Refused(other, claimFor("job"), backends.Held)
	if r.Holder.ID != g.Claim.Holder.ID {
		t.Errorf("held by %+v", r.Holder)
	}
	if _, err := d.Renew(t.Context(), g); !errors.Is(err, backends.ErrLost) {
		t.Errorf("Renew: %v, want ErrLost", err)
	}
	steps.Finish(d, g) // its tree is dead
	steps.Finish(other, steps.Acquire(other, claimFor("job")))
}

// Hazard: a tree's file that somebody removed, or put another in the place of, no longer keeps others out when the wrapper is gone.
func TestRunEndsWithTheTreeFile(t *testing.T) {
	for name, put := range map[string]func(path string) error{
		"removed":  func(string) error { return nil },
		"replaced": func(path string) error { return os.WriteFile(path, nil, fileMode) },
	} {
		for _, probe := range []bool{false, true} {
			steps := suite.On(t)
			dir := t.TempDir()
			d, other := openDir(t, dir), openDir(t, dir)
			g := steps.Acquire(d, claimFor("job"))
			leaseOf(t, g).probe = probe
			tree := pathsIn(dir, "job").tree
			remove(t, tree)
			if err := put(tree); err != nil {
				t.Fatal(err)
			}
			if _, err := d.Renew(t.Context(), g); !errors.Is(err, backends.ErrLost) {
				t.Errorf("%s: Renew: %v, want ErrLost", name, err)
			}
			steps.Refused(other, claimFor("job"), backends.Held)
			steps.Finish(d, g) // its tree is dead
			steps.Finish(other, steps.Acquire(other, claimFor("job")))
		}
	}
}

// From a token that cannot be counted up the next one would be lower.
func TestTokenThatCannotBe(t *testing.T) {
	const largest = `{"job":"job","holder":"h","token":9223372036854775807}`
	t.Run("record", func(t *testing.T) {
		d := openDir(t, t.TempDir())
		text := `{"job":"job","holder":{"id":"h"},"token":9223372036854775807,"released":9223372036854775807}`
		if err := os.WriteFile(d.store.paths("job").record, []byte(text), fileMode); err != nil {
			t.Fatal(err)
		}
		_, err := d.Acquire(t.Context(), claimFor("job"))
		wantMisconfigured(t, err, "job.json is damaged: its token cannot be 9223372036854775807", "remove it")
	})
	t.Run("lock", func(t *testing.T) {
		d := openDir(t, t.TempDir())
		if err := os.WriteFile(d.store.paths("job").lock, []byte(largest), fileMode); err != nil {
			t.Fatal(err)
		}
		_, err := d.Acquire(t.Context(), claimFor("job"))
		wantMisconfigured(t, err, "job.lock is damaged: its token cannot be 9223372036854775807", "remove it")
	})
}

// A file that another user may write, as ?trust=shared allows, does not take more memory than one of ours.
func TestLongFile(t *testing.T) {
	d := openDir(t, t.TempDir())
	path := d.store.paths("job").record
	if err := errors.Join(os.WriteFile(path, []byte("{"), fileMode), os.Truncate(path, 1<<28)); err != nil {
		t.Fatal(err)
	}
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	_, err := d.Acquire(t.Context(), claimFor("job"))
	runtime.ReadMemStats(&after)
	wantMisconfigured(t, err, "is damaged", "remove it")
	if took := after.TotalAlloc - before.TotalAlloc; took > 1<<25 {
		t.Errorf("it took %d MB", took>>20)
	}
}

// A line of any text is a renewal that was written, or none.
func FuzzBeat(f *testing.F) {
	line := func(b beat) string {
		text := fmt.Sprintf(beatFormat, b.Token, b.Beat, b.Until, b.TTL)
		return fmt.Sprintf("%s %08x", text, crc32.ChecksumIEEE([]byte(text)))
	}
	f.Add(line(beat{1, 2, 3, 4}), int64(1), int64(2), int64(3), int64(4))
	f.Add("", int64(-1), int64(1<<62), int64(0), int64(1<<53))
	f.Add("1 2 3 ffffffff", int64(1), int64(0), int64(0), int64(0))
	f.Add("1 2 3 4 5 deadbeef", int64(1<<53-1), int64(1<<53-1), int64(1<<53-1), int64(1))
	f.Fuzz(func(t *testing.T, text string, token, n, until, ttl int64) {
		if b, ok := parseBeat(text); ok && !b.fits() {
			t.Errorf("%q is %+v", text, b)
		}
		want := beat{token, n, until, ttl}
		padded := fmt.Sprintf("%-*s\n", beatLength-1, line(want))
		if got, ok := parseBeat(padded); ok != want.fits() || ok && (got != want || len(padded) != beatLength) {
			t.Errorf("%+v is written as %q and read as %+v, %v", want, padded, got, ok)
		}
	})
}

// No URL panics, and one that is taken names an absolute directory, and is the same when it is written again.
func FuzzURL(f *testing.F) {
	for _, text := range []string{
		"file:", "file:///var/lib/x", "file:/a%20b", "file:///a?trust=shared", "file:dir", "file://h/x", "file:///x?y=z", "file:///x#y",
		"file:///a/../b//c", "file://user:p@/x", "FILE:///x",
	} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		u, err := url.Parse(text)
		if err != nil {
			return
		}
		dir, trusts, err := directory(u)
		if err != nil {
			return
		}
		if dir == "" {
			return
		}
		s := &store{dir: dir, trusts: trusts}
		again, err := url.Parse(s.url())
		if err != nil || !filepath.IsAbs(dir) {
			t.Fatalf("%q is %q: %v", text, dir, err)
		}
		if to, too, err := directory(again); to != dir || too != trusts || err != nil {
			t.Errorf("%q is %q, and %s is %q (%v)", text, dir, again, to, err)
		}
	})
}
