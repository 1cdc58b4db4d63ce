package importer

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"

	"github.com/leaderrun/leaderrun/internal/crontab"
	"github.com/leaderrun/leaderrun/internal/ownership"
)

// maxSize is far more than cron takes.
const maxSize = 16 << 20

// Read reads the crontabs that paths name: files, and directories such as /etc/cron.d, of which files that cron leaves out are named in
// the notes. "-" is stdin. given is the format of all of them; nil: what cron reads each as.
func Read(paths []string, stdin io.Reader, given *crontab.Format) (sources []Source, notes []Note, err error) {
	for _, p := range paths {
		var s Source
		info, err := os.Stat(p)
		switch {
		case p == "-":
			s = Source{Path: "stdin", Format: crontab.User}
			if s.Text, err = readText(stdin); err != nil {
				err = fmt.Errorf("stdin: %w", err)
			}
		case err == nil && info.IsDir():
			var inside []Source
			var skipped []Note
			inside, skipped, err = readDirectory(p)
			sources, notes = append(sources, inside...), append(notes, skipped...)
		case err == nil:
			s, err = readFile(p, guessed(p))
		}
		if err != nil {
			return nil, nil, err
		}
		if s.Path != "" {
			sources = append(sources, s)
		}
	}
	for i := range sources {
		if given != nil {
			sources[i].Format = *given
		}
	}
	return sources, notes, nil
}

// guessed is what cron reads a file as, or would read it as in /etc: a folder cron.d or etc may be a copy of another host's.
func guessed(path string) crontab.Format {
	abs, err := filepath.Abs(path)
	if err == nil && (filepath.Base(filepath.Dir(abs)) == "cron.d" || strings.HasSuffix(abs, "/etc/crontab")) {
		return crontab.System
	}
	return crontab.FormatOf(path)
}

// readDirectory reads one like /etc/cron.d, or the spool of users' crontabs.
func readDirectory(dir string) (sources []Source, notes []Note, err error) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil, nil, err
	}
	format := crontab.System
	if abs, err := filepath.Abs(dir); err == nil && strings.Contains(abs, "/var/spool/cron") {
		format = crontab.User
	}
	for _, e := range entries {
		p := filepath.Join(dir, e.Name())
		why, ignored := crontab.Ignored(e.Name())
		info, err := os.Stat(p)
		switch {
		case strings.HasPrefix(e.Name(), "."): // such as .placeholder
			continue
		case ignored:
		case err != nil:
			why = "it cannot be read: " + err.Error()
		case !info.Mode().IsRegular():
			why = "it is no file, so cron leaves it out"
		}
		if why != "" {
			notes = append(notes, Note{Path: p, Why: why})
			continue
		}
		s, err := readFile(p, format)
		if err != nil {
			return nil, nil, err
		}
		sources = append(sources, s)
	}
	return sources, notes, nil
}

// CheckUsers holds that a crontab which was taken for a user's has no column for users. The error is a *Refusal; where the word may be the
// command as well, there is a note.
func CheckUsers(s Source, host crontab.Host) (notes []Note, err error) {
	path := "" // what PATH is
	for _, l := range crontab.Parse(s.Text, s.Format) {
		if l.Kind == crontab.Setting && l.Name == "PATH" {
			path = l.Value
		}
		if l.Kind != crontab.Job || s.Format != crontab.User {
			continue
		}
		const hint = "--from system reads a system crontab, and --from user takes the word for the command"
		switch why, sure := host.UserColumn(l.Command, path); {
		case sure:
			return nil, &Refusal{fmt.Sprintf("%s:%d", s.Path, l.Number), why, hint}
		case why != "":
			notes = append(notes, Note{Path: fmt.Sprintf("%s:%d", s.Path, l.Number), Why: why, Hint: hint})
		}
	}
	return notes, nil
}

func readFile(path string, f crontab.Format) (Source, error) {
	file, _, err := ownership.OpenRegular(path, os.O_RDONLY, 0)
	if err != nil {
		return Source{}, err
	}
	defer file.Close()
	text, err := readText(file)
	if err != nil {
		return Source{}, fmt.Errorf("%s: %w", path, err)
	}
	return Source{Path: path, Text: text, Format: f}, nil
}

