package launch

import (
	"errors"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/leaderrun/leaderrun/backends"
	"github.com/leaderrun/leaderrun/internal/cli"
	processtree "github.com/leaderrun/leaderrun/internal/supervise/tree"
	"github.com/leaderrun/leaderrun/test/servers"
	"github.com/leaderrun/leaderrun/test/waits"
)

// shortDir is a directory whose name leaves room for that of a socket.
func shortDir(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("/tmp", "lr") //nolint:usetesting // its name is too long for a socket
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	return dir
}

func TestSocketIsPrivateAndLeavesNothing(t *testing.T) {
	s, path := openSocket(t, 15*time.Second)
	dir := filepath.Dir(path)
	info, err := os.Stat(dir)
	if err != nil || info.Mode().Perm() != 0o700 {
		t.Errorf("%v, %v", info.Mode(), err)
	}
	again := s.Env(func(backends.Grant) []string { return nil })(grantOf(time.Second))
	if len(again) != 1 || again[0] != cli.SocketVariable+"="+path {
		t.Errorf("the next start of the command has %q", again)
	}

	conn, err := net.Dial("unix", path) // asks while the run ends
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	s.Close()
	if _, err := os.Stat(dir); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("%s is left over: %v", dir, err)
	}
	if answer := s.check(); answer.Leading || answer.Reason != "the run is over" {
		t.Errorf("after the end: %+v", answer)
	}
	left, err := os.ReadDir(os.Getenv("XDG_RUNTIME_DIR"))
	if err != nil || len(left) != 0 {
		t.Errorf("left over: %v, %v", left, err)
	}
}

// A directory with too long a name, or none to write to, is passed over; where there is none, the run has one warning
// and no socket.
func TestSocketFindsADirectory(t *testing.T) {
	long := filepath.Join(shortDir(t), strings.Repeat("x", longestSocketPath))
	if err := os.Mkdir(long, 0o700); err != nil {
		t.Fatal(err)
	}
	t.Setenv("XDG_RUNTIME_DIR", long)
	t.Setenv("TMPDIR", filepath.Join(shortDir(t), "missing"))
	s := NewSocket(func(text, _ string) { t.Error(text) })
	vars := s.Env(func(backends.Grant) []string { return nil })(grantOf(15 * time.Second))
	if len(vars) != 1 || !strings.HasPrefix(vars[0], cli.SocketVariable+"=/tmp/leaderrun.") {
		t.Errorf("variables: %q", vars)
	} else if path := valueIn(vars, cli.SocketVariable); !strings.HasPrefix(path, "/tmp/") {
		t.Errorf("the guardian is told of %q", path)
	}
	s.Close()

	var warnings []string
	s = NewSocket(func(text, _ string) { warnings = append(warnings, text) })
	s.parents = []string{long, filepath.Join(long, "missing")}
	for range 2 {
		if vars := s.Env(func(backends.Grant) []string { return []string{"A=b"} })(grantOf(time.Second)); len(vars) != 1 {
			t.Errorf("variables: %q", vars)
		}
	}
	s.Close()
	if len(warnings) != 1 {
		t.Errorf("warnings: %q", warnings)
	}
}

// What cleans up /tmp takes the daemon's directory away once it is old. The next run has one again, and not another's.
func TestSocketHomeThatWasRemoved(t *testing.T) {
	t.Setenv("RUNTIME_DIRECTORY", shortDir(t))
	for name, spoil := range map[string]func(dir string) error{
		"removed":                       os.Remove,
		"a file in its place":           func(dir string) error { return errors.Join(os.Remove(dir), os.WriteFile(dir, nil, 0o600)) },
		"a link in its place":           func(dir string) error { return errors.Join(os.Remove(dir), os.Symlink("/tmp", dir)) },
		"open for all":                  func(dir string) error { return os.Chmod(dir, 0o777) },
		"made by another in its place ": func(dir string) error { return os.Chown(dir, 65534, -1) },
	} {
		t.Run(name, func(t *testing.T) {
			home := &socketHome{}
			defer home.Remove()
			first, _, err := home.place()
			if err != nil {
				t.Fatal(err)
			}
			if dir, number, err := home.place(); dir != first || number != 2 || err != nil {
				t.Errorf("the second socket is number %d in %s, not in %s: %v", number, dir, first, err)
			}
			if err := spoil(first); errors.Is(err, os.ErrPermission) {
				servers.Lack(t, "root", "only root gives directories away")
			} else if err != nil {
				t.Fatal(err)
			}
			defer os.Remove(first)
			s := NewSocket(func(text, _ string) { t.Error(text) })
			s.home = home
			vars := s.Env(func(backends.Grant) []string { return nil })(grantOf(time.Minute))
			defer s.Close()
			if len(vars) != 1 || filepath.Dir(strings.TrimPrefix(vars[0], cli.SocketVariable+"=")) == first {
				t.Errorf("variables %q, the directory was %s", vars, first)
			}
		})
	}
}

