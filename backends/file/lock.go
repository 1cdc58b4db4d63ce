package file

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"math/rand/v2"
	"os"
	"sync"
	"syscall"
	"time"
)

// lease is a lock that this process has been granted. The open file description is shared with the guardian
// and with the run's whole tree, so that it stays locked as long as any of them lives.
type lease struct {
	path   string
	holder string
	token  int64

	mu    sync.Mutex // held over a renewal, so that the end of the run does not come in between
	file  *os.File
	over  bool
	probe bool // see Driver.probes
}

// alive says whether the lock is still there and still the one that others ask for. The guardian unlocks the
// shared description once it has killed the tree of a wrapper that was stopped; an operator may remove the
// file. To ask for the lock on our own description would take it again, so nothing is asked. Call with mu held.
func (l *lease) alive() (bool, error) {
	if l.over {
		return false, nil
	}
	if there, err := isAt(l.file, l.path); !there || err != nil {
		return false, err
	}
	if l.probe {
		return !isFree(l.path), nil
	}
	locked, err := showsLock(l.file)
	return locked, err
}

// end unlocks the description for all who share it, and closes ours. Call with mu held.
func (l *lease) end() {
	if l.over {
		return
	}
	l.over = true
	unlock(l.file)
}

// openLock opens a file to be locked. It is not followed through a symbolic link.
func openLock(path string, flags int) (*os.File, error) {
	return os.OpenFile(path, os.O_RDWR|syscall.O_NOFOLLOW|flags, fileMode)
}

// flock calls flock(2) on a file.
func flock(f *os.File, how int) error {
	conn, err := f.SyscallConn()
	if err != nil {
		return err
	}
	var locked error
	err = conn.Control(func(fd uintptr) {
		for {
			if locked = syscall.Flock(int(fd), how); !errors.Is(locked, syscall.EINTR) {
				return
			}
		}
	})
	if err != nil {
		return err
	}
	return locked
}

// unlock frees a lock and closes the file. Closing is not enough: another description of it may live in a
// process that is just being started.
func unlock(f *os.File) {
	_ = flock(f, syscall.LOCK_UN)
	_ = f.Close()
}

// tryLock returns the locked file, or nil if somebody else has the lock.
func tryLock(path string, how, flags int) (*os.File, error) {
	for {
		f, err := openLock(path, flags)
		if err != nil {
			return nil, err
		}
		err = flock(f, how|syscall.LOCK_NB)
		if errors.Is(err, syscall.EWOULDBLOCK) {
			_ = f.Close()
			return nil, nil
		}
		if err != nil {
			_ = f.Close()
			return nil, os.NewSyscallError("flock", err)
		}
		there, err := isAt(f, path)
		if there {
			return f, nil
		}
		unlock(f)
		if err != nil {
			return nil, err
		}
		// It was replaced while we opened it.
	}
}

// waitLock is tryLock until the lock is free or the context ends. It is for locks that are held for moments:
// a blocking flock cannot be cancelled.
func waitLock(ctx context.Context, path string, flags int) (*os.File, error) {
	const shortest, longest = 100 * time.Microsecond, 5 * time.Millisecond
	for pause := shortest; ; pause = min(2*pause, longest) {
		f, err := tryLock(path, syscall.LOCK_EX, flags)
		if f != nil || err != nil {
			return f, err
		}
		select {
		case <-ctx.Done():
			return nil, ctx.Err()
		case <-time.After(pause/2 + rand.N(pause)):
		}
	}
}

// isAt says whether the file is still the one at the path.
func isAt(f *os.File, path string) (bool, error) {
	have, err := f.Stat()
	if errors.Is(err, os.ErrClosed) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	there, err := os.Lstat(path)
	if errors.Is(err, os.ErrNotExist) {
		return false, nil
	}
	return err == nil && os.SameFile(have, there), err
}

// isFree says whether nobody has the lock. Others must not be trying it meanwhile.
func isFree(path string) bool {
	f, err := tryLock(path, syscall.LOCK_SH, 0)
	if f == nil {
		return errors.Is(err, os.ErrNotExist)
	}
	unlock(f)
	return true
}

// owner is what a lock file holds: whom the lock was granted to last.
type owner struct {
	Holder string `json:"holder"`
	Token  int64  `json:"token"`
}

// readOwner returns what a lock file says; the zero owner if it says nothing that makes sense. An error says
// that it could not be read.
func readOwner(f *os.File) (owner, error) {
	text := make([]byte, 4096)
	n, err := f.ReadAt(text, 0)
	if err != nil && !errors.Is(err, io.EOF) {
		return owner{}, err
	}
	var o owner
	if json.Unmarshal(bytes.TrimRight(text[:n], "\x00"), &o) != nil {
		o = owner{}
	}
	return o, nil
}

// readOwnerAt is readOwner of the file at a path.
func readOwnerAt(path string) owner {
	f, err := os.Open(path)
	if err != nil {
		return owner{}
	}
	defer f.Close()
	o, _ := readOwner(f)
	return o
}

func (o owner) write(f *os.File) error {
	text, err := json.Marshal(o)
	if err != nil {
		return err
	}
	if _, err := f.WriteAt(append(text, '\n'), 0); err != nil {
		return err
	}
	return f.Truncate(int64(len(text)) + 1)
}
