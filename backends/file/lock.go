package file

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"os"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/leaderrun/leaderrun/backends"
	"github.com/leaderrun/leaderrun/internal/flock"
)

// lease is a lock that this process has been granted.
type lease struct {
	paths
	label backends.Label

	mu    sync.Mutex // held over a renewal, so that the end of the run does not come in between
	locks *locks
	over  bool
	probe bool        // see store.probes
	until time.Time   // without a renewal, see lapse
	timer *time.Timer // for that

	unwanted atomic.Bool // its run is over, or never begins
}

// isIn says whether it is a record's, or that of one which was lost. Locks alone do not make a lease: an operator who
// raises the token takes it away.
func (l *lease) isIn(r backends.Record) bool {
	return r.Token < l.label.Token || labelOf(r) == l.label && !r.Free()
}

// locks are the lock of a run, on two open file descriptions, as whoever has a description can unlock it for all who
// share it. The run's whole tree inherits that of one file, so that it stays locked as long as any of them lives. The
// other one only wrapper and guardian share: a command that has given up its rights cannot take it from them, nor
// write into its file.
type locks struct{ lease, tree *os.File }

// unlock frees the locks for all who share them. The lease comes last: who gets it finds the tree's free too.
func (l *locks) unlock() {
	flock.Unlock(l.tree)
	flock.Unlock(l.lease)
}

// areAt says whether the files are still those at their paths.
func (l *locks) areAt(p paths) (bool, error) {
	if there, err := flock.IsAt(l.lease, p.lock); !there || err != nil {
		return false, err
	}
	return flock.IsAt(l.tree, p.tree)
}

// both takes the two locks of a run by take, which returns nil if it does not get one.
func (p paths) both(take func(path string, how, flags int) (*os.File, error)) (*locks, error) {
	lease, err := take(p.lock, syscall.LOCK_EX, os.O_RDWR|os.O_CREATE)
	if lease == nil || err != nil {
		return nil, err
	}
	tree, err := take(p.tree, syscall.LOCK_EX, os.O_RDONLY|os.O_CREATE) // the tree shall not write it
	if tree == nil || err != nil {
		flock.Unlock(lease)
		return nil, err
	}
	return &locks{lease, tree}, nil
}

// alive says whether the locks are still there and still those that others ask for. The guardian unlocks the
// shared description once it has killed the tree of a wrapper that was stopped; an operator may remove
// a file. To ask for the lock on our own description would take it again, so nothing is asked. Call with mu held.
func (l *lease) alive() (bool, error) {
	if l.over {
		return false, nil
	}
	if there, err := l.locks.areAt(l.paths); !there || err != nil {
		return false, err
	}
	if l.probe {
		return !l.isFree(l.lock), nil
	}
	locked, err := flock.Shown(l.locks.lease)
	return locked, err
}

// end unlocks the descriptions for all who share them, and closes ours. Call with mu held.
func (l *lease) end() {
	if l.over {
		return
	}
	l.over = true
	l.timer.Stop()
	l.locks.unlock()
}

// tryLock returns the locked file, or nil if somebody else has the lock.
func (t trust) tryLock(path string, how, flags int) (*os.File, error) {
	return flock.Try(path, how, flags, t.open)
}

// awaitLock is tryLock that blocks until the lock is free, and returns nil if the file was replaced meanwhile.
func (t trust) awaitLock(path string, how, flags int) (*os.File, error) {
	return flock.Await(path, how, flags, t.open)
}

// waitLock is tryLock until the lock is free or the context ends.
func (t trust) waitLock(ctx context.Context, path string, flags int) (*os.File, error) {
	return flock.Poll(ctx, func() (*os.File, error) { return t.tryLock(path, syscall.LOCK_EX, os.O_RDWR|flags) })
}

// isFree says whether nobody has the lock. Others must not be trying it meanwhile.
func (t trust) isFree(path string) bool {
	f, err := t.tryLock(path, syscall.LOCK_SH, os.O_RDWR)
	if f == nil {
		return errors.Is(err, os.ErrNotExist)
	}
	flock.Unlock(f)
	return true
}

// readOwner returns what a lock file says: whom the lock was granted to last; the zero label if it says nothing that makes
// sense. An error says that it could not be read, or that its token cannot be counted up.
func readOwner(f *os.File) (backends.Label, error) {
	text := make([]byte, 4096)
	n, err := f.ReadAt(text, 0)
	if err != nil && !errors.Is(err, io.EOF) {
		return backends.Label{}, err
	}
	var o backends.Label
	if json.Unmarshal(bytes.TrimRight(text[:n], "\x00"), &o) != nil {
		o = backends.Label{}
	}
	if o.Token < 0 || o.Token > backends.MaxToken {
		return backends.Label{}, backends.Misconfigured("remove it when no process of the job runs",
			"the lock %s is damaged: its token cannot be %d", f.Name(), o.Token)
	}
	return o, nil
}

// readOwnerAt is readOwner of the file at a path.
func (t trust) readOwnerAt(path string) backends.Label {
	f, err := t.open(path, os.O_RDONLY)
	if err != nil {
		return backends.Label{}
	}
	defer f.Close()
	o, _ := readOwner(f)
	return o
}

// writeOwner writes into a lock file whom the lock is granted to.
func writeOwner(f *os.File, o backends.Label) error {
	text := append(backends.Marshal(o), '\n')
	if _, err := f.WriteAt(text, 0); err != nil {
		return err
	}
	return f.Truncate(int64(len(text)))
}
