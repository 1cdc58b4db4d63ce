package file

import (
	"errors"
	"io/fs"
	"syscall"

	"github.com/leaderrun/leaderrun/backends"
	"github.com/leaderrun/leaderrun/internal/ownership"
)

// permanent turns the errors of a directory that cannot be used into a PermanentError; others may pass, as full ones do.
func permanent(err error) error {
	if remedy := ownership.Remedy(err); remedy != "" {
		return misconfigured(err, remedy+", or remove it: another user may have made it; ?"+trustShared+" is for those who mean it")
	}
	switch {
	case errors.Is(err, fs.ErrPermission):
		return misconfigured(err, "run as the owner of the directory, or name another one with --backend file:///path/to/dir")
	case errors.Is(err, syscall.EROFS):
		return misconfigured(err, "the file system is read-only: name another directory with --backend file:///path/to/dir")
	case errors.Is(err, syscall.ELOOP):
		return misconfigured(err, "a symbolic link is in the place of a lock: remove it")
	}
	return full(err)
}

// fullError says that there is no room for what is to be written. That may pass.
type fullError struct {
	error
	remedy string
}

func (e *fullError) Unwrap() error { return e.error }

// Remedy is how room is made.
func (e *fullError) Remedy() string { return e.remedy }

// full makes a *fullError of an error that says so.
func full(err error) error {
	switch {
	case errors.Is(err, syscall.ENOSPC), errors.Is(err, syscall.EDQUOT):
		return &fullError{err, "make room on that disk: without it no run starts, and the end of none is recorded"}
	case errors.Is(err, syscall.EFBIG):
		return &fullError{err, "let this process write larger files: ulimit -f unlimited, or LimitFSIZE= of the unit"}
	}
	return err
}

func damaged(path string, err error) error {
	what := "is damaged"
	if _, newer := errors.AsType[backends.NewerForm](err); newer {
		what = "cannot be read"
	}
	return backends.Misconfigured("restore it, or remove it: then the ticks and keys that have been run are forgotten",
		"the record %s %s: %w", path, what, err)
}

func misconfigured(err error, hint string) error {
	return &backends.PermanentError{Kind: backends.Configuration, Err: err, Hint: hint}
}
