package jobfile

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"

	lines "github.com/leaderrun/leaderrun/internal/crontab"
	"github.com/leaderrun/leaderrun/internal/ownership"
)

// How says how files are read.
type How struct {
	System      bool // they are system crontabs: a user stands before each command
	Supercronic bool // they are crontabs of that program
	SkipBad     bool // what is wrong is a warning, and what is not wrong is run
}

// Load reads job files, and those of directories, in the order of their names. Each must be a regular file that only root and this
// user can change: see package ownership. Files of a directory, those of system crontabs and all that root runs must also lie in
// folders of which that is true. The error is an *Error if the files were read.
func Load(paths []string, defaults Defaults, how How) (*File, error) {
	sources, problems, warnings, err := find(paths)
	if err != nil {
		return nil, err
	}
	all := &File{Warnings: warnings}
	names, host := map[string]string{}, lines.ThisHost()
	for _, s := range sources {
		r := newReader(s.path, defaults)
		r.names, r.how, r.several = names, how, (len(paths) > 1 || s.listed) && !ownership.HandedOver(s.path) // one that was read to its end is empty when it is read again
		text, err := s.read(how)
		switch {
		case err != nil && !s.listed && !how.SkipBad:
			return nil, err
		case err != nil:
			r.problem(0, "", reasonOf(err, s.path), ownership.Remedy(err))
		default:
			r.readText(text, host)
		}
		if len(r.problems) > 0 && isYAML(s.path) {
			r.jobs = nil // a key counts for the whole file
		}
		all.Jobs = append(all.Jobs, r.jobs...)
		problems = append(problems, inOrder(r.problems)...)
		all.Warnings = append(all.Warnings, inOrder(r.warnings)...)
	}
	if len(problems) > 0 && !how.SkipBad {
		return nil, &Error{Problems: problems}
	}
	if len(all.Jobs) == 0 {
		none := Problem{Place: strings.Join(paths, ", "), Why: "there is no job in it", Hint: "is it the right file or directory?"}
		return nil, &Error{Problems: append(problems, none)}
	}
	for i := range problems {
		problems[i].Why += ": not run"
	}
	all.Warnings = append(problems, all.Warnings...)
	return all, nil
}

// source is a file to be read.
type source struct {
	path   string
	listed bool // it was found in a directory, and not named
}

// find lists the files. Problems are about what lies in directories and may not, warnings about what is passed over.
func find(paths []string) (found []source, problems, warnings []Problem, err error) {
	for _, path := range paths {
		info, err := os.Stat(path)
		if err != nil {
			return nil, nil, nil, bare(err)
		}
		if !info.IsDir() {
			found = append(found, source{path: path})
			continue
		}
		if err := checkFolder(path); err != nil {
			return nil, nil, nil, err
		}
		entries, err := os.ReadDir(path)
		if err != nil {
			return nil, nil, nil, bare(err)
		}
		for _, e := range entries {
			file := filepath.Join(path, e.Name())
			switch {
			case isLeftover(e):
			case !hasJobs(e.Name()):
				warnings = append(warnings, Problem{
					Place: file, Why: "it is not read: its name has other characters than letters, digits, - and _",
					Hint: "the name of a crontab may end in .crontab, that of a job file ends in .yaml",
				})
			case !e.Type().IsRegular():
				problems = append(problems, Problem{
					Place: file, Why: "it is not a regular file", Hint: "put the file itself there: what a link or a pipe leads to may be another user's",
				})
			default:
				found = append(found, source{path: file, listed: true})
			}
		}
	}
	return found, problems, warnings, nil
}

// isLeftover says whether an entry of a directory is passed over without a word, as by cron: a directory, what begins with a dot, and what
// an editor or a package manager leaves behind.
func isLeftover(e fs.DirEntry) bool {
	name := e.Name()
	return e.IsDir() || strings.HasPrefix(name, ".") || strings.HasSuffix(name, "~") || strings.Contains(name, ".dpkg-") || strings.Contains(name, ".rpm")
}

// hasJobs says whether a file of a directory is read, by its name.
func hasJobs(name string) bool {
	_, ignored := lines.Ignored(strings.TrimSuffix(name, ".crontab"))
	return !ignored || isYAML(name)
}

// bare leaves out which system call it was.
func bare(err error) error {
	if p, ok := errors.AsType[*fs.PathError](err); ok {
		return &fs.PathError{Op: "open", Path: p.Path, Err: p.Err}
	}
	return err
}

// read reads the file. One of a directory is not followed through a link that has taken its place.
func (s source) read(how How) ([]byte, error) {
	flags := os.O_RDONLY
	var err error
	switch {
	case ownership.HandedOver(s.path):
	case s.listed:
		flags |= syscall.O_NOFOLLOW
		err = checkFolder(filepath.Dir(s.path))
	case how.System || os.Geteuid() == 0: // root's own file in another's folder may be another one of root's
		err = bare(checkFolder(s.path)) // it may be a link into another folder
	}
	if err != nil {
		return nil, err
	}
	f, _, err := ownership.Open(s.path, flags, 0)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	text, err := io.ReadAll(io.LimitReader(f, maxSize+1))
	if err == nil && len(text) > maxSize {
		err = &fs.PathError{Op: "read", Path: s.path, Err: fmt.Errorf("larger than %d MB", maxSize>>20)}
	}
	return text, err
}

// checkFolder holds that nobody else can put another folder, or a file, where this one is, or where links on the way lead.
func checkFolder(path string) error {
	whole, err := filepath.Abs(path)
	if err != nil {
		return err
	}
	err = ownership.CheckFolder(whole)
	if o, ok := errors.AsType[*ownership.Error](err); ok && o.Path == whole { // as it was named
		return &ownership.Error{Path: path, Why: o.Why, Remedy: strings.TrimSuffix(o.Remedy, whole) + path}
	}
	return err
}

// reasonOf is an error without the path that stands before it.
func reasonOf(err error, path string) string {
	if p, ok := errors.AsType[*fs.PathError](err); ok && p.Path == path {
		return p.Err.Error()
	}
	if o, ok := errors.AsType[*ownership.Error](err); ok && o.Path == path {
		return o.Why
	}
	return err.Error()
}
