package filefence_test

import (
	"errors"
	"net"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/leaderrun/leaderrun/fence"
	"github.com/leaderrun/leaderrun/fence/filefence"
)

// Hazard: two names of one file have two fences.
func TestAllNamesOfAFileShareItsFence(t *testing.T) {
	dir := memoryDir(t)
	t.Chdir(dir)
	for _, err := range []error{
		os.MkdirAll("real/deep", 0o700), os.MkdirAll("links", 0o700),
		os.Symlink("../real/report", "links/relative"),
		os.Symlink(filepath.Join(dir, "links/relative"), "links/absolute"),
		os.Symlink("../real/deep", "links/dir"),
		os.Symlink("dir/../report", "links/back"), // beside real/deep, and not beside links/dir
		os.Symlink("real", "way"),
	} {
		if err != nil {
			t.Fatal(err)
		}
	}
	names := []string{
		"real/report", "./real/report", "real//report", "links/../real/report", "links/relative", "links/absolute", "links/back",
		"way/report", "way/deep/../report", "links/dir/../report", filepath.Join(dir, "links/absolute"),
	}
	for round := range 2 { // first the file is not there
		for i, name := range names {
			token := int64(1 + round*len(names) + i)
			replace(t, raise(t, open(t, name, filefence.Options{}), token), name)
			holds(t, "real/report", name)
			if _, err := open(t, names[0], filefence.Options{}).Raise(t.Context(), fence.Run{Token: token - 1}); token > 1 && !isStale(err) {
				t.Errorf("%s has another fence than %s: %v", name, names[0], err)
			}
			if round == 0 {
				if err := os.Remove("real/report"); err != nil {
					t.Fatal(err)
				}
			}
		}
	}
	contains(t, "real", ".report.fence", ".report.fence.lock", "deep", "report")
	contains(t, "links", "absolute", "back", "dir", "relative")
}

func TestWhatIsNoFile(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	in := func(name string) string { return filepath.Join(dir, name) }
	socket, err := net.Listen("unix", in("socket"))
	if err != nil {
		t.Fatal(err)
	}
	defer socket.Close()
	if err := errors.Join(
		os.Mkdir(in("dir"), 0o700), syscall.Mkfifo(in("fifo"), 0o600), os.WriteFile(in("file"), nil, 0o600),
		os.Symlink("circle", in("circle")), os.Symlink("fifo", in("link")), os.Symlink("none/x", in("dangling")),
	); err != nil {
		t.Fatal(err)
	}
	for path, want := range map[string]string{
		in("dir"):                                "is a directory",
		in("dir") + "/":                          "is a directory",
		dir + "/.":                               "is a directory",
		dir + "/dir/..":                          "is a directory",
		"/":                                      "is a directory",
		"":                                       "is a directory",
		in("fifo"):                               "is a FIFO",
		in("link"):                               "is a FIFO",
		in("socket"):                             "is a socket",
		"/dev/null":                              "is a device",
		in("circle"):                             "lead in a circle",
		in("none/report"):                        "no such file or directory",
		in("dangling"):                           "no such file or directory",
		in("file/report"):                        "not a directory",
		in("fifo/report"):                        "not a directory", // and nobody waits for its other end
		in(strings.Repeat("x", 256)):             "name too long",
		in(".report.fence"):                      "named like a file of a fence",
		in(".report.fence.lock"):                 "named like a file of a fence",
		in(".report.fence.0123456789abcdef.tmp"): "named like a file of a fence",
	} {
		_, err := filefence.Open(path, filefence.Options{})
		if setup, ok := errors.AsType[*fence.SetupError](err); !ok || setup.Kind != fence.Configuration || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: got %v, want %q", path, err, want)
		}
	}
	// What comes into its place later is not replaced either.
	f := open(t, in("late"), filefence.Options{})
	w := raise(t, f, 1)
	if err := os.Mkdir(in("late"), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := w.Replace(t.Context(), write("new")); !isSetup(err, fence.Configuration) {
		t.Errorf("a directory that came later: %v", err)
	}
	if err := errors.Join(os.Remove(in("late")), os.Symlink("file", in("late"))); err != nil {
		t.Fatal(err)
	}
	if err := w.Replace(t.Context(), write("new")); !isSetup(err, fence.Configuration) {
		t.Errorf("a link that came later: %v", err)
	}
	holds(t, in("file"), "")
}