// What killed runs have left is removed by a later one, and nothing else.
func TestSocketsThatNobodyHoldsAreRemoved(t *testing.T) {
	parent := shortDir(t)
	folder := func(name string, keep bool) string {
		dir := filepath.Join(parent, processtree.Prefix+name)
		if err := os.Mkdir(dir, 0o700); err != nil {
			t.Fatal(err)
		}
		l, err := net.ListenUnix("unix", &net.UnixAddr{Name: filepath.Join(dir, socketPrefix+"1s"), Net: "unix"})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = l.Close() })
		if keep {
			if err := os.WriteFile(filepath.Join(dir, "something else"), nil, 0o600); err != nil {
				t.Fatal(err)
			}
		}
		return dir
	}
	old, mixed := folder("old", false), folder("mixed", true)
	s := NewSocket(func(text, _ string) { t.Error(text) })
	s.parents = []string{parent}
	vars := s.Env(func(backends.Grant) []string { return nil })(grantOf(15 * time.Second))
	for limit := time.Now().Add(20 * time.Second); ; time.Sleep(time.Millisecond) {
		if _, err := os.Lstat(old); err != nil {
			break
		}
		if time.Now().After(limit) {
			t.Fatal("it stays")
		}
	}
	processtree.RemoveAbandoned(parent, removeSockets) // a whole look
	if _, err := os.Lstat(filepath.Join(mixed, "something else")); err != nil {
		t.Error(err)
	}
	if _, err := os.Lstat(valueIn(vars, cli.SocketVariable)); err != nil {
		t.Error("the socket of a run that lives was removed:", err)
	}
	s.Close()
}

// A file system that does not answer holds up neither the command nor the end of its run: here it is another run of the same
// daemon that waits for it.
func TestADirectoryThatHangsHoldsUpNoRun(t *testing.T) {
	isImpatient(t, &PatienceToMake)
	home := &socketHome{}
	home.mu.Lock()
	over := make(chan struct{})
	go func() {
		defer close(over)
		warnings := 0
		s := NewSocket(func(string, string) { warnings++ })
		s.home = home
		env := s.Env(func(backends.Grant) []string { return nil })
		for range 2 {
			if vars := env(grantOf(time.Second)); len(vars) != 0 {
				t.Errorf("variables: %q", vars)
			}
		}
		if warnings != 1 {
			t.Errorf("%d warnings of a command without a socket", warnings)
		}
		s.Close()
		home.Remove()
		s = NewSocket(func(string, string) {})
		s.home = home
		ahead := make(chan struct{})
		go func() {
			defer close(ahead)
			s.Ahead(time.Second)
		}()
		for s.making.TryLock() { // until that hangs
			s.making.Unlock()
		}
		s.Close()
		home.mu.Unlock()
		<-ahead
	}()
	select {
	case <-over:
	case <-time.After(waits.Patience):
		t.Fatal("the run hangs with its directory")
	}
}

// Runs that start at the same time remove what nobody holds: also a directory that is just being made.
func TestDirectoryIsMadeWhileOthersTidyUp(t *testing.T) {
	t.Parallel()
	parent := shortDir(t)
	over, tidied := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(tidied)
		for {
			select {
			case <-over:
				return
			default:
				processtree.RemoveAbandoned(parent, removeSockets)
			}
		}
	}()
	for range 100 {
		dir, err := privateDirectory(parent, 20)
		if err == nil {
			_, err = os.Lstat(dir)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	close(over)
	<-tidied
}

// Whoever owns a folder above the socket can put another one in its place, and tell a run that has lost its lease that it leads.
func TestSocketIsNotBelowAnothersFolder(t *testing.T) {
	if os.Geteuid() != 0 {
		servers.Lack(t, "root", "only root can give a folder away")
	}
	theirs := t.TempDir()
	if err := os.Chown(theirs, 54321, 54321); err != nil {
		t.Fatal(err)
	}
	if dir, err := privateDirectory(theirs, 20); err == nil {
		t.Errorf("made %s", dir)
	}
}
