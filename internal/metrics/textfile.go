package metrics

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
	"time"

	"github.com/leaderrun/leaderrun/internal/filename"
	"github.com/leaderrun/leaderrun/internal/ownership"
)

const (
	lockName     = ".leaderrun.lock"
	lockPatience = 2 * time.Second      // the lock is held for milliseconds
	lockPause    = 5 * time.Millisecond // between two looks at it
	maxEscaped   = 200                  // bytes: with what stands around it, less than the 255 of a file name
	shownPrefix  = 150
	maxOld       = 1 << 20 // bytes; our own files have a few kilobytes
	mode         = 0o644   // the node exporter is another user
)

// Textfile is the metrics of one run of one job, for the textfile collector of a node exporter. Each job has a
// file of its own in the collector's directory, to which the runs of a host add one after the other.
type Textfile struct {
	*Set
	dir, job string
	registry *Registry
	patience time.Duration
}

// NewTextfile returns the metrics of one run of the job. Nothing is touched before Write.
//
// Every series has the label job, also those of histograms: else the files of two jobs would have the same ones,
// and a node exporter takes neither. There is no leaderrun_leading: nobody leads any more when the file is written.
func NewTextfile(dir, job string) *Textfile {
	r := newRegistry()
	set := newSet(r, func(d definition) sampler {
		f := r.register(d.ofJob())
		f.add(0, label(job))
		return func(n float64) { f.observe(n, label(job)) }
	})
	return &Textfile{Set: set, dir: dir, job: job, registry: r, patience: lockPatience}
}

// CheckDirectory says what would keep the file of every job in a directory from being written; nil: nothing that shows now.
func CheckDirectory(dir string) error {
	f, err := openLock(filepath.Join(dir, lockName))
	if err != nil {
		return err
	}
	return f.Close()
}

// Write adds what was counted to the job's file. It is called once, and waits no longer than two seconds for
// other runs that write. The error may be that what earlier runs left could not be read: then the file is written all
// the same, and counts from this run on.
func (t *Textfile) Write() error {
	unlock, err := lockDirectory(t.dir, t.patience)
	if err != nil {
		return err
	}
	defer unlock()

	path := filepath.Join(t.dir, "leaderrun_"+filename.Escape(t.job)+".prom")
	old, unreadable := readOld(path, t.job)
	if unreadable != nil {
		unreadable = fmt.Errorf("%s counts from zero again: what it held is not leaderrun's: %w", path, unreadable)
	}
	text := textOf(carryOver(t.registry.gather(), old))
	// One name is enough: only who has the lock writes it, over what a crash left behind.
	temporary := filepath.Join(t.dir, ".leaderrun_"+filename.Escape(t.job)+".tmp")
	if err := replace(path, temporary, text); err != nil {
		return err
	}
	return unreadable
}

// readOld reads what earlier runs counted. No file: nothing, and no error.
func readOld(path, job string) (map[string]*family, error) {
	f, _, err := ownership.OpenRegular(path, os.O_RDONLY|syscall.O_NOFOLLOW, 0)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return parseOld(io.LimitReader(f, maxOld), job)
}

// replace puts a file in the place of another in one step: a node exporter sees the old or the new one. It is not
// synced: after a crash of the machine, nobody misses the last counts.
func replace(path, temporary string, text []byte) error {
	if err := os.Remove(temporary); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	f, err := os.OpenFile(temporary, os.O_WRONLY|os.O_CREATE|os.O_EXCL, mode) // never through somebody's link
	if err != nil {
		return err
	}
	_, err = f.Write(text)
	if err == nil {
		err = f.Chmod(mode) // whatever the umask
	}
	if closing := f.Close(); err == nil {
		err = closing
	}
	if err == nil {
		err = os.Rename(temporary, path)
	}
	if err != nil {
		_ = os.Remove(temporary) // it is only in the way
	}
	return err
}

// lockDirectory keeps other runs of this host from writing into the directory. Else one of two that read the same old
// counts would be lost.
func lockDirectory(dir string, patience time.Duration) (unlock func(), err error) {
	f, err := openLock(filepath.Join(dir, lockName))
	if err != nil {
		return nil, err
	}
	for end := time.Now().Add(patience); ; time.Sleep(lockPause) {
		err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
		if err == nil {
			return func() { _ = f.Close() }, nil // and with it goes the lock
		}
		busy := err == syscall.EWOULDBLOCK || err == syscall.EINTR
		if !busy || time.Now().After(end) {
			_ = f.Close()
			return nil, &fs.PathError{Op: "lock", Path: f.Name(), Err: err}
		}
	}
}

// openLock opens the lock file, which any user's run may have made: reading is enough to lock. A directory that all
// may write lets nobody create what is there already, not even with a mode that allows it. Nor does one who may write
// there make us wait for a pipe, or create a file where a link of his points to.
func openLock(path string) (*os.File, error) {
	for {
		f, _, err := ownership.OpenRegular(path, os.O_RDONLY|syscall.O_NOFOLLOW, 0)
		if !errors.Is(err, fs.ErrNotExist) {
			return f, err
		}
		f, _, err = ownership.OpenRegular(path, os.O_RDONLY|os.O_CREATE|os.O_EXCL, mode)
		if errors.Is(err, fs.ErrExist) { // another run was quicker
			continue
		}
		if err == nil {
			_ = f.Chmod(mode) // whatever the umask
		}
		return f, err
	}
}
