package cli

import (
	"flag"
	"fmt"
	"io"
	"strings"
)

// word is the last word of the command's name: what is typed to call it, behind the command that it is a kind of.
func (cmd *command) word() string { return cmd.name[strings.LastIndexByte(cmd.name, ' ')+1:] }

// usageLine is how the command is called.
func (cmd *command) usageLine() string {
	line := "leaderrun " + cmd.name
	if len(cmd.options) > 0 {
		line += " [options]"
	}
	return strings.TrimSuffix(line+" "+cmd.args, " ")
}

// argument is what the usage line calls the first argument.
func (cmd *command) argument() string { return strings.Trim(cmd.args, "[]…") }

// least is how many arguments the command cannot do without.
func (cmd *command) least() int {
	required, _, _ := strings.Cut(cmd.args, "[")
	return len(strings.Fields(required))
}

// misplaced refuses arguments that no command of this kind can mean: one that is empty is a variable that a script did
// not fill in, one that begins with - is an option that stands too late. ended: "--" stands before them.
func (cmd *command) misplaced(args []string, ended bool) error {
	if cmd.rest || cmd.args == "" {
		return nil
	}
	for i, arg := range args {
		switch {
		case arg == "":
			return usage(cmd.argument(), "it is empty", "usage: "+cmd.usageLine())
		case i > 0 && !ended && strings.HasPrefix(arg, "-"):
			return usage(cmd.name, fmt.Sprintf("%q stands after %s: options go before", arg, cmd.argument()), "usage: "+cmd.usageLine())
		}
	}
	return nil
}

// mixed reads options from among the arguments. It returns the arguments without them, and whether a "--" stood there: what
// follows that is no option.
func (s *settings) mixed(cmd *command, args []string) (rest []string, ended bool, err error) {
	set := flag.NewFlagSet(cmd.name, flag.ContinueOnError)
	set.SetOutput(io.Discard)
	for _, f := range flags(s, cmd.options) {
		if err := f.Apply(set); err != nil {
			return nil, false, err
		}
	}
	for len(args) > 0 {
		if args[0] == "--" {
			return append(rest, args[1:]...), true, nil
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
			return append(rest, left...), true, nil
		}
		args = left
	}
	return rest, false, nil
}
