package cli

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"syscall"

	"go.yaml.in/yaml/v3"

	"github.com/leaderrun/leaderrun/internal/ownership"
)

const (
	systemConfig = "/etc/leaderrun.yaml"
	userConfig   = "leaderrun.yaml" // in the user's configuration directory
	maxConfig    = 1 << 20
	notYAML      = "the file is YAML: one `key: value` a line, with quotes around a value that begins with * or @ or ends with :"
)

// loadFiles reads the configuration: the named file, which must exist, or else the system's and the user's,
// of which the user's counts for the keys that both have.
func (s *settings) loadFiles(known func() []option) error {
	s.file = map[string]given{}
	if named, ok := s.find("config"); ok {
		if named.text == "" {
			return badValue(named, errEmpty)
		}
		return s.load(named.text, known, &named)
	}
	if err := s.load(systemConfig, known, nil); err != nil {
		return err
	}
	path, home := userConfigPath(s.lookup)
	if path == "" {
		return nil
	}
	err := s.load(path, known, nil)
	if errors.Is(err, fs.ErrPermission) && !isOurs(home) { // as sudo leaves HOME: it was never this user's file
		return nil
	}
	return err
}

// userConfigPath returns the user's file, which is read where none is named and counts before the system's, and the
// directory that says whose it is. "": there is none.
func userConfigPath(lookup func(string) (string, bool)) (path, home string) {
	if dir, _ := lookup("XDG_CONFIG_HOME"); filepath.IsAbs(dir) { // the specification says to ignore a relative one
		return filepath.Join(dir, userConfig), dir
	}
	home, _ = lookup("HOME")
	if !filepath.IsAbs(home) {
		return "", ""
	}
	return filepath.Join(home, ".config", userConfig), home
}

// isOurs says whether a directory belongs to this user. One that cannot be looked at does not.
func isOurs(dir string) bool {
	info, err := os.Stat(dir)
	if err != nil {
		return false
	}
	st, ok := info.Sys().(*syscall.Stat_t)
	return ok && int(st.Uid) == os.Geteuid()
}

// load reads one file. A file that exists and cannot be read is a fault: it may name the backend, and
// without that this host would not exclude the others.
func (s *settings) load(path string, known func() []option, named *given) error {
	text, info, err := readSmall(path)
	switch {
	case err == nil:
	case named == nil && absent(err):
		return nil
	case named != nil && absent(err):
		f := badValue(*named, fmt.Errorf("%s does not exist", path))
		f.code = codeConfiguration
		if named.origin == fromCommandLine {
			f.hint = "without --config, " + systemConfig + " and the user's " + userConfig + " are read where they exist"
		}
		return f
	default:
		return &fault{
			code: codeConfiguration, what: path, why: reason(err), err: err,
			hint: cmp.Or(ownership.Remedy(err), "make the file readable for this user, or name another one by --config"),
		}
	}
	values, err := parseConfig(path, text, known())
	if err != nil {
		return err
	}
	if backend, ok := values["backend"]; ok {
		backend.markExposed(path, info)
		backend.again = func() (given, error) {
			text, _, err := readSmall(path)
			if err != nil {
				return given{}, err
			}
			values, err := parseConfig(path, text, known())
			return values["backend"], err
		}
		values["backend"] = backend
	}
	maps.Copy(s.file, values)
	return nil
}

func absent(err error) bool {
	return errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ENOTDIR)
}

// reason is what the system said, without the path, which the reader has already.
func reason(err error) string {
	if o, ok := errors.AsType[*ownership.Error](err); ok {
		return o.Why
	}
	if p, ok := errors.AsType[*fs.PathError](err); ok {
		return p.Err.Error()
	}
	return err.Error()
}

// fileFault is the fault of a file that cannot be used. what says which one, where the error does not.
func fileFault(err error, what string) *fault {
	if p, ok := errors.AsType[*fs.PathError](err); ok {
		what = p.Path
	} else if o, ok := errors.AsType[*ownership.Error](err); ok {
		what = o.Path
	}
	return &fault{code: codeConfiguration, what: what, why: reason(err), hint: ownership.Remedy(err), err: err}
}

