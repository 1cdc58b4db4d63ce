// Package filefence replaces files in one step, and refuses runs that have been overtaken.
//
// Beside a file NAME lie .NAME.fence, the highest token seen, in a line that people can read, and .NAME.fence.lock, which
// is locked by flock(2) for the moments in which a token is compared. Neither may be removed while a run of the job lives.
//
// A run raises the fence, collects the new content in a temporary file of the same directory, and renames that over the
// file, comparing its token once more under the lock. So whoever reads finds the old content or the new one, whole, also
// after a kill or a power cut in the middle; and after a run has raised the fence, no content of an earlier one arrives.
// The lock is not held while content is made. A process that is stopped while it holds the lock keeps newer ones waiting,
// and lets none of them be overwritten.
//
// Not promised:
//
//   - What writes to the file by other means is not seen, and not refused.
//   - A new file takes the place of the old one. It gets its permission bits, owner and group; not its access control lists,
//     extended attributes or other hard links. Who holds the old one open keeps it. Where there was none it gets the bits 0666
//     less the umask.
//   - Only processes of one host exclude each other. File systems where a file may be torn or a lock lost are refused, as
//     far as their type says so: those of a network, FUSE, FAT, ext2 and all that are not known. A disk that lies about what
//     it has written is believed.
//   - On a file system that takes two spellings for one name, all runs must spell it alike.
package filefence

import (
	"cmp"
	"context"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"github.com/leaderrun/leaderrun/fence"
	"github.com/leaderrun/leaderrun/internal/remedy"
)

// DefaultLockWait is how long a lock that somebody else holds is waited for.
const DefaultLockWait = 10 * time.Second

// Options of a File. The zero value is good for most.
type Options struct {
	// Resource is the name of the fence; "": that of the file. Files of one directory may share one.
	Resource string
	// LockWait is how long a lock is waited for that somebody else holds, each time, unless the context ends before: 0 is
	// DefaultLockWait, and below 0 it is not waited for.
	LockWait time.Duration
}

// File is a file that runs replace. It may be used by several goroutines and processes of one host at once.
type File struct {
	token    *Token
	path     string // absolute, and no symbolic link
	resource string // what errors call it
}

var _ fence.Resource[*Writer] = (*File)(nil)

// Open looks at a file, which need not exist, but its directory must. A symbolic link stands for the file that it leads to
// now: that is replaced, and has the fence. Nothing is written. The error is a *fence.SetupError if the file or its
// file system is of a kind that cannot be replaced safely.
func Open(path string, o Options) (*File, error) {
	target, err := resolve(path)
	if err != nil {
		return nil, err
	}
	dir, base := filepath.Split(target)
	if isOurs(base) {
		return nil, remedy.Misconfigured("name another file", "%s is named like a file of a fence", path)
	}
	if _, err := look(target); err != nil {
		return nil, err
	}
	token, err := OpenToken(dir, cmp.Or(o.Resource, base))
	if err != nil {
		return nil, err
	}
	token.wait = cmp.Or(o.LockWait, DefaultLockWait)
	return &File{token: token, path: target, resource: cmp.Or(o.Resource, path)}, nil
}

// Raise implements fence.Resource: earlier runs are refused from now on, also after a power cut. Temporary files that were
// left by processes that are gone are removed.
func (f *File) Raise(ctx context.Context, r fence.Run) (*Writer, error) {
	if err := f.token.Raise(ctx, f.resource, r.Token); err != nil {
		return nil, err
	}
	return &Writer{file: f, token: r.Token}, nil
}

// look returns the regular file at a path, nil for nothing.
func look(path string) (fs.FileInfo, error) {
	info, err := os.Lstat(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil, nil
	case err != nil:
		return nil, unusable(err)
	case !info.Mode().IsRegular():
		return nil, remedy.Misconfigured("name a file", "%s is %s, and no regular file", path, kindOf(info.Mode()))
	}
	return info, nil
}

func kindOf(mode fs.FileMode) string {
	switch mode.Type() {
	case fs.ModeDir:
		return "a directory"
	case fs.ModeSymlink:
		return "a symbolic link"
	case fs.ModeNamedPipe:
		return "a FIFO"
	case fs.ModeSocket:
		return "a socket"
	}
	return "a device"
}

// Writer is a run that has raised the fence. It may be used by several goroutines at once; the content that is complete last
// is the one that stays.
type Writer struct {
	file  *File
	token int64
}

// Replace replaces the file with what write writes. An error of write is returned as it is, and the file is left as it was;
// so it is after a *fence.StaleError, a *fence.SetupError, and whatever happens before all is written; after ErrUnsynced it was
// replaced. A context that ends once the file has its name is too late. Of what is written after write has returned nothing
// counts.
func (w *Writer) Replace(ctx context.Context, write func(io.Writer) error) error {
	t := w.file.token
	tmp, old, err := w.begin(ctx)
	if err != nil {
		return err
	}
	defer tmp.drop()
	content := &content{file: tmp.file, step: t.step}
	err = write(content)
	if failed := content.close(); err == nil {
		err = failed
	}
	if err != nil {
		return err
	}
	if err := t.sync(tmp.file); err != nil {
		return unusable(err)
	}
	return t.locked(ctx, func() error { return w.commit(ctx, tmp, old) })
}

// begin makes the temporary file. What would not let it take the place of the old one is found before any content is made.
func (w *Writer) begin(ctx context.Context) (tmp *temporary, old fs.FileInfo, err error) {
	f, t := w.file, w.file.token
	err = t.locked(ctx, func() error {
		if _, err := t.admit(f.resource, w.token); err != nil {
			return err
		}
		if old, err = look(f.path); err != nil {
			return err
		}
		mode := fs.FileMode(openMode)
		if old != nil {
			mode = 0o600 // until it has the owner
		}
		tmp, err = t.newTemporary(mode)
		return err
	})
	if err != nil {
		return nil, nil, err
	}
	if err := dress(tmp.file, old); err != nil {
		tmp.drop()
		return nil, nil, err
	}
	return tmp, old, nil
}

// commit puts the temporary file into its place if the run has not been overtaken. Call with the lock held.
func (w *Writer) commit(ctx context.Context, tmp *temporary, old fs.FileInfo) error {
	f, t := w.file, w.file.token
	if _, err := t.admit(f.resource, w.token); err != nil {
		return err
	}
	now, err := look(f.path)
	if err != nil {
		return err
	}
	if now != nil && (old == nil || !dressedAlike(old, now)) { // somebody has changed it meanwhile
		if err := dress(tmp.file, now); err != nil {
			return err
		}
		if err := t.sync(tmp.file); err != nil {
			return unusable(err)
		}
	}
	if err := ctx.Err(); err != nil {
		return err
	}
	if err := t.place(tmp, f.path, ErrUnsynced); err != nil {
		return err
	}
	t.step("after the commit")
	return nil
}
