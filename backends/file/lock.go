package file

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"io/fs"
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
	probe bool        // the system does not show whether it is locked, see isHidden
	until time.Time   // without a renewal, see lapse
	timer *time.Timer // for that

	unwanted atomic.Bool // its run is over, or never begins: it may lapse
}

// isIn says whether a record names this lease as the present one, or is older because the one with the lease was lost. Locks alone do
// not make a lease: an operator takes it away by raising the record's token.
func (l *lease) isIn(r backends.Record) bool {
	return r.Token < l.label.Token || labelOf(r) == l.label && !r.Free()
}

// locks are the two locks of a run. Each belongs to an open file description, and whoever has that can unlock it for all who share it.
// The whole tree inherits the one of tree, so it stays locked as long as any process lives. Only wrapper and guardian share the one of
// lease: a command that has given up its rights cannot unlock it, nor write into its file.
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
// a file. It does not call flock(2) on our own description, which would lock it again. Call with mu held.
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

// isHidden says whether this system does not show that an open file description is locked, although it is. If it cannot be asked for
// another reason, alive will ask it.
func isHidden(locked *os.File) bool {
	shown, err := flock.Shown(locked)
	return !shown && (err == nil || errors.Is(err, fs.ErrNotExist) || errors.Is(err, fs.ErrPermission))
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
		return full(err)
	}
	return f.Truncate(int64(len(text)))
}
