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

	"github.com/leaderrun/leaderrun/internal/flock"
)

// locked does something while nobody else does, on this host. The lock is given back whatever becomes of this process.
func (t *Token) locked(ctx context.Context, do func() error) error {
	lock, err := t.waitLock(ctx)
	if err != nil {
		return err
	}
	defer flock.Unlock(lock)
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
	err = flock.Ask(f, syscall.LOCK_EX|syscall.LOCK_NB)
	if errors.Is(err, syscall.EWOULDBLOCK) {
		_ = f.Close()
		return nil, nil
	}
	if err != nil {
		_ = f.Close()
		return nil, unusable(&fs.PathError{Op: "flock", Path: t.lock, Err: err})
	}
	there, err := flock.IsAt(f, t.lock)
	if there {
		return f, nil
	}
	flock.Unlock(f)
	return nil, unusable(err)
}
