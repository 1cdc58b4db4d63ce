package filefence

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"syscall"
	"time"
)

// locked does something while nobody else does, on this host. The lock is given back whatever becomes of this process.
func (t *Token) locked(ctx context.Context, do func() error) error {
	lock, err := t.waitLock(ctx)
	if err != nil {
		return err
	}
	defer unlock(lock)
	t.step("under the lock")
	return do()
}

// waitLock waits until the lock is free, for as long as the context and t.wait allow. It asks again and again: a blocking
// flock cannot be cancelled.
func (t *Token) waitLock(ctx context.Context) (*os.File, error) {
	const shortest, longest = 100 * time.Microsecond, 5 * time.Millisecond
	wait := max(t.wait, 0)
	over := time.NewTimer(wait)
	defer over.Stop()
	for pause := shortest; ; pause = min(2*pause, longest) {
		f, err := t.tryLock()
		if f != nil || err != nil {
			return f, err
		}
		select {
		case <-ctx.Done():
			return nil, fmt.Errorf("waiting for the lock %s: %w", t.lock, ctx.Err())
		case <-over.C:
			return nil, fmt.Errorf("the lock %s has been held by another process for %v: is it stopped?", t.lock, wait)
		case <-time.After(pause/2 + rand.N(pause)):
		}
	}
}

// tryLock returns the locked file, or nil if somebody else has the lock, or has removed or replaced its file just now.
func (t *Token) tryLock() (*os.File, error) {
	f, err := openRegular(t.lock, os.O_RDWR|os.O_CREATE)
	if err != nil {
		return nil, unusable(err)
	}
	t.step("before the lock is asked for")
	err = flock(f, syscall.LOCK_EX|syscall.LOCK_NB)
	if errors.Is(err, syscall.EWOULDBLOCK) {
		_ = f.Close()
		return nil, nil
	}
	if err != nil {
		_ = f.Close()
		return nil, unusable(&fs.PathError{Op: "flock", Path: t.lock, Err: err})
	}
	there, err := isAt(f, t.lock)
	if there {
		return f, nil
	}
	unlock(f)
	return nil, unusable(err)
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
	return errors.Join(err, locked)
}

// unlock frees a lock and closes the file. Closing is not enough: another descriptor of it may live in a process that is
// just being started.
func unlock(f *os.File) {
	_ = flock(f, syscall.LOCK_UN)
	_ = f.Close()
}

// isAt says whether the file is still the one at the path.
func isAt(f *os.File, path string) (bool, error) {
	have, err := f.Stat()
	if err != nil {
		return false, err
	}
	there, err := os.Lstat(path)
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	return err == nil && os.SameFile(have, there), err
}
