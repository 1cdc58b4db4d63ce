package cli

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/leaderrun/leaderrun/internal/value"
)

// Option is one flag of a command, its variable and its key in the configuration file. It is declared once;
// parsing, help, completion and the checks of files and environment are made from it.
type Option struct {
	Name  string             // --name
	Short string             // -n; may be empty
	Value string             // what the help calls the value; "": the flag is a switch
	Def   string             // the default, for the help
	Help  string             // one or more lines
	Check func(string) error // nil: any text
	Words []string           // the values that a shell may complete
	Group string             // the heading of the help that it stands under; "": Options
	Bare  bool               // has neither variable nor key: it is for one call
	unset bool               // has a variable and no key
	Many  bool               // may be given several times; the values are lines of one text

	Example string // a value, as it stands in a configuration file and on the command line; may be empty
}

// Prefix is what the names of all variables of leaderrun begin with.
const Prefix = "LEADERRUN_"

// Variable is the option's name in the environment, key the one in a configuration file.
func (o Option) Variable() string { return Prefix + strings.ToUpper(o.Key()) }

// Key is the name of the option in a configuration file.
func (o Option) Key() string { return strings.ReplaceAll(o.Name, "-", "_") }

// Flag is how people write the option.
func (o Option) Flag() string { return "--" + o.Name }

// validate says what is wrong with a value, if anything is.
func (o Option) validate(text string) error {
	switch {
	case o.Value == "":
		_, err := parseSwitch(text)
		return err
	case o.Check != nil:
		return o.Check(text)
	}
	return nil
}

// By makes the check of an option from the function that reads its value.
func By[T any](parse func(string) (T, error)) func(string) error {
	return func(text string) error {
		_, err := parse(text)
		return err
	}
}

// Lines takes the values of an option apart that may be given several times.
func Lines(text string) []string {
	var all []string
	for line := range strings.Lines(text) {
		if line = strings.TrimSpace(line); line != "" {
			all = append(all, line)
		}
	}
	return all
}

func parseSwitch(text string) (bool, error) {
	on, err := strconv.ParseBool(text)
	if err != nil {
		return false, fmt.Errorf("%q is neither true nor false", text)
	}
	return on, nil
}

// The words of options of every command. They are read only.
var (
	Formats = []string{"text", "json"}
	levels  = []string{"debug", "info", "warn", "error"}
)

// CommonOptions are those of every command.
func CommonOptions() []Option {
	return []Option{
		{
			Name: "backend", Value: "URL", Def: "file:", Check: By(ParseBackend), Example: "redis://redis.example.com",
			Help: "where leases and records are kept (see `leaderrun help backends`).\n" +
				"Hosts that share it exclude each other. A URL with a password is\n" +
				"better named by LEADERRUN_BACKEND_FILE, a file that holds it",
		},
		{
			Name: "config", Value: "FILE", unset: true, Example: SystemConfig,
			Help: "read this file instead of /etc/leaderrun.yaml and the user's\nleaderrun.yaml",
		},
		{
			Name: "log-format", Value: "text|json", Def: "text", Words: Formats, Check: By(value.OneOf(Formats...)),
			Help: "json writes one object for each event to stderr",
		},
		{
			Name: "log-level", Value: "LEVEL", Def: "warn", Words: levels, Check: By(value.OneOf(levels...)),
			Help: "debug, info, warn or error; info tells the story of a run",
		},
		{Name: "quiet", Help: "errors only"},
		helpOption(),
	}
}

func helpOption() Option { return Option{Name: "help", Short: "h", Bare: true, Help: "show this page"} }

// ParseBackend takes every URL that is not empty: what is wrong with it, opening it tells.
func ParseBackend(text string) (string, error) {
	if strings.TrimSpace(text) == "" {
		return "", ErrEmpty
	}
	return text, nil
}

// ParseText takes every text.
func ParseText(text string) (string, error) { return text, nil }

// FormatNames are the kinds of crontabs, as --from calls them.
var FormatNames = []string{"user", "system", "supercronic"} // read only

// FromOption is --from, which says of what kind crontabs are.
func FromOption() Option {
	return Option{
		Name: "from", Value: "user|system|supercronic", Words: FormatNames, Check: By(value.OneOf(FormatNames...)), Bare: true,
		Help: "what FILE is: a user's crontab, one with a user in each line, or one\nof supercronic (default: system for /etc/crontab, directories such\nas /etc/cron.d and the files in one called cron.d, else user)",
	}
}
