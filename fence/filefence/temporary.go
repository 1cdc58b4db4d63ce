package filefence

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"

	"github.com/leaderrun/leaderrun/internal/flock"
)

// temporary is a file that is not yet in its place. Its lock says that somebody lives who will see to it.
type temporary struct {
	file    *os.File
	path    string
	inPlace bool
}

// newTemporary makes one. Call with the fence's lock held: until it is locked itself, it looks like one that was left.
func (t *Token) newTemporary(mode os.FileMode) (*temporary, error) {
	path := t.paths.newTemporary()
	file, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL|syscall.O_NOFOLLOW, mode)
	if err != nil {
		return nil, unusable(err)
	}
	tmp := &temporary{file: file, path: path}
	if err := flock.Ask(file, syscall.LOCK_EX|syscall.LOCK_NB); err != nil {
		tmp.drop()
		return nil, unusable(&os.PathError{Op: "flock", Path: path, Err: err})
	}
	return tmp, nil
}

// drop closes the file, and removes it unless it is in its place.
func (tmp *temporary) drop() {
	if !tmp.inPlace {
		_ = os.Remove(tmp.path)
	}
	flock.Unlock(tmp.file)
}

// place gives the file the name that it was made for, and returns when that is on the disk. unsure is the error where it may
// not be.
func (t *Token) place(tmp *temporary, path string, unsure error) error {
	dir, err := openDirectory(t.dir) // before anything has changed: that it may not be read would be found too late
	if err != nil {
		return unusable(err)
	}
	defer dir.Close()
	t.step("before the rename")
	err = t.rename(tmp.path, path)
	switch {
	case errors.Is(err, fs.ErrNotExist): // somebody has taken it away
		return err
	case err != nil:
		return unusable(err)
	}
	tmp.inPlace = true
	t.step("after the rename")
	return t.syncDir(dir, unsure)
}

// sweep removes temporary files that were left by processes that are gone. Call with the lock held. One that cannot be
// removed is in nobody's way.
func (t *Token) sweep() {
	dir, err := openDirectory(t.dir)
	if err != nil {
		return
	}
	defer dir.Close()
	names, err := dir.Readdirnames(-1)
	if err != nil {
		return
	}
	for _, name := range names {
		if t.isTemporary(name) {
			removeLeft(filepath.Join(t.dir, name))
		}
	}
}

func removeLeft(path string) {
	f, err := openRegular(path, os.O_RDONLY)
	if err != nil {
		return
	}
	defer flock.Unlock(f)
	if flock.Ask(f, syscall.LOCK_EX|syscall.LOCK_NB) == nil {
		_ = os.Remove(path)
	}
}
