package metrics

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/leaderrun/leaderrun/internal/filename"
	"github.com/leaderrun/leaderrun/internal/flock"
	"github.com/leaderrun/leaderrun/internal/ownership"
)

const (
	lockName     = ".leaderrun.lock"
	lockPatience = 2 * time.Second // the lock is held for milliseconds
	maxOld       = 1 << 20         // bytes; our own files have a few kilobytes
	mode         = 0o644           // the node exporter is another user
)

// Textfile is the metrics of one run of one job, for the textfile collector of a node exporter. Each job has a
// file of its own in the collector's directory, to which the runs of a host add one after the other.
type Textfile struct {
	*Set
	dir, job string
	patience time.Duration
}

// NewTextfile returns the metrics of one run of the job. Nothing is touched before Write.
//
// Every series has the label job, also those of histograms: else the files of two jobs would have the same ones,
// and a node exporter takes neither. There is no leaderrun_leading: nobody leads any more when the file is written.
func NewTextfile(dir, job string) *Textfile {
	return &Textfile{Set: newSet(perJob), dir: dir, job: job, patience: lockPatience}
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
	lock, err := lockDirectory(t.dir, t.patience)
	if err != nil {
		return err
	}
	defer flock.Unlock(lock)

	path := filepath.Join(t.dir, "leaderrun_"+filename.Escape(t.job)+".prom")
	old, unreadable := t.readOld(path)
	if unreadable != nil {
		unreadable = fmt.Errorf("%s counts from zero again: what it held is not leaderrun's: %w", path, unreadable)
	}
	text, err := t.textAfter(old)
	if err != nil {
		return err
	}
	// One name is enough: only who has the lock writes it, over what a crash left behind.
	temporary := filepath.Join(t.dir, ".leaderrun_"+filename.Escape(t.job)+".tmp")
	return cmp.Or(replace(path, temporary, text), unreadable)
}

// readOld reads what earlier runs counted. No file: nothing, and no error.
func (t *Textfile) readOld(path string) ([]*family, error) {
	f, _, err := ownership.OpenRegular(path, os.O_RDONLY|syscall.O_NOFOLLOW, 0)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	defer f.Close()
	text, err := io.ReadAll(io.LimitReader(f, maxOld))
	if err != nil {
		return nil, err
	}
	return t.parseOld(text)
}

// parseOld parses the file of a job. It fails where that is not one that leaderrun wrote for this job: adding to numbers
// that mean something else would make lies. So what was read must be, written again, what stands there. The metrics of another
// version are passed over.
func (t *Textfile) parseOld(text []byte) ([]*family, error) {
	families, err := familiesOf(text)
	if err != nil {
		return nil, err
	}
	for _, old := range families {
		switch ours := t.named(old.name); {
		case ours == nil && !strings.HasPrefix(old.name, "leaderrun_"):
			return nil, fmt.Errorf("it has the metric %s", old.name)
		case ours != nil && !ours.goesOn(old, label(t.job)):
			return nil, fmt.Errorf("its %s is not what leaderrun counts of this job", old.name)
		}
	}
	if again, err := textOf(families); err != nil || !bytes.Equal(again, text) || len(text) == 0 {
		return nil, errors.New("it is not in the form that leaderrun writes")
	}
	return families, nil
}

// textAfter writes what was counted, by earlier runs too.
func (t *Textfile) textAfter(old []*family) ([]byte, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, before := range old {
		if f := t.named(before.name); f != nil {
			f.carry(before)
		}
	}
	return textOf(t.families[:leading])
}

// named returns a metric of the file; nil: it has none of that name.
func (t *Textfile) named(name string) *family {
	i := slices.IndexFunc(t.families[:leading], func(f *family) bool { return f.name == name })
	if i < 0 {
		return nil
	}
	return t.families[i]
}

// replace puts a file in the place of another in one step: a node exporter sees the old or the new one. It is not
// synced: after a crash of the machine, nobody misses the last counts.
func replace(path, temporary string, text []byte) error {
	_ = os.Remove(temporary)                                                  // what a crash left behind
	f, err := os.OpenFile(temporary, os.O_WRONLY|os.O_CREATE|os.O_EXCL, mode) // never through somebody's link
	if err != nil {
		return err
	}
	defer func() { _ = os.Remove(temporary) }() // where it is still there, it is only in the way
	_, err = f.Write(text)
	if err := cmp.Or(err, f.Chmod(mode), f.Close()); err != nil { // the mode whatever the umask
		return err
	}
	return os.Rename(temporary, path)
}

// lockDirectory keeps other runs of this host from writing into the directory. Else one of two that read the same old
// counts would be lost.
func lockDirectory(dir string, patience time.Duration) (*os.File, error) {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	path := filepath.Join(dir, lockName)
	open := func(path string, _ int) (*os.File, error) { return openLock(path) }
	f, err := flock.Poll(ctx, func() (*os.File, error) { return flock.Try(path, syscall.LOCK_EX, 0, open) })
	if err != nil && ctx.Err() != nil {
		return nil, &fs.PathError{Op: "lock", Path: path, Err: syscall.EWOULDBLOCK}
	}
	return f, err
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
