package launch

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"

	"github.com/leaderrun/leaderrun/internal/ownership"
	"github.com/leaderrun/leaderrun/internal/panics"
	processtree "github.com/leaderrun/leaderrun/internal/supervise/tree"
)

var errNoParent = errors.New("no directory has a name that is short enough")

// socketParents are where the directory of a socket may be, the best first. systemd gives a service one in memory by
// RUNTIME_DIRECTORY, a session has XDG_RUNTIME_DIR.
func socketParents() []string {
	service, _, _ := strings.Cut(os.Getenv("RUNTIME_DIRECTORY"), ":")
	return []string{service, os.Getenv("XDG_RUNTIME_DIR"), os.TempDir(), "/tmp"}
}

// privateDirectory makes a directory that is only for this user, in which the name of a socket may have so many bytes.
func privateDirectory(parent string, room int) (string, error) {
	const random = 10 // digits at most that MkdirTemp appends
	if !filepath.IsAbs(parent) || len(parent)+len("/"+processtree.Prefix+"/")+random+room > longestSocketPath {
		return "", errNoParent
	}
	if err := ownership.CheckFolder(parent); err != nil { // its owner could put another socket there, and answer in our place
		return "", err
	}
	const tries = 100 // for who starts at the same time may take it for abandoned before it is held
	for left := tries; ; left-- {
		dir, err := os.MkdirTemp(parent, processtree.Prefix) // 0700
		if err != nil {
			return "", err
		}
		_, err = processtree.Hold(dir) // until this process ends
		if err == nil {
			panics.Go(func() { processtree.RemoveAbandoned(parent, removeSockets) })
			return dir, nil
		}
		if left == 0 || !errors.Is(err, syscall.ENOENT) {
			return "", err
		}
	}
}

// removeSockets removes a directory in which nothing is but sockets of ours.
func removeSockets(dir string) {
	entries, _ := os.ReadDir(dir)
	for _, e := range entries {
		if e.Type() == os.ModeSocket && strings.Contains(e.Name(), socketPrefix) {
			_ = os.Remove(filepath.Join(dir, e.Name()))
		}
	}
	_ = os.Remove(dir)
}

// socketHome is the directory of the sockets of many runs: to make one is more work than to make a socket. It is made
// when the first run needs it, and again when somebody has removed it: what is old in /tmp does not last.
type socketHome struct {
	shared bool       // the commands are other users', who may pass through it, and not see what is in it
	mu     sync.Mutex // held while a file system is asked: nobody waits for it without a limit
	dir    string
	number int
}

// place returns the directory, and a number that no other socket in it has.
func (h *socketHome) place() (dir string, number int, err error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.dir != "" && !h.isOurs() {
		h.dir = ""
	}
	for _, parent := range socketParents() {
		if h.dir != "" {
			break
		}
		if h.shared && parent == os.Getenv("XDG_RUNTIME_DIR") { // nobody else passes there
			continue
		}
		const digits = 10
		h.dir, err = privateDirectory(parent, digits+len(socketPrefix)+len("-1000h0m0.000s"))
		if err == nil && h.shared {
			err = os.Chmod(h.dir, 0o711)
		}
	}
	h.number++
	return h.dir, h.number, err
}

// isOurs says whether the directory is still there, and still only for this user: another one may have taken its name.
func (h *socketHome) isOurs() bool {
	others := os.FileMode(0o077)
	if h.shared {
		others = 0o066
	}
	info, err := os.Lstat(h.dir)
	if err != nil || !info.IsDir() || info.Mode().Perm()&others != 0 {
		return false
	}
	st, ok := info.Sys().(*syscall.Stat_t)
	return ok && int(st.Uid) == os.Geteuid()
}

// Remove removes the directory, when no run is left. It waits only so long for the file system.
func (h *socketHome) Remove() {
	_ = within(PatienceToMake, func() error {
		h.mu.Lock()
		defer h.mu.Unlock()
		if h.dir == "" || !h.isOurs() {
			return nil
		}
		return os.RemoveAll(h.dir)
	})
}
