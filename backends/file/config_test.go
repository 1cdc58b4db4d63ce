package file

import (
	"errors"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/leaderrun/leaderrun/backends"
	"github.com/leaderrun/leaderrun/internal/filesystem"
	"github.com/leaderrun/leaderrun/test/suite"
)

func TestNetworkFileSystemIsRefused(t *testing.T) {
	for _, name := range []string{"NFS", "SMB2", "FUSE"} {
		_, err := open(t.TempDir(), ourselves, func(string) (string, error) { return name, nil })
		permanent, ok := errors.AsType[*backends.PermanentError](err)
		if !ok || permanent.Kind != backends.Configuration || !strings.Contains(permanent.Error(), name) || permanent.Hint == "" {
			t.Errorf("%s: %v", name, err)
		}
	}
	_, err := open(t.TempDir(), ourselves, func(string) (string, error) { return "", errors.New("statfs: no") })
	if err == nil {
		t.Error("a file system that cannot be told is accepted")
	}
}

func TestDirectory(t *testing.T) {
	for text, want := range map[string]string{
		"file:": "", "file:///": "/", "file:///var/lib/x": "/var/lib/x", "file:/var/lib/x": "/var/lib/x",
		"file:///a%20b%23": "/a b#", "file:///a/../b//c": "/b/c", "file://": "",
	} {
		u, err := url.Parse(text)
		if err != nil {
			t.Fatal(err)
		}
		if got, trusts, err := directory(u); err != nil || got != want || trusts != ourselves {
			t.Errorf("%s: %q, %v; want %q", text, got, err, want)
		}
	}
	here, err := os.Getwd()
	if err != nil {
		t.Fatal(err)
	}
	for text, hint := range map[string]string{
		"file:dir": "file://" + here + "/dir", "file:./dir": "file://" + here + "/dir", "file://dir/x": "file:///dir/x",
		"file:../dir":        "file://" + filepath.Dir(here) + "/dir",
		"file:///x?fsync=no": "?trust=shared", "file:?": "?trust=shared", "file:///x?trust=all": "?trust=shared", "file:///x#y": "%23", "file://user@/x": "file:///dir",
	} {
		u, err := url.Parse(text)
		if err != nil {
			t.Fatal(err)
		}
		got, _, err := directory(u)
		permanent, ok := errors.AsType[*backends.PermanentError](err)
		if !ok || permanent.Kind != backends.Configuration || !strings.Contains(permanent.Hint, hint) {
			t.Errorf("%s: %q, %+v; want a hint with %q", text, got, err, hint)
		}
	}
}

func TestOpen(t *testing.T) {
	steps := suite.On(t)
	dir := filepath.Join(t.TempDir(), "a b")
	if _, err := Open("file://" + strings.ReplaceAll(dir, " ", "%20") + "/c"); err == nil {
		t.Error("more than the last part of a path was made")
	}
	d, err := Open("file://" + strings.ReplaceAll(dir, " ", "%20"))
	if err != nil {
		t.Fatal(err)
	}
	steps.Finish(d, steps.Acquire(d, claimFor("job")))
	again, err := Open(d.Redacted())
	if err != nil {
		t.Fatal(err)
	}
	if names, err := again.Jobs(t.Context()); err != nil || len(names) != 1 {
		t.Errorf("%s: jobs %q, %v", d.Redacted(), names, err)
	}
	for _, bad := range []string{"file:///%zz", "file:dir", "file:///x?y=z"} {
		if _, err := Open(bad); err == nil {
			t.Errorf("%s is accepted", bad)
		}
	}
}

func TestDefaultDir(t *testing.T) {
	system := filepath.Join(t.TempDir(), "lib", "leaderrun")
	if got, err := defaultDir(system); err != nil || got != system {
		t.Errorf("%q, %v; want the system's directory", got, err)
	}
	if info, err := os.Stat(system); err != nil || info.Mode().Perm() != dirMode {
		t.Errorf("%v, %v", info, err)
	}
	file := filepath.Join(t.TempDir(), "file") // nobody can make a directory under a file, not even root
	if err := os.WriteFile(file, nil, fileMode); err != nil {
		t.Fatal(err)
	}
	unwritable := filepath.Join(file, "leaderrun")
	t.Setenv("XDG_STATE_HOME", "/state")
	t.Setenv("HOME", "/home/jo")
	if got, err := defaultDir(unwritable); err != nil || got != "/state/leaderrun" {
		t.Errorf("%q, %v", got, err)
	}
	t.Setenv("XDG_STATE_HOME", "not/absolute")
	if got, err := defaultDir(unwritable); err != nil || got != "/home/jo/.local/state/leaderrun" {
		t.Errorf("%q, %v", got, err)
	}
	t.Setenv("HOME", "")
	if got, err := defaultDir(unwritable); err == nil {
		t.Errorf("%q without a home", got)
	}
	if _, err := open(unwritable, ourselves, filesystem.Network); err == nil {
		t.Error("a directory that cannot be made is opened")
	}
}

// The remedy for a home that cannot be written is another directory, not to make one in there.
func TestDefaultDirThatCannotBeMade(t *testing.T) {
	if err := makeAbove(filepath.Join(t.TempDir(), "home", "state", "leaderrun"), ourselves); err != nil {
		t.Error(err)
	}
	const above = "/proc/no-home" // nobody can make a directory there, not even root
	err := makeAbove(filepath.Join(above, "state", "leaderrun"), ourselves)
	permanent, ok := errors.AsType[*backends.PermanentError](err)
	if !ok || permanent.Kind != backends.Configuration || permanent.Hint != nameAnother || !strings.Contains(err.Error(), above) {
		t.Errorf("%+v", err)
	}
}

func TestEscape(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		name := rapid.OneOf(rapid.String(), rapid.StringMatching(`[a%/.~ A0-9F-]{1,255}`))
		a, b := name.Draw(t, "a"), name.Draw(t, "b")
		if a != b && escape(a) == escape(b) {
			t.Errorf("%q and %q are both %q", a, b, escape(a))
		}
		for _, file := range []string{escape(a) + recordSuffix, "." + escape(a) + ".tmp"} {
			if len(file) > 255 || strings.ContainsAny(file, "/\x00") || file == recordSuffix && a != "" {
				t.Errorf("%q becomes %q", a, file)
			}
		}
		if strings.HasPrefix(escape(a), ".") {
			t.Errorf("%q becomes a hidden file", a)
		}
	})
}