func readText(r io.Reader) ([]byte, error) {
	text, err := io.ReadAll(io.LimitReader(r, maxSize+1))
	switch {
	case err != nil:
		return nil, err
	case len(text) > maxSize:
		return nil, errors.New("it is too large for a crontab")
	}
	if slices.Contains(text, 0) {
		return nil, errors.New("there is a zero byte in it: a crontab is plain text")
	}
	return text, nil
}

// BackupName is how the former file is called that Write keeps, in the same directory. No cron reads a name with a dot before it.
func BackupName(path string, n int) string {
	name := "." + filepath.Base(path) + ".before-import"
	if n > 1 {
		name += fmt.Sprintf("-%d", n)
	}
	return filepath.Join(filepath.Dir(path), name)
}

// Refusal is why Write leaves a file as it is.
type Refusal struct{ Path, Why, Hint string }

func (e *Refusal) Error() string { return e.Path + ": " + e.Why }

// Write puts a crontab that was imported in the place of the one that was read, which it keeps as BackupName, with the same owner, mode
// and access control list. It is there as a whole or not at all. A user's crontab is installed by crontab(1) and kept in the user's
// home. The error is a *Refusal where the file is not to be changed.
func (f *File) Write() (backup string, err error) {
	if wrong := crontab.Refused(f.After, f.Format); wrong != nil {
		if before := crontab.Refused(f.Text, f.Format); before != nil { // its lines are those that are seen now
			wrong = before
		}
		return "", f.refuse("cron would ignore the whole file: "+wrong.Error(), "mend that first; --diff shows the rest")
	}
	if f.Path == UserCrontab {
		return f.install()
	}
	dir, err := filepath.Abs(filepath.Dir(f.Path))
	if err != nil {
		return "", err
	}
	if err := ownership.CheckFolder(dir); err != nil {
		return "", err
	}
	old, info, err := ownership.OpenRegular(f.Path, os.O_RDONLY|syscall.O_NOFOLLOW, 0)
	if errors.Is(err, syscall.ELOOP) {
		return "", f.refuse("it is a symbolic link", "name the file that it points to")
	}
	if err != nil {
		return "", err
	}
	defer old.Close()
	if st, ok := info.Sys().(*syscall.Stat_t); !ok || st.Nlink > 1 {
		return "", f.refuse("it has another name, which would go on as it is", "copy it first: cron of Debian reads no crontab with two names")
	}
	if ownership.OthersWrite(old, info) {
		return "", f.refuse(fmt.Sprintf("others can write it (mode %04o)", info.Mode().Perm()), "chmod go-w "+f.Path+", and setfacl -b where ls -l shows a +")
	}
	backup, next, err := f.prepare(f.Path, old)
	if err != nil {
		return "", err
	}
	if err := os.Rename(next, filepath.Join(dir, filepath.Base(f.Path))); err != nil {
		return "", errors.Join(err, os.Remove(next), os.Remove(backup))
	}
	return backup, ownership.SyncFolder(dir)
}

func (f *File) refuse(why, hint string) error { return &Refusal{f.Path, why, hint} }

// prepare writes what the crontab was and what it becomes into files beside a path. They have the owner, mode and access control list of
// old; nil: they are this user's alone. Where it fails, none of them is left.
func (f *File) prepare(path string, old *os.File) (backup, next string, err error) {
	for n := 1; ; n++ {
		backup = BackupName(path, n)
		err = createFile(backup, f.Text, old)
		if err == nil {
			break
		}
		if !errors.Is(err, fs.ErrExist) {
			return "", "", err
		}
	}
	next = filepath.Join(filepath.Dir(path), "."+filepath.Base(path)+".import")
	if err = os.Remove(next); err == nil || errors.Is(err, fs.ErrNotExist) { // of one that was killed
		err = createFile(next, f.After, old)
	}
	if err == nil && !f.isAsRead() { // a slow disk leaves an editor time
		err = errors.Join(f.refuse("somebody has changed it meanwhile", "try again"), os.Remove(next))
	}
	if err != nil {
		return "", "", errors.Join(err, os.Remove(backup))
	}
	return backup, next, nil
}

// isAsRead says whether the crontab is still what was read.
func (f *File) isAsRead() bool {
	var now Source
	var err error
	if f.Path == UserCrontab {
		now, err = ReadUser()
	} else {
		now, err = readFile(f.Path, f.Format)
	}
	return err == nil && string(now.Text) == string(f.Text)
}

// createFile is where tests let somebody change the crontab meanwhile.
var createFile = ownership.Create
