package ownership

import (
	"errors"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/leaderrun/leaderrun/test/servers"
)

const nobody = 65534

func make0(t *testing.T, mode os.FileMode) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "file")
	if err := errors.Join(os.WriteFile(path, []byte("text"), 0o600), os.Chmod(path, mode)); err != nil {
		t.Fatal(err)
	}
	return path
}

func want(t *testing.T, err error, why string) {
	t.Helper()
	e, ok := errors.AsType[*Error](err)
	switch {
	case why == "" && err != nil:
		t.Error(err)
	case why != "" && (!ok || !strings.Contains(e.Why, why) || Remedy(err) == ""):
		t.Errorf("%v, want one that says %q, and a remedy", err, why)
	}
}

func TestRead(t *testing.T) {
	for mode, why := range map[os.FileMode]string{
		0o600: "", 0o644: "", 0o640: "", 0o444: "", 0o602: "can be written by others (mode 0602)", 0o666: "can be written by others (mode 0666)",
	} {
		path := make0(t, mode)
		text, _, err := Read(path, 4)
		want(t, err, why)
		if why == "" && string(text) != "text" {
			t.Errorf("%q", text)
		}
		_, err = ReadAny(path, 4)
		want(t, err, why)
	}
	if _, _, err := Read(make0(t, 0o600), 3); err == nil || !strings.Contains(err.Error(), "larger than 3 bytes") {
		t.Error(err)
	}
	if _, err := ReadAny("/dev/null", 4); err != nil {
		t.Error(err)
	}
}

// What is no regular file is another user's word all the same. What whoever started us has opened is theirs.
func TestReadAnyOfOthers(t *testing.T) {
	pipe := filepath.Join(t.TempDir(), "pipe")
	if err := syscall.Mkfifo(pipe, 0o600); err != nil {
		t.Fatal(err)
	}
	read := func(why string) {
		t.Helper()
		_, err := ReadAny(pipe, 4)
		want(t, err, why)
		f, err := os.OpenFile(pipe, os.O_RDONLY|readWithWait, 0)
		if err != nil {
			t.Fatal(err)
		}
		defer f.Close()
		for _, path := range []string{"/dev/fd/", "/proc/self/fd/"} {
			path += strconv.Itoa(int(f.Fd()))
			_, err = ReadAny(path, 4)
			want(t, err, "")
			_, _, err = Read(path, 4)
			want(t, err, "")
			link := filepath.Join(t.TempDir(), "link")
			if err := os.Symlink(path, link); err != nil {
				t.Fatal(err)
			}
			_, err = ReadAny(link, 4)
			want(t, err, why)
			if _, _, err = Read(link, 4); err == nil {
				t.Errorf("%s is read", link)
			}
		}
	}
	read("")
	if err := os.Chmod(pipe, 0o622); err != nil {
		t.Fatal(err)
	}
	read("can be written by others (mode 0622)")
	if err := errors.Join(os.Chmod(pipe, 0o600), os.Chown(pipe, nobody, -1)); err != nil {
		servers.Lack(t, "root", "only root gives pipes away")
	}
	read("belongs to ")
}

// A pipe is read to its end, however late that comes; a named one that nobody writes to is no reason to wait for ever.
func TestReadAnyPipe(t *testing.T) {
	path := filepath.Join(t.TempDir(), "pipe")
	if err := syscall.Mkfifo(path, 0o600); err != nil {
		t.Fatal(err)
	}
	if text, err := ReadAny(path, 4); err != nil || len(text) != 0 {
		t.Errorf("nobody writes: %q, %v", text, err)
	}
	if _, _, err := Read(path, 4); err == nil {
		t.Error("a pipe is read as a file")
	}
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	began := make(chan struct{})
	go func() {
		<-began
		_, _ = w.WriteString("te")
		_, _ = w.WriteString("xt")
		_ = w.Close()
	}()
	close(began)
	if text, err := ReadAny("/dev/fd/"+strconv.Itoa(int(r.Fd())), 4); err != nil || string(text) != "text" {
		t.Errorf("%q, %v", text, err)
	}
}

// A group may write that is root's: who is in it is as good as root.
func TestGroups(t *testing.T) {
	if os.Geteuid() != 0 {
		servers.Lack(t, "root", "only root gives files away")
	}
	for group, why := range map[int]string{0: "", 7: "can be written by others (mode 0660)"} {
		path := make0(t, 0o660)
		if err := os.Chown(path, -1, group); err != nil {
			t.Fatal(err)
		}
		_, _, err := Read(path, 4)
		want(t, err, why)
	}
}

