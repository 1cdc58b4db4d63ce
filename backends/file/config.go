package file

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"syscall"

	"github.com/leaderrun/leaderrun/backends"
	"github.com/leaderrun/leaderrun/internal/filesystem"
	"github.com/leaderrun/leaderrun/internal/ownership"
)

const (
	systemDir = "/var/lib/leaderrun"
	dirMode   = 0o700
	fileMode  = 0o600

	sharedMode = 0o660 // less the umask; of a directory with a default ACL this is the mask
)

// Open returns the engine of the store of a URL: file: (the default directory), file:/dir or file:///dir. The directory is
// made where it is missing, but not what it is in; one on a network file system is refused, and one that other users than root can write
// or replace, unless ?trust=shared says that they are meant.
func Open(rawURL string) (*backends.Engine, error) { return backends.OpenEngine(newStore(rawURL)) }

func newStore(rawURL string) (*store, error) {
	u, err := url.Parse(rawURL)
	if err != nil {
		return nil, misconfigured(fmt.Errorf("not a file: URL: %w", err), "write file:///dir, with %25 for a %")
	}
	dir, trusts, err := directory(u)
	if err != nil {
		return nil, err
	}
	if dir == "" {
		if dir, err = defaultDir(systemDir); err != nil {
			return nil, err
		}
		if err := makeAbove(dir, trusts); err != nil {
			return nil, err
		}
	}
	return open(dir, trusts, filesystem.Network)
}

// url returns the URL of the directory, also where it is the default one.
func (s *store) url() string {
	u := url.URL{Scheme: "file", Path: s.dir}
	if s.trusts == everybody {
		u.RawQuery = trustShared
	}
	return u.String()
}

// open checks the directory; kind names the network file system that it is on, or "".
func open(dir string, trusts trust, kind func(dir string) (string, error)) (*store, error) {
	if err := trusts.folder(dir); err != nil && !errors.Is(err, fs.ErrNotExist) { // nor is one made in another's
		return nil, err
	}
	if err := makeLast(dir); err != nil {
		hint := nameAnother
		if errors.Is(err, fs.ErrNotExist) {
			hint = "is the path right? then make what it is in: mkdir -p " + filepath.Dir(dir)
		}
		return nil, misconfigured(fmt.Errorf("cannot make the directory: %w", err), hint)
	}
	if err := trusts.folder(dir); err != nil {
		return nil, err
	}
	name, err := kind(dir)
	if err != nil {
		return nil, misconfigured(err, "name another directory, on a local disk")
	}
	if name != "" {
		return nil, misconfigured(fmt.Errorf("%s is on a network file system (%s), where locks can be lost unnoticed", dir, name),
			"name a directory on a local disk, or a server such as redis://host for several hosts")
	}
	if err := writable(dir); err != nil {
		hint := anotherFolder
		if errors.Is(err, fs.ErrPermission) {
			hint = "run as its owner, or " + hint
		}
		return nil, misconfigured(&fs.PathError{Op: "write", Path: dir, Err: err}, hint)
	}
	return &store{dir: dir, trusts: trusts, held: map[string]*lease{}, waiters: map[string]*waiter{}}, nil
}

const nameAnother = "name one that can be written, such as --backend file:///path/to/dir"

// makeAbove makes what the default directory is in: a new user has no part of it.
func makeAbove(dir string, trusts trust) error {
	if err := trusts.folder(dir); !errors.Is(err, fs.ErrNotExist) { // the rest is for open to say
		return nil
	}
	if err := os.MkdirAll(filepath.Dir(dir), dirMode); err != nil {
		return misconfigured(fmt.Errorf("cannot make the directory: %w", err), nameAnother)
	}
	return nil
}

// makeLast makes the last part of a path: a slip in one must not become a tree of folders, and another backend.
func makeLast(dir string) error {
	err := os.Mkdir(dir, dirMode)
	if !errors.Is(err, fs.ErrExist) {
		return err
	}
	info, err := os.Stat(dir)
	if err == nil && !info.IsDir() {
		err = &fs.PathError{Op: "mkdir", Path: dir, Err: syscall.ENOTDIR}
	}
	return err
}

