package cli

import (
	"flag"
	"io"
	"slices"
	"strings"

	"github.com/urfave/cli/v2"
)

// flags makes the flags of a command. The flags of one name share a word, so that an option may stand before
// or after the name of the command.
func flags(s *settings, options []option) []cli.Flag {
	made := make([]cli.Flag, 0, len(options))
	for _, o := range options {
		f := &cli.GenericFlag{Name: o.name, Value: s.word(o)}
		if o.short != "" {
			f.Aliases = []string{o.short}
		}
		made = append(made, f)
	}
	return made
}

// walk reads the options of a command, and goes on with the command below it that the first argument names, or else acts. Run of
// urfave/cli does the same. But whoever calls that links its help pages, whose templates look methods up by name: the linker
// then keeps every exported method of every type, which is a third of the program.
func walk(cmd *cli.Command, line []string, parent *cli.Context) error {
	set, err := flagSet(cmd.Name, cmd.Flags)
	if err != nil {
		return err
	}
	ctx := cli.NewContext(nil, set, parent)
	ctx.Command = cmd
	err = set.Parse(line)
	if err == nil {
		err = oneForm(cmd.Flags, ctx.LocalFlagNames())
	}
	if err != nil {
		return cmd.OnUsageError(ctx, err, parent != nil)
	}
	if args := ctx.Args(); args.Present() {
		if below := cmd.Command(args.First()); below != nil {
			return walk(below, args.Tail(), ctx)
		}
	}
	return cmd.Action(ctx)
}

// flagSet makes what package flag reads options with.
func flagSet(name string, known []cli.Flag) (*flag.FlagSet, error) {
	set := flag.NewFlagSet(name, flag.ContinueOnError)
	set.SetOutput(io.Discard)
	for _, f := range known {
		if err := f.Apply(set); err != nil {
			return nil, err
		}
	}
	return set, nil
}

// oneForm refuses an option that was given by its short and by its long name: which of the two values would count?
func oneForm(known []cli.Flag, given []string) error {
	for _, f := range known {
		var forms []string
		for _, name := range f.Names() {
			if slices.Contains(given, name) {
				forms = append(forms, strings.Repeat("-", min(2, len(name)))+name)
			}
		}
		if len(forms) > 1 {
			return usage(strings.Join(forms, " and "), "two forms of one option", "give one of them")
		}
	}
	return nil
}

// mixed reads options from among the arguments. It returns the arguments without them, and whether a "--" stood there: what
// follows that is no option. given are the names of options that stood before.
func (s *settings) mixed(cmd *command, args, given []string) (rest []string, ended bool, err error) {
	known := flags(s, cmd.options)
	set, err := flagSet(cmd.name, known)
	if err != nil {
		return nil, false, err
	}
	oneForm := func() error {
		set.Visit(func(f *flag.Flag) { given = append(given, f.Name) })
		return oneForm(known, given)
	}
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
