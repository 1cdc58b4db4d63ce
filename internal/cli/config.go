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

// The files of the configuration.
const (
	SystemConfig = "/etc/leaderrun.yaml"
	userConfig   = "leaderrun.yaml" // in the user's configuration directory
	maxConfig    = 1 << 20
	notYAML      = "the file is YAML: one `key: value` a line, with quotes around a value that begins with * or @ or ends with :"
)

// loadFiles reads the configuration: the named file, which must exist, or else the system's and the user's,
// of which the user's counts for the keys that both have.
func (s *Settings) loadFiles(known func() []Option) error {
	s.File = map[string]Given{}
	if named, ok := s.Find("config"); ok {
		if named.Text == "" {
			return BadValue(named, ErrEmpty)
		}
		return s.load(named.Text, known, &named)
	}
	if err := s.load(SystemConfig, known, nil); err != nil {
		return err
	}
	path, home := UserConfigPath(s.Lookup)
	if path == "" {
		return nil
	}
	err := s.load(path, known, nil)
	if errors.Is(err, fs.ErrPermission) && !isOurs(home) { // as sudo leaves HOME: it was never this user's file
		return nil
	}
	return err
}

// UserConfigPath returns the user's file, which is read where none is named and counts before the system's, and the
// directory that says whose it is. "": there is none.
func UserConfigPath(lookup func(string) (string, bool)) (path, home string) {
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
func (s *Settings) load(path string, known func() []Option, named *Given) error {
	text, info, err := ReadSmall(path)
	switch {
	case err == nil:
	case named == nil && absent(err):
		return nil
	case named != nil && absent(err):
		f := BadValue(*named, fmt.Errorf("%s does not exist", path))
		f.Code = CodeConfiguration
		if named.Origin == FromCommandLine {
			f.Hint = "without --config, " + SystemConfig + " and the user's " + userConfig + " are read where they exist"
		}
		return f
	default:
		return &Fault{
			Code: CodeConfiguration, What: path, Why: Reason(err), Err: err,
			Hint: cmp.Or(ownership.Remedy(err), "make the file readable for this user, or name another one by --config"),
		}
	}
	values, err := ParseConfig(path, text, known())
	if err != nil {
		return err
	}
	if backend, ok := values["backend"]; ok {
		backend.markExposed(path, info)
		backend.again = func() (Given, error) {
			text, _, err := ReadSmall(path)
			if err != nil {
				return Given{}, err
			}
			values, err := ParseConfig(path, text, known())
			return values["backend"], err
		}
		values["backend"] = backend
	}
	maps.Copy(s.File, values)
	return nil
}

func absent(err error) bool {
	return errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ENOTDIR)
}

// Reason is what the system said, without the path, which the reader has already.
func Reason(err error) string {
	if o, ok := errors.AsType[*ownership.Error](err); ok {
		return o.Why
	}
	if p, ok := errors.AsType[*fs.PathError](err); ok {
		return p.Err.Error()
	}
	return err.Error()
}

// FileFault is the fault of a file that cannot be used. what says which one, where the error does not.
func FileFault(err error, what string) *Fault {
	if p, ok := errors.AsType[*fs.PathError](err); ok {
		what = p.Path
	} else if o, ok := errors.AsType[*ownership.Error](err); ok {
		what = o.Path
	}
	return &Fault{Code: CodeConfiguration, What: what, Why: Reason(err), Hint: ownership.Remedy(err), Err: err}
}

// ReadSmall reads a regular file of a sane size that only root and this user can change: no pipe that blocks, no device
// that never ends, nobody else's word.
func ReadSmall(path string) ([]byte, fs.FileInfo, error) { return ownership.Read(path, maxConfig) }

// markExposed notes that all can read a password which this user could hide from them.
func (g *Given) markExposed(path string, info fs.FileInfo) {
	if ownership.OthersRead(info) && HoldsPassword(g.Text) {
		g.exposed = path
	}
}

// ParseConfig reads the keys of a file. Every value is checked, also of options that the command at hand
// does not have: a mistake is found on the day that it is made.
func ParseConfig(path string, text []byte, known []Option) (map[string]Given, error) {
	var doc yaml.Node
	decoder := yaml.NewDecoder(bytes.NewReader(text))
	if err := decoder.Decode(&doc); err != nil && !errors.Is(err, io.EOF) {
		return nil, &Fault{Code: CodeConfiguration, What: path, Why: err.Error(), Err: err, Hint: notYAML}
	}
	var second yaml.Node
	if err := decoder.Decode(&second); !errors.Is(err, io.EOF) {
		return nil, &Fault{Code: CodeConfiguration, What: path, Why: "there is a second document in it", Hint: "remove the line `---` and what follows"}
	}
	values := map[string]Given{}
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
		values[key.Value] = Given{Text: text, Origin: FromFile, Place: fmt.Sprintf("%s:%d: %s", path, value.Line, key.Value)}
	}
	return values, nil
}

// configText returns the value of a key. Several values, which some options take, are lines of one text.
func configText(path, key string, value *yaml.Node, o Option) (string, error) {
	items := []*yaml.Node{value}
	if o.Many && value.Kind == yaml.SequenceNode && len(value.Content) > 0 {
		items = value.Content
	}
	var texts []string
	for _, item := range items {
		if item.Kind != yaml.ScalarNode || item.Tag == "!!null" {
			return "", configFault(path, item, key, "not a single value", "write it like "+example(o))
		}
		if err := o.validate(item.Value); err != nil {
			why, hint := Explain(err, correctLine)
			return "", configFault(path, item, key, why, hint)
		}
		texts = append(texts, item.Value)
	}
	return strings.Join(texts, "\n"), nil
}

func configOption(path string, key *yaml.Node, known []Option) (Option, error) {
	var keys []string
	for _, o := range known {
		same := key.Kind == yaml.ScalarNode && key.Value == o.Key()
		switch {
		case o.Bare && (same || key.Value == o.Name):
			return Option{}, configFault(path, key, key.Value, "can only be given on the command line", "remove that line: "+o.Flag()+" is for one call")
		case o.Bare, o.unset:
			continue
		case same:
			return o, nil
		}
		keys = append(keys, o.Key())
	}
	hint := DidYouMean(key.Value, keys, "")
	switch {
	case key.Value == "backend_file":
		hint = "it is a variable only, above the lines of a crontab: " + BackendFile + "=FILE"
	case hint == "":
		hint = "`leaderrun help run` lists the options; --kill-after is the key kill_after"
	}
	return Option{}, configFault(path, key, key.Value, "unknown key", hint)
}

func configFault(path string, at *yaml.Node, key, why, hint string) *Fault {
	what := fmt.Sprintf("%s:%d", path, at.Line)
	if key != "" {
		what += ": " + key
	}
	return &Fault{Code: CodeConfiguration, What: what, Why: why, Hint: hint}
}

// example is a line that is right for an option.
func example(o Option) string {
	switch {
	case o.Example != "":
		return o.Key() + ": " + o.Example
	case o.Value == "":
		return o.Key() + ": true"
	case len(o.Words) > 0:
		return o.Key() + ": " + o.Words[0]
	}
	return o.Key() + ": " + o.Value
}