// directory returns the directory that a URL names, or "" for the default one, and who is trusted there.
func directory(u *url.URL) (dir string, trusts trust, err error) {
	dir, err = directoryOf(u)
	switch {
	case u.RawQuery == trustShared:
		return dir, everybody, err
	case u.ForceQuery || u.RawQuery != "":
		return "", ourselves, misconfigured(fmt.Errorf("unknown option %q of a file: backend", u.RawQuery),
			"the only one is ?"+trustShared+", for a directory that other users may write")
	}
	return dir, ourselves, err
}

func directoryOf(u *url.URL) (string, error) {
	relative := u.Opaque + u.Host
	switch {
	case u.Scheme != "file": // a path without one would be relative to anywhere
		return "", misconfigured(errors.New("not a file: URL"), "write file:///dir")
	case u.Fragment != "":
		return "", misconfigured(errors.New("a # in the path of a file: backend"), "write it as %23")
	case u.User != nil || u.Port() != "":
		return "", misconfigured(errors.New("a file: backend has no user and no port"), "write file:///dir")
	case relative != "":
		path := strings.TrimPrefix(filepath.Join(relative, u.Path), "./")
		meant := "/" + path // a slash that is missing after file://
		if here, err := os.Getwd(); err == nil && u.Host == "" {
			meant = filepath.Join(here, path)
		}
		return "", misconfigured(fmt.Errorf("the directory %q of a file: backend is not absolute", path),
			"two jobs that start in different directories would not exclude each other: write "+(&url.URL{Scheme: "file", Path: meant}).String())
	case u.Path == "":
		return "", nil
	}
	return filepath.Clean(u.Path), nil
}

// defaultDir returns the system's directory where it can be written, else the user's.
func defaultDir(system string) (string, error) {
	if os.MkdirAll(system, dirMode) == nil && writable(system) == nil {
		return system, nil
	}
	if state := os.Getenv("XDG_STATE_HOME"); filepath.IsAbs(state) {
		return filepath.Join(state, "leaderrun"), nil
	}
	home, err := os.UserHomeDir()
	if err != nil || !filepath.IsAbs(home) {
		return "", misconfigured(errors.New(system+" cannot be written and this user has no home directory"),
			"name a directory: --backend file:///path/to/dir")
	}
	return filepath.Join(home, ".local", "state", "leaderrun"), nil
}

// trust says whose files and folders a driver takes for its own. What another user can write is that user's word: who ran
// a job, whether it is done, who has the lock.
type trust int

const (
	ourselves trust = iota // this user and root
	everybody              // whoever the modes let in
)

const trustShared = "trust=shared"

// folder says whether somebody who is not trusted can change a directory, or put another in its place.
func (t trust) folder(dir string) error {
	if t == everybody {
		return nil
	}
	err := ownership.CheckFolder(dir)
	if remedy := ownership.Remedy(err); remedy != "" {
		return misconfigured(err, remedy+"; or name another directory; or append ?"+trustShared+" to the URL if all who can write there may run, stop and skip these jobs")
	}
	if err != nil {
		return misconfigured(err, "name another directory, such as --backend file:///path/to/dir")
	}
	return nil
}

// open opens a file of a job, which is a regular one and not another's. It is not followed through a symbolic link, and
// a pipe is not waited for.
func (t trust) open(path string, flags int) (*os.File, error) {
	if t == everybody {
		f, _, err := ownership.OpenRegular(path, flags|syscall.O_NOFOLLOW, sharedMode)
		return f, err
	}
	f, _, err := ownership.Open(path, flags|syscall.O_NOFOLLOW, fileMode)
	return f, err
}

// most is more bytes than any file of a job has. What is longer was not written by leaderrun, and is no reason to take as much memory.
const most = 1 << 20

// read reads a whole file of a job, or of one that is too long its beginning, which is no record.
func (t trust) read(path string) ([]byte, error) {
	f, err := t.open(path, os.O_RDONLY)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return io.ReadAll(io.LimitReader(f, most))
}

// writable says whether files can be made in a directory.
func writable(dir string) error {
	const w, x = 2, 1
	return syscall.Access(dir, w|x)
}
