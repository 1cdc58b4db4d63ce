package cli

import (
	"flag"
	"io"
	"slices"
	"strings"

	"github.com/urfave/cli/v2"
)

// flagSet makes what package flag reads options with. The flags of one name share a word, so that an option may stand before
// or after the name of the command.
func (s *Settings) flagSet(options []Option) *flag.FlagSet {
	set := flag.NewFlagSet("", flag.ContinueOnError)
	set.SetOutput(io.Discard)
	for _, o := range options {
		f := &cli.GenericFlag{Name: o.Name, Value: s.Word(o)}
		if o.Short != "" {
			f.Aliases = []string{o.Short}
		}
		_ = f.Apply(set) // fails only where a variable is the flag's, and none is
	}
	return set
}

// visited are the names of the flags that were given.
func visited(set *flag.FlagSet) (names []string) {
	set.Visit(func(f *flag.Flag) { names = append(names, f.Name) })
	return names
}

// Walk reads the options of a command, and goes on with the command below it that the first argument names. It returns the command that
// the line calls, its arguments, and the names of its flags that were given. Run of urfave/cli does the same. But whoever calls that
// links its help pages, whose templates look methods up by name: the linker then keeps every exported method of every type, which is a
// third of the program.
func (s *Settings) Walk(cmd *Command, line []string) (called *Command, args, flags []string, err error) {
	set := s.flagSet(cmd.Options)
	err = set.Parse(line)
	args, flags = set.Args(), visited(set)
	if err == nil {
		err = oneForm(cmd.Options, flags)
	}
	if err != nil {
		return nil, nil, nil, mistyped(cmd, err)
	}
	if len(args) > 0 {
		if below := cmd.kind(args[0]); below != nil {
			return s.Walk(below, args[1:])
		}
	}
	return cmd, args, flags, nil
}

// oneForm refuses an option that was given by its short and by its long name: which of the two values would count?
func oneForm(known []Option, given []string) error {
	for _, o := range known {
		if slices.Contains(given, o.Name) && slices.Contains(given, o.Short) {
			return Usage(o.Flag()+" and -"+o.Short, "two forms of one option", "give one of them")
		}
	}
	return nil
}

// mixed reads options from among the arguments. It returns the arguments without them, and whether a "--" stood there: what
// follows that is no option. before are the names of flags that stood before.
func (s *Settings) mixed(cmd *Command, args, before []string) (rest []string, ended bool, err error) {
	set := s.flagSet(cmd.Options)
	oneForm := func() error { return oneForm(cmd.Options, append(before, visited(set)...)) }
	for len(args) > 0 {
		if args[0] == "--" {
			return append(rest, args[1:]...), true, oneForm()
		}
		if !strings.HasPrefix(args[0], "-") {
			rest, args = append(rest, args[0]), args[1:]
			continue
		}
		if err := set.Parse(args); err != nil {
			return nil, false, err
		}
		left := set.Args()
		switch read := len(args) - len(left); {
		case read == 0: // "-" alone is an argument
			rest, left = append(rest, left[0]), left[1:]
		case args[read-1] == "--":
			return append(rest, left...), true, oneForm()
		}
		args = left
	}
	return rest, false, oneForm()
}
