package importer

import (
	"errors"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"

	"github.com/leaderrun/leaderrun/internal/crontab"
)

// unitDirectories are where systemd looks for units of the system, the first one first (systemd.unit(5), "Unit File Load Path"). They
// are read only.
var unitDirectories = []string{
	"/etc/systemd/system.control", "/run/systemd/system.control", "/run/systemd/transient", "/run/systemd/generator.early",
	"/etc/systemd/system", "/etc/systemd/system.attached", "/run/systemd/system", "/run/systemd/system.attached", "/run/systemd/generator",
	"/usr/local/lib/systemd/system", "/usr/lib/systemd/system", "/lib/systemd/system", "/run/systemd/generator.late",
}

// unitPath is a list of directories of units, the first one first.
type unitPath []string

// findUnits reads a timer and its service.
func (p unitPath) findUnits(name string) ([]*unit, error) {
	if strings.HasSuffix(name, ".service") {
		u, err := p.of(name).find(filepath.Base(name))
		return []*unit{u}, err
	}
	if filepath.Ext(name) != ".timer" {
		name += ".timer"
	}
	timer, err := p.of(name).find(filepath.Base(name))
	switch isMissing := errors.Is(err, fs.ErrNotExist); {
	case isMissing && strings.Contains(name, "/"):
		return nil, &os.PathError{Op: "open", Path: name, Err: syscall.ENOENT}
	case isMissing:
		hint := "a unit file is named by a path with a /"
		if _, lacks := os.Lstat(name); lacks == nil {
			hint = "./" + name + " is the file in this directory"
		}
		return nil, &Refusal{name, "no installed unit has this name", hint}
	case err != nil:
		return nil, err
	}
	service, err := p.of(name).find(timer.service())
	if errors.Is(err, fs.ErrNotExist) {
		service, err = p.find(timer.service())
	}
	if errors.Is(err, fs.ErrNotExist) {
		return []*unit{timer}, nil // it is told of the timer
	}
	return []*unit{timer, service}, err
}

// of returns where a unit is looked for that somebody has named. A name without a / is an installed unit, because what lies in the
// working directory may be anybody's, and so is a file in a directory of systemd: other directories may override it.
func (p unitPath) of(name string) unitPath {
	if dir := filepath.Dir(name); strings.Contains(name, "/") && !slices.Contains(p, dir) {
		return unitPath{dir}
	}
	return p
}

// find reads a unit as systemd does: the first file of its name, or of its template's, and its drop-ins.
func (p unitPath) find(name string) (*unit, error) {
	names := []string{name}
	if template, ok := templateOf(name); ok {
		names = append(names, template)
	}
	for _, file := range names {
		for _, dir := range p {
			path := filepath.Join(dir, file)
			if _, err := os.Lstat(path); errors.Is(err, fs.ErrNotExist) {
				continue
			}
			text, empty, err := readUnit(path)
			if err != nil {
				return nil, err
			}
			u := &unit{name: name, path: path, masked: empty, settings: parseUnit(text)}
			aliases := []string{name}
			if actual := p.realName(path); file == name && filepath.Ext(actual) == filepath.Ext(name) && actual != name {
				u.name, aliases = actual, []string{actual, name}
			}
			if u.masked {
				return u, nil
			}
			return u, p.extend(u, aliases)
		}
	}
	return nil, &os.PathError{Op: "open", Path: name, Err: fs.ErrNotExist}
}

// extend adds the drop-ins of a unit with these names. Of those with the same file name the first one counts, and what is left is
// applied in the order of file names, whatever directory each is in.
func (p unitPath) extend(u *unit, names []string) error {
	first := map[string]string{} // path of each file name
	for _, folder := range p.dropIns(names) {
		paths, _ := filepath.Glob(filepath.Join(folder, "*.conf"))
		for _, path := range paths {
			if file := filepath.Base(path); first[file] == "" && file[0] != '.' {
				first[file] = path
			}
		}
	}
	for _, file := range slices.Sorted(maps.Keys(first)) {
		text, _, err := readUnit(first[file])
		if err != nil {
			return err
		}
		u.settings = append(u.settings, parseUnit(text)...)
	}
	return nil
}

// dropIns returns the directories of drop-ins, the first one first: by the directory of units, then by how special they are. Those of
// all units of a type come last.
func (p unitPath) dropIns(names []string) (folders []string) {
	for _, name := range names {
		for _, dir := range p {
			for _, n := range dropInNames(name) {
				folders = append(folders, filepath.Join(dir, n+".d"))
			}
		}
	}
	for _, dir := range p {
		folders = append(folders, filepath.Join(dir, strings.TrimPrefix(filepath.Ext(names[0]), ".")+".d"))
	}
	return folders
}

// dropInNames returns the names under which a unit has drop-ins, the most special one first: its own, its template's, and those that
// are cut after a dash, as foo-.timer of foo-bar.timer.
func dropInNames(name string) []string {
	names := []string{name}
	if template, ok := templateOf(name); ok {
		names = append(names, dropInNames(template)...)
	}
	end := strings.IndexByte(name, '@')
	if end < 0 {
		end = strings.LastIndexByte(name, '.')
	}
	if dash := strings.LastIndexByte(strings.TrimSuffix(name[:end], "-"), '-'); dash >= 0 {
		rest := name[end:]
		if strings.HasPrefix(rest, "@.") { // of foo-bar@.timer it is foo-.timer
			rest = rest[1:]
		}
		names = append(names, dropInNames(name[:dash+1]+rest)...)
	}
	return names
}

// templateOf returns the template that a unit is an instance of, as foo@.timer of foo@bar.timer.
func templateOf(name string) (string, bool) {
	at, dot := strings.IndexByte(name, '@'), strings.LastIndexByte(name, '.')
	if at < 0 || dot <= at+1 {
		return "", false
	}
	return name[:at+1] + name[dot:], true
}

// readUnit reads a file of a unit. An empty one, and a link to /dev/null, takes away what it has the name of.
func readUnit(path string) (text string, empty bool, err error) {
	if target, err := filepath.EvalSymlinks(path); err == nil && target == os.DevNull {
		return "", true, nil
	}
	s, err := readFile(path, crontab.User)
	return string(s.Text), err == nil && len(s.Text) == 0, err
}

// realName returns the name of a unit whose file may be a link to that of another one: then it is an alias. A link to somewhere else is
// only where the file is.
func (p unitPath) realName(path string) string {
	if target, err := filepath.EvalSymlinks(path); err == nil && slices.Contains(p, filepath.Dir(target)) {
		return filepath.Base(target)
	}
	return filepath.Base(path)
}
