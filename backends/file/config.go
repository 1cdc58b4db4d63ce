package file

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"syscall"

	"github.com/leaderrun/leaderrun/backends"
)

const (
	systemDir = "/var/lib/leaderrun"
	dirMode   = 0o700
	fileMode  = 0o600
)

// Open returns a driver for a URL: file: (the default directory), file:/dir or file:///dir. The directory is
// created where it is missing; one on a network file system is refused.
func Open(rawURL string) (*Driver, error) {
	u, err := url.Parse(rawURL)
	if err != nil {
		return nil, misconfigured(fmt.Errorf("not a file: URL: %w", err), "write file:///dir, with %25 for a %")
	}
	dir, err := directory(u)
	if err != nil {
		return nil, err
	}
	if dir == "" {
		if dir, err = defaultDir(systemDir); err != nil {
			return nil, err
		}
	}
	return open(dir, networkFS)
}

// Redacted returns the URL of the directory, also where it is the default one. There is nothing secret in it.
func (d *Driver) Redacted() string { return (&url.URL{Scheme: "file", Path: d.dir}).String() }

// Prefix returns "": the directory is what keeps programs apart.
func (d *Driver) Prefix() string { return "" }

// open checks the directory; kind names the network file system that it is on, or "".
func open(dir string, kind func(dir string) (string, error)) (*Driver, error) {
	if err := os.MkdirAll(dir, dirMode); err != nil {
		return nil, misconfigured(fmt.Errorf("cannot make the directory: %w", err),
			"name one that can be written, such as --backend file:///path/to/dir")
	}
	name, err := kind(dir)
	if err != nil {
		return nil, misconfigured(err, "name another directory, on a local disk")
	}
	if name != "" {
		return nil, misconfigured(fmt.Errorf("%s is on a network file system (%s), where locks can be lost unnoticed", dir, name),
			"name a directory on a local disk, or a server such as redis://host for several hosts")
	}
	if !writable(dir) {
		return nil, misconfigured(&fs.PathError{Op: "write", Path: dir, Err: fs.ErrPermission},
			"run as its owner, or name another directory with --backend file:///path/to/dir")
	}
	d := &Driver{dir: dir, held: map[string]*lease{}, waiters: map[string]*waiter{}}
	d.life, d.endLife = context.WithCancel(context.Background())
	return d, nil
}

// directory returns the directory that a URL names, or "" for the default one.
func directory(u *url.URL) (string, error) {
	if len(u.Query()) > 0 || u.ForceQuery || u.RawQuery != "" {
		return "", misconfigured(fmt.Errorf("unknown option %q of a file: backend", u.RawQuery), "it has none: the directory is all there is")
	}
	relative := u.Opaque + u.Host
	switch {
	case u.Fragment != "":
		return "", misconfigured(errors.New("a # in the path of a file: backend"), "write it as %23")
	case u.User != nil || u.Port() != "":
		return "", misconfigured(errors.New("a file: backend has no user and no port"), "write file:///dir")
	case relative != "":
		path := strings.TrimPrefix(filepath.Join(relative, u.Path), "./")
		return "", misconfigured(fmt.Errorf("the directory %q of a file: backend is not absolute", path),
			"two jobs that start in different directories would not exclude each other: write file:///"+path)
	case u.Path == "":
		return "", nil
	}
	return filepath.Clean(u.Path), nil
}

// defaultDir returns the system's directory where it can be written, else the user's.
func defaultDir(system string) (string, error) {
	if os.MkdirAll(system, dirMode) == nil && writable(system) {
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

// writable says whether files can be made in a directory.
func writable(dir string) bool {
	const w, x = 2, 1
	return syscall.Access(dir, w|x) == nil
}

func misconfigured(err error, hint string) error {
	return &backends.PermanentError{Kind: backends.Configuration, Err: err, Hint: hint}
}

// permanent turns the errors of a directory that cannot be used into a PermanentError; others may pass.
func permanent(err error) error {
	switch {
	case errors.Is(err, fs.ErrPermission):
		return misconfigured(err, "run as the owner of the directory, or name another one with --backend file:///path/to/dir")
	case errors.Is(err, syscall.EROFS):
		return misconfigured(err, "the file system is read-only: name another directory with --backend file:///path/to/dir")
	case errors.Is(err, syscall.ELOOP):
		return misconfigured(err, "a symbolic link is in the place of a lock: remove it")
	}
	return err
}