// readSmall reads a regular file of a sane size that only root and this user can change: no pipe that blocks, no device
// that never ends, nobody else's word.
func readSmall(path string) ([]byte, fs.FileInfo, error) { return ownership.Read(path, maxConfig) }

// markExposed notes that all can read a password which this user could hide from them.
func (g *given) markExposed(path string, info fs.FileInfo) {
	if ownership.OthersRead(info) && holdsPassword(g.text) {
		g.exposed = path
	}
}

// parseConfig reads the keys of a file. Every value is checked, also of options that the command at hand
// does not have: a mistake is found on the day that it is made.
func parseConfig(path string, text []byte, known []option) (map[string]given, error) {
	var doc yaml.Node
	decoder := yaml.NewDecoder(bytes.NewReader(text))
	if err := decoder.Decode(&doc); err != nil && !errors.Is(err, io.EOF) {
		return nil, &fault{code: codeConfiguration, what: path, why: err.Error(), err: err, hint: notYAML}
	}
	var second yaml.Node
	if err := decoder.Decode(&second); !errors.Is(err, io.EOF) {
		return nil, &fault{code: codeConfiguration, what: path, why: "there is a second document in it", hint: "remove the line `---` and what follows"}
	}
	values := map[string]given{}
	if len(doc.Content) == 0 { // nothing but comments
		return values, nil
	}
	root := doc.Content[0]
	if root.Kind == yaml.ScalarNode && root.Tag == "!!null" {
		return values, nil
	}
	if root.Kind != yaml.MappingNode {
		return nil, configFault(path, root, "", "not a list of keys and values", notYAML)
	}
	for i := 0; i+1 < len(root.Content); i += 2 {
		key, value := root.Content[i], root.Content[i+1]
		o, err := configOption(path, key, known)
		if err != nil {
			return nil, err
		}
		if _, twice := values[key.Value]; twice {
			return nil, configFault(path, key, key.Value, "given twice", "keep one of them")
		}
		text, err := configText(path, key.Value, value, o)
		if err != nil {
			return nil, err
		}
		values[key.Value] = given{text: text, origin: fromFile, place: fmt.Sprintf("%s:%d: %s", path, value.Line, key.Value)}
	}
	return values, nil
}

// configText returns the value of a key. Several values, which some options take, are lines of one text.
func configText(path, key string, value *yaml.Node, o option) (string, error) {
	items := []*yaml.Node{value}
	if o.many && value.Kind == yaml.SequenceNode && len(value.Content) > 0 {
		items = value.Content
	}
	var texts []string
	for _, item := range items {
		if item.Kind != yaml.ScalarNode || item.Tag == "!!null" {
			return "", configFault(path, item, key, "not a single value", "write it like "+example(o))
		}
		if err := o.validate(item.Value); err != nil {
			why, hint := explain(err, correctLine)
			return "", configFault(path, item, key, why, hint)
		}
		texts = append(texts, item.Value)
	}
	return strings.Join(texts, "\n"), nil
}

func configOption(path string, key *yaml.Node, known []option) (option, error) {
	var keys []string
	for _, o := range known {
		same := key.Kind == yaml.ScalarNode && key.Value == o.key()
		switch {
		case o.bare && (same || key.Value == o.name):
			return option{}, configFault(path, key, key.Value, "can only be given on the command line", "remove that line: "+o.flag()+" is for one call")
		case o.bare, o.unset:
			continue
		case same:
			return o, nil
		}
		keys = append(keys, o.key())
	}
	hint := didYouMean(key.Value, keys, "")
	if hint == "" {
		hint = "`leaderrun help run` lists the options; --kill-after is the key kill_after"
	}
	return option{}, configFault(path, key, key.Value, "unknown key", hint)
}

func configFault(path string, at *yaml.Node, key, why, hint string) *fault {
	what := fmt.Sprintf("%s:%d", path, at.Line)
	if key != "" {
		what += ": " + key
	}
	return &fault{code: codeConfiguration, what: what, why: why, hint: hint}
}

// example is a line that is right for an option.
func example(o option) string {
	switch {
	case o.example != "":
		return o.key() + ": " + o.example
	case o.value == "":
		return o.key() + ": true"
	case len(o.words) > 0:
		return o.key() + ": " + o.words[0]
	}
	return o.key() + ": " + o.value
}
