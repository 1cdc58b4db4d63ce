package filefence

import (
	"errors"
	"io/fs"
	"path/filepath"
	"syscall"

	"github.com/leaderrun/leaderrun/fence"
	"github.com/leaderrun/leaderrun/internal/remedy"
)

// ErrUnsynced is among the errors after which a file was replaced, but may be the old one again after a power cut.
var ErrUnsynced = errors.New("it was replaced, but may be the old one again after a power cut")

// errUnsyncedToken is the same of the fence.
var errUnsyncedToken = errors.New("the fence was raised, but may be lower again after a power cut")

// unusable turns the errors of a directory that cannot be used into a *fence.SetupError. Others may pass: a full disk, a
// quota, a disk that fails.
func unusable(err error) error {
	if _, known := errors.AsType[*fence.SetupError](err); known {
		return err
	}
	where := "the directory"
	if p, ok := errors.AsType[*fs.PathError](err); ok {
		where = filepath.Dir(p.Path)
	}
	switch {
	case err == nil:
		return nil
	case errors.Is(err, fs.ErrPermission):
		return remedy.Denied("run as a user that may write in "+where+" and owns the fence's files there, or give this one the right", "%w", err)
	case errors.Is(err, syscall.EROFS):
		return remedy.Misconfigured("the file system is read-only: mount it for writing, or name a file elsewhere", "%w", err)
	case errors.Is(err, fs.ErrNotExist), errors.Is(err, syscall.ENOTDIR):
		return remedy.Misconfigured("make the directory first", "%w", err)
	case errors.Is(err, syscall.ELOOP):
		return remedy.Misconfigured("a symbolic link is in the place of one of the fence's files, or leads in a circle: remove it", "%w", err)
	case errors.Is(err, syscall.EBUSY):
		return remedy.Misconfigured("a file that is a mount point cannot be replaced: mount its directory instead", "%w", err)
	case errors.Is(err, syscall.EISDIR), errors.Is(err, syscall.ENAMETOOLONG), errors.Is(err, syscall.ENOTSUP),
		errors.Is(err, syscall.ENOSYS), errors.Is(err, syscall.EINVAL):
		return remedy.Misconfigured("", "%w", err)
	}
	return err
}