// Where each user has a group of their own, umask 002 is usual.
func TestOwnGroup(t *testing.T) {
	const users = "root:x:0:0::/:/bin/sh\nada:x:1000:1001:Ada,,,:/home/ada:/bin/sh\nbob:x:1001:1002::/home/bob:/bin/sh\neve:x:1002:1002::/:/bin/sh\n" +
		"kim:x:1003:1003::/:/bin/sh\nlee:x:1004:1004::/:/bin/sh\nmax:x:1005:1005::/:/bin/sh\ntwo:x:1006:1006::/:/bin/sh\n+\n"
	const groups = "root:x:0:\nada:x:1001:ada\nbob:x:1002:\nkim:x:1003:kim,www-data\nstaff:x:1004:\ntwo:x:1006:\nsame:x:1006:\nmore:x:1007:\n+\n"
	for _, c := range []struct {
		uid, gid uint32
		want     bool
		why      string
	}{
		{1000, 1001, true, "it is called as its only user"},
		{1000, 1007, false, "it is nobody's first one"},
		{1001, 1001, false, "it is another user's"},
		{1001, 1002, false, "another user has it as the first one"},
		{1003, 1003, false, "it has another member"},
		{1004, 1004, false, "it is called otherwise"},
		{1005, 1005, false, "it is not known"},
		{1006, 1006, false, "it has two names"},
		{1100, 1001, false, "the owner is not known"},
	} {
		if got := isOwnGroup(users, groups, c.uid, c.gid); got != c.want {
			t.Errorf("group %d of user %d: %v: %s", c.gid, c.uid, got, c.why)
		}
	}
}

func TestOwner(t *testing.T) {
	path := make0(t, 0o600)
	if err := os.Chown(path, nobody, -1); err != nil {
		servers.Lack(t, "root", "only root gives files away")
	}
	_, _, err := Read(path, 4)
	want(t, err, "belongs to ")
	_, err = ReadAny(path, 4)
	want(t, err, "belongs to ")
}

// As kubelet mounts a secret: a sticky folder that all may write, and links of root's in it.
func TestMountedSecret(t *testing.T) {
	dir := t.TempDir()
	for _, err := range []error{
		os.Chmod(dir, 0o777|os.ModeSticky), os.Mkdir(filepath.Join(dir, "..2026"), 0o755),
		os.WriteFile(filepath.Join(dir, "..2026", "url"), []byte("text"), 0o600), os.Chmod(filepath.Join(dir, "..2026", "url"), 0o644),
		os.Symlink("..2026", filepath.Join(dir, "..data")), os.Symlink("..data/url", filepath.Join(dir, "url")),
	} {
		if err != nil {
			t.Fatal(err)
		}
	}
	_, _, err := Read(filepath.Join(dir, "url"), 4)
	want(t, err, "")
	want(t, CheckFolder(filepath.Join(dir, "..data")), "")
}

func TestFolders(t *testing.T) {
	dir := t.TempDir()
	path := func(name string) string { return filepath.Join(dir, name) }
	for _, err := range []error{
		os.MkdirAll(path("a/b/c"), 0o755), os.Symlink("a/./b/../b//c", path("link")), os.Symlink(path("a/b"), path("absolute")),
		os.Symlink("loop", path("loop")), os.WriteFile(path("file"), nil, 0o600),
	} {
		if err != nil {
			t.Fatal(err)
		}
	}
	for _, name := range []string{"a/b/c", "link", "absolute", "absolute/c", "a/../a", ""} {
		want(t, CheckFolder(path(name)), "")
	}
	if err := CheckFolder(path("loop")); !errors.Is(err, syscall.ELOOP) {
		t.Errorf("%v, want ELOOP", err)
	}
	for _, name := range []string{"none", "a/none/c"} {
		if err := CheckFolder(path(name)); !errors.Is(err, os.ErrNotExist) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if err := os.Chmod(path("a"), 0o777); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"a/b/c", "link", "absolute", "absolute/c", "a/none"} {
		want(t, CheckFolder(path(name)), "can be written by others (mode 0777)")
	}
	if err := os.Chmod(path("a"), 0o777|os.ModeSticky); err != nil {
		t.Fatal(err)
	}
	want(t, CheckFolder(path("a/b/c")), "")
}
