package cli

import (
	"cmp"
	"errors"
	"fmt"
	"strings"

	"github.com/leaderrun/leaderrun/internal/spelling"
	"github.com/leaderrun/leaderrun/schedule"
)

// origin says where a value comes from, which decides whose fault a bad one is.
type origin int

const (
	byDefault origin = iota
	fromFile
	fromEnvironment
	fromCommandLine
)

// given is a value and the place that it comes from.
type given struct {
	text   string
	origin origin
	place  string // for people: --ttl, LEADERRUN_TTL, /etc/leaderrun.yaml:3: ttl
	like   string // the remedy for a bad value; may be empty

	again   func() (given, error) // reads the file that it is in once more; nil: it is in none
	exposed string                // the file that it is in, where that holds a password and all can read it
}

// errEmpty is what a script gives that did not fill in a variable.
var errEmpty = errors.New("it is empty")

// word is one flag while the command line is parsed. It takes every text: what is wrong with a value is
// said in one way for flags, environment and file.
type word struct {
	option
	text string
	set  bool
}

func (w *word) Set(text string) error {
	if w.many && w.set {
		text = w.text + "\n" + text
	}
	w.text, w.set = text, true
	return nil
}

// String is for the help pages of package flag, which nobody sees.
func (w *word) String() string { return "" }

// IsBoolFlag tells package flag that a switch takes no value.
func (w *word) IsBoolFlag() bool { return w.value == "" }

// settings are the values of one command's options: flag over environment over file.
type settings struct {
	words  map[string]*word
	lookup func(string) (string, bool) // the environment
	file   map[string]given            // by key
	err    error                       // the first bad value
	few    bool                        // there are fewer arguments than the command needs
}

func newSettings(lookup func(string) (string, bool)) *settings {
	return &settings{words: map[string]*word{}, lookup: lookup}
}

// word returns the one word that all flags of an option's name share.
func (s *settings) word(o option) *word {
	if s.words[o.name] == nil {
		s.words[o.name] = &word{option: o}
	}
	return s.words[o.name]
}

// find returns the value of an option that has the most to say.
func (s *settings) find(name string) (given, bool) {
	w := s.words[name]
	if w == nil {
		return given{}, false
	}
	if w.set {
		return given{text: w.text, origin: fromCommandLine, place: w.flag(), like: s.like(w.option, w.text)}, true
	}
	if w.bare {
		return given{}, false
	}
	// An empty variable is one that a script did not fill in. For the backend that must not go unseen: it
	// would silently be another one than on the other hosts.
	if text, ok := s.lookup(w.variable()); ok && (text != "" || name == "backend") {
		return given{text: text, origin: fromEnvironment, place: w.variable()}, true
	}
	if v, ok := s.file[w.key()]; ok {
		return v, true
	}
	return given{}, false
}

// like is the remedy for a bad value on the command line. Where an argument is missing, it may be what the option took
// for its value.
func (s *settings) like(o option, text string) string {
	hint := ""
	switch {
	case o.example != "":
		hint = strings.Join(append([]string{"write it like " + o.flag() + " " + o.example}, o.words...), ", or ")
	case len(o.words) > 0:
		hint = cmp.Or(didYouMean(text, o.words, ""), "write it like "+o.flag()+" "+o.words[0])
	}
	if s.few && hint != "" {
		hint = "is its value missing? " + hint
	}
	return hint
}

// read returns the value of an option, or def. The first bad value is kept in s.err. Nobody means an empty value on
// the command line.
func read[T any](s *settings, name string, parse func(string) (T, error), def T) T {
	g, ok := s.find(name)
	if !ok {
		return def
	}
	v, err := parse(g.text)
	if err == nil && g.text == "" && g.origin == fromCommandLine {
		err = errEmpty
	}
	if err != nil {
		s.fail(badValue(g, err))
		return def
	}
	return v
}

func (s *settings) on(name string) bool { return read(s, name, parseSwitch, false) }

// typed says whether an option stands on the command line.
func (s *settings) typed(name string) bool {
	w := s.words[name]
	return w != nil && w.set
}

func (s *settings) fail(err error) {
	if s.err == nil {
		s.err = err
	}
}

// badValue is the fault of whoever wrote the value: of the caller on the command line, else of the
// configuration.
func badValue(g given, err error) *fault {
	f := &fault{code: g.origin.code(), what: g.place, err: err}
	switch g.origin {
	case fromCommandLine:
		f.hint = g.like
	case fromEnvironment:
		f.hint = "correct or unset the variable " + g.place
	case fromFile:
		f.hint = correctLine
	case byDefault:
	}
	f.why, f.hint = explain(err, f.hint)
	if g.place == "--schedule" && !strings.HasPrefix(g.text, "@") && len(strings.Fields(g.text)) == 1 {
		f.hint = "write it in quotes: --schedule '0 2 * * *'"
	}
	return f
}

const correctLine = "correct that line"

// explain says what is wrong with a value. A remedy that comes with the error is better than a general one.
func explain(err error, remedy string) (why, hint string) {
	why, hint = schedule.Explain(err)
	return why, cmp.Or(hint, remedy)
}

// asked says whether a switch is on, for those that are looked at before anything can be reported.
func (s *settings) asked(name string) bool {
	w := s.words[name]
	if w == nil || !w.set {
		return false
	}
	on, err := parseSwitch(w.text)
	return err == nil && on
}

// didYouMean is the hint for a mistyped word.
func didYouMean(typed string, candidates []string, show string) string {
	if c := spelling.Closest(typed, candidates); c != "" {
		return fmt.Sprintf("did you mean %s%s?", show, c)
	}
	return ""
}
