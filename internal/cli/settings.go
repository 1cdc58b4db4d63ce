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

// The places, the weakest first.
const (
	ByDefault origin = iota
	FromFile
	fromEnvironment
	FromCommandLine
)

// Given is a value and the place that it comes from.
type Given struct {
	Text   string
	Origin origin
	Place  string // for people: --ttl, LEADERRUN_TTL, /etc/leaderrun.yaml:3: ttl
	like   string // the remedy for a bad value; may be empty

	again   func() (Given, error) // reads the file that it is in once more; nil: it is in none
	exposed string                // the file that it is in, where that holds a password and all can read it
}

// ErrEmpty is what a script gives that did not fill in a variable.
var ErrEmpty = errors.New("it is empty")

// Word is one flag while the command line is parsed. It takes every text: what is wrong with a value is
// said in one way for flags, environment and file.
type Word struct {
	Option
	Text string
	set  bool
}

// Set implements flag.Value.
func (w *Word) Set(text string) error {
	if w.Many && w.set {
		text = w.Text + "\n" + text
	}
	w.Text, w.set = text, true
	return nil
}

// String is for the help pages of package flag, which nobody sees.
func (w *Word) String() string { return "" }

// IsBoolFlag tells package flag that a switch takes no value.
func (w *Word) IsBoolFlag() bool { return w.Value == "" }

// Settings are the values of one command's options: flag over environment over file.
type Settings struct {
	words  map[string]*Word
	Lookup func(string) (string, bool) // the environment
	File   map[string]Given            // by key
	Err    error                       // the first bad value
	Few    bool                        // there are fewer arguments than the command needs
}

// NewSettings makes settings of which nothing was given yet. lookup reads the environment.
func NewSettings(lookup func(string) (string, bool)) *Settings {
	return &Settings{words: map[string]*Word{}, Lookup: lookup}
}

// Word returns the one word that all flags of an option's name share.
func (s *Settings) Word(o Option) *Word {
	if s.words[o.Name] == nil {
		s.words[o.Name] = &Word{Option: o}
	}
	return s.words[o.Name]
}

// Find returns the value of an option that has the most to say.
func (s *Settings) Find(name string) (Given, bool) {
	w := s.words[name]
	if w == nil {
		return Given{}, false
	}
	if w.set {
		return Given{Text: w.Text, Origin: FromCommandLine, Place: w.Flag(), like: s.like(w.Option, w.Text)}, true
	}
	if w.Bare {
		return Given{}, false
	}
	// An empty variable is one that a script did not fill in. For the backend that must not go unseen: it
	// would silently be another one than on the other hosts.
	if text, ok := s.Lookup(w.Variable()); ok && (text != "" || name == "backend") {
		return Given{Text: text, Origin: fromEnvironment, Place: w.Variable()}, true
	}
	if v, ok := s.File[w.Key()]; ok {
		return v, true
	}
	return Given{}, false
}

// like is the remedy for a bad value on the command line. Where an argument is missing, it may be what the option took
// for its value.
func (s *Settings) like(o Option, text string) string {
	hint := ""
	switch {
	case o.Example != "":
		hint = strings.Join(append([]string{"write it like " + o.Flag() + " " + o.Example}, o.Words...), ", or ")
	case len(o.Words) > 0:
		hint = cmp.Or(DidYouMean(text, o.Words, ""), "write it like "+o.Flag()+" "+o.Words[0])
	}
	if s.Few && hint != "" {
		hint = "is its value missing? " + hint
	}
	return hint
}

// Read returns the value of an option, or def. The first bad value is kept in s.err. Nobody means an empty value on
// the command line.
func Read[T any](s *Settings, name string, parse func(string) (T, error), def T) T {
	g, ok := s.Find(name)
	if !ok {
		return def
	}
	v, err := parse(g.Text)
	if err == nil && g.Text == "" && g.Origin == FromCommandLine {
		err = ErrEmpty
	}
	if err != nil {
		s.fail(BadValue(g, err))
		return def
	}
	return v
}

// On says whether a switch is on.
func (s *Settings) On(name string) bool { return Read(s, name, parseSwitch, false) }

// Typed says whether an option stands on the command line.
func (s *Settings) Typed(name string) bool {
	w := s.words[name]
	return w != nil && w.set
}

func (s *Settings) fail(err error) {
	if s.Err == nil {
		s.Err = err
	}
}

// BadValue is the fault of whoever wrote the value: of the caller on the command line, else of the
// configuration.
func BadValue(g Given, err error) *Fault {
	f := &Fault{Code: g.Origin.Code(), What: g.Place, Err: err}
	switch g.Origin {
	case FromCommandLine:
		f.Hint = g.like
	case fromEnvironment:
		f.Hint = "correct or unset the variable " + g.Place
	case FromFile:
		f.Hint = correctLine
	case ByDefault:
	}
	f.Why, f.Hint = Explain(err, f.Hint)
	if g.Place == "--schedule" && !strings.HasPrefix(g.Text, "@") && len(strings.Fields(g.Text)) == 1 {
		f.Hint = "write it in quotes: --schedule '0 2 * * *'"
	}
	return f
}

const correctLine = "correct that line"

// Explain says what is wrong with a value. A remedy that comes with the error is better than a general one.
func Explain(err error, remedy string) (why, hint string) {
	why, hint = schedule.Explain(err)
	return why, cmp.Or(hint, remedy)
}

// Asked says whether a switch is on, for those that are looked at before anything can be reported.
func (s *Settings) Asked(name string) bool {
	w := s.words[name]
	if w == nil || !w.set {
		return false
	}
	on, err := parseSwitch(w.Text)
	return err == nil && on
}

// DidYouMean is the hint for a mistyped word.
func DidYouMean(typed string, candidates []string, show string) string {
	if c := spelling.Closest(typed, candidates); c != "" {
		return fmt.Sprintf("did you mean %s%s?", show, c)
	}
	return ""
}
