package servers

import (
	"fmt"
	"os"
	"os/user"
	"path/filepath"
	"strconv"
	"syscall"
	"testing"
)

// unprivileged is the account for a server that is not to run as root, the first of these that there is; nil: the tests do not
// run as root themselves.
func unprivileged(t testing.TB, server string, accounts ...string) *syscall.Credential {
	t.Helper()
	if os.Geteuid() != 0 {
		return nil
	}
	for _, name := range accounts {
		account, err := user.Lookup(name)
		if err != nil {
			continue
		}
		uid, wrongUID := strconv.ParseUint(account.Uid, 10, 32)
		gid, wrongGID := strconv.ParseUint(account.Gid, 10, 32)
		if wrongUID == nil && wrongGID == nil {
			return &syscall.Credential{Uid: uint32(uid), Gid: uint32(gid)}
		}
	}
	Lack(t, server, fmt.Sprintf("there is no user of %q, and the server is not to run as root", accounts))
	return nil
}

// dirFor is Dir for a server of an account: the folder for temporary files may be one that nobody else may enter.
func dirFor(t testing.TB, as *syscall.Credential) string {
	t.Helper()
	for at := os.TempDir(); as != nil && at != filepath.Dir(at); at = filepath.Dir(at) {
		if info, err := os.Stat(at); err == nil && info.Mode()&0o001 == 0 {
			return dirIn(t, "/tmp")
		}
	}
	return Dir(t)
}

// OpenDir is Dir for what a server of another account has to read. It may enter the folder, and list it.
func OpenDir(t testing.TB) string {
	t.Helper()
	dir := dirFor(t, &syscall.Credential{})
	if err := os.Chmod(dir, 0o755); err != nil { //nolint:gosec // that is what it is for
		t.Fatal(err)
	}
	return dir
}

// give makes a folder the account's.
func give(t testing.TB, dir string, to *syscall.Credential) {
	t.Helper()
	if to == nil {
		return
	}
	err := filepath.WalkDir(dir, func(path string, _ os.DirEntry, err error) error {
		if err != nil {
			return err
		}
		return os.Chown(path, int(to.Uid), int(to.Gid))
	})
	if err != nil {
		t.Fatal(err)
	}
}
