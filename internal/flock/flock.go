// Package flock is flock(2): locks on files that end with the processes that hold them. A lock belongs to an open file
// description, which processes share by inheriting it; whoever has a descriptor of it can unlock it for all.
package flock

import (
	"context"
	"errors"
	"math/rand/v2"
	"os"
	"syscall"
	"time"
)

// Ask calls flock(2) on a file; how is LOCK_SH, LOCK_EX or LOCK_UN, with LOCK_NB or without.
func Ask(f *os.File, how int) error {
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

// Unlock frees a lock and closes the file. Closing is not enough: another descriptor of it may live in a process that is
// just being started.
func Unlock(f *os.File) {
	_ = Ask(f, syscall.LOCK_UN)
	_ = f.Close()
}

// Open opens the file at a path that is to be locked.
type Open func(path string, flags int) (*os.File, error)

// Try opens and locks the file at a path, and returns nil if somebody else has the lock.
func Try(path string, how, flags int, open Open) (*os.File, error) {
	for {
		f, held, err := lock(path, how|syscall.LOCK_NB, flags, open)
		switch {
		case held:
			return nil, nil
		case f != nil || err != nil:
			return f, err
		}
	}
}

// Await is Try that blocks until the lock is free, and returns nil if the file was replaced meanwhile. It cannot be cancelled.
func Await(path string, how, flags int, open Open) (*os.File, error) {
	f, _, err := lock(path, how, flags, open)
	return f, err
}

// lock returns neither file nor error if the file was replaced while it was opened and locked. held says that the error is that somebody
// else has the lock.
func lock(path string, how, flags int, open Open) (locked *os.File, held bool, err error) {
	f, err := open(path, flags)
	if err != nil {
		return nil, false, err
	}
	if err = Ask(f, how); err != nil {
		_ = f.Close()
		return nil, errors.Is(err, syscall.EWOULDBLOCK), os.NewSyscallError("flock", err)
	}
	there, err := IsAt(f, path)
	if !there || err != nil {
		Unlock(f)
		return nil, false, err
	}
	return f, false, nil
}

// Poll calls try until it returns a file or an error, or the context ends. It is for locks that are held for moments.
func Poll(ctx context.Context, try func() (*os.File, error)) (*os.File, error) {
	const shortest, longest = 100 * time.Microsecond, 5 * time.Millisecond
	for pause := shortest; ; pause = min(2*pause, longest) {
		f, err := try()
		if f != nil || err != nil {
			return f, err
		}
		select {
		case <-ctx.Done():
			return nil, ctx.Err()
		case <-time.After(pause/2 + rand.N(pause)): //nolint:gosec // jitter
		}
	}
}

// IsAt says whether a file is still the one at the path. One that was closed is not.
func IsAt(f *os.File, path string) (bool, error) {
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
