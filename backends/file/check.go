package file

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/leaderrun/leaderrun/backends"
	"github.com/leaderrun/leaderrun/internal/checkup"
	"github.com/leaderrun/leaderrun/internal/filesystem"
	"github.com/leaderrun/leaderrun/internal/flock"
	"github.com/leaderrun/leaderrun/internal/ownership"
)

const anotherFolder = "name another directory with --backend file:///path/to/dir"

// Check implements backends.Store.
func (s *store) Check(ctx context.Context, _ time.Duration) []backends.Finding {
	f, err := inTime(ctx, new(sync.WaitGroup), func(context.Context) (checkup.Findings, error) {
		var f checkup.Findings
		if s.tryDirectory(&f) {
			s.tryVolume(&f)
			s.tryOwners(&f)
			s.tryRecords(&f)
		}
		f.Fine(checkup.Clock, "records are in the time of this host, on which alone they count")
		return f, nil
	})
	if err != nil {
		f = nil
		f.Bad(checkup.Reachable, "look at the disk", "%s does not answer: %v", s.dir, err)
	}
	return f
}

// tryDirectory makes, locks and removes a file as a run does.
func (s *store) tryDirectory(f *checkup.Findings) bool {
	began := time.Now()
	err := s.tryFile()
	if err != nil {
		f.Failed(checkup.Reachable, anotherFolder, permanent(err))
		return false
	}
	f.Fine(checkup.Reachable, "%s can be written and locked, in %v", s.dir, time.Since(began).Round(10*time.Microsecond))
	err = ourselves.folder(s.dir)
	switch {
	case err == nil:
		f.Fine(checkup.Rights, "nobody but this user and root can change what is in %s", s.dir)
	case s.trusts == everybody && ownership.Remedy(err) != "":
		f.Warn(checkup.Rights, ownership.Remedy(err), "%v: others may start, stop and skip all jobs of this backend, as ?%s says", err, trustShared)
	default:
		f.Failed(checkup.Rights, anotherFolder, err)
	}
	return true
}

func (s *store) tryFile() error {
	file, err := os.CreateTemp(s.dir, ".doctor-*.tmp")
	if err != nil {
		return err
	}
	defer func() { _ = os.Remove(file.Name()) }()
	_, err = file.WriteString("leaderrun doctor\n")
	if err == nil {
		err = file.Sync()
	}
	if err == nil {
		err = os.NewSyscallError("flock", flock.Ask(file, syscall.LOCK_EX|syscall.LOCK_NB))
	}
	return errors.Join(err, file.Close())
}

// tryVolume looks at the file system: the kind that Open refuses may have been mounted since.
func (s *store) tryVolume(f *checkup.Findings) {
	const what = "file system"
	if name, err := filesystem.Network(s.dir); err != nil || name != "" {
		f.Bad(what, anotherFolder, "%s is on a network file system (%s), where locks can be lost unnoticed", s.dir, name)
		return
	}
	v, err := filesystem.Of(s.dir)
	if err != nil {
		f.Failed(what, anotherFolder, err)
		return
	}
	judge(v, f, s.dir)
}

// judge says whether records last in a volume, and fit.
func judge(v filesystem.Volume, f *checkup.Findings, dir string) {
	const (
		kind, space = "file system", "space"
		low         = 10 << 20 // a job takes some kB; what else fills the disk is quicker than people
		few         = 100
		more        = "remove what is not needed: without a place for the record of a tick no run starts"
	)
	switch {
	case !v.Known:
		f.Fine(kind, "no network file system, as far as this system tells")
		return
	case v.Ends != "":
		f.Warn(kind, anotherFolder+", on a disk", "%s forgets its files %s: ticks and keys that were run would run again", dir, v.Ends)
	default:
		f.Fine(kind, "a local one that keeps its files")
	}
	switch {
	case v.Free == 0 || v.Files > 0 && v.Left == 0:
		f.Bad(space, more, "the disk of %s is full", dir)
	case v.Free < low || v.Files > 0 && v.Left < few:
		f.Warn(space, more, "%s has room for %s more", dir, room(v))
	default:
		f.Fine(space, "room for %s more", room(v))
	}
}

func room(v filesystem.Volume) string {
	text := fmt.Sprintf("%d MB", v.Free>>20)
	if v.Files > 0 {
		text += fmt.Sprintf(" and %d files", v.Left)
	}
	return text
}

// tryOwners looks for jobs of other users, who cannot lock our files, nor we theirs.
func (s *store) tryOwners(f *checkup.Findings) {
	const what = "users"
	entries, err := os.ReadDir(s.dir)
	if err != nil {
		f.Failed(what, anotherFolder, permanent(err))
		return
	}
	var others []string
	for _, entry := range entries {
		info, err := entry.Info()
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			f.Failed(what, anotherFolder, permanent(err))
			return
		}
		if st, ok := info.Sys().(*syscall.Stat_t); ok && int(st.Uid) != os.Geteuid() {
			others = append(others, ownership.UserName(st.Uid))
		}
	}
	slices.Sort(others)
	others = slices.Compact(others)
	if len(others) > 0 {
		f.Warn(what, "run jobs that must exclude each other as one user", "%s also has files of %s: who does not own a job's files cannot run it",
			s.dir, strings.Join(others, ", "))
		return
	}
	f.Fine(what, "all files are this user's, as jobs must be that exclude each other")
}

// tryRecords reads all records: a damaged one stops its job.
func (s *store) tryRecords(f *checkup.Findings) {
	const what = "records"
	files, err := fs.Glob(os.DirFS(s.dir), "*"+recordSuffix)
	if err != nil {
		f.Failed(what, anotherFolder, err)
		return
	}
	unread := 0
	for _, file := range files {
		if _, err := s.jobOf(file); err != nil {
			f.Failed(what, anotherFolder, err)
			unread++
		}
	}
	if unread == 0 {
		f.Fine(what, "%d, all of which can be read", len(files))
	}
}
