package cli

import (
	"fmt"
	"slices"
	"strings"
)

// Word is the last word of the command's name: what is typed to call it, behind the command that it is a kind of.
func (cmd *Command) Word() string { return cmd.Name[strings.LastIndexByte(cmd.Name, ' ')+1:] }

// kind is the command below this one that a word names; nil: none.
func (cmd *Command) kind(word string) *Command {
	if i := slices.IndexFunc(cmd.Kinds, func(k *Command) bool { return k.Word() == word }); i >= 0 {
		return cmd.Kinds[i]
	}
	return nil
}

// UsageLine is how the command is called.
func (cmd *Command) UsageLine() string {
	line := "leaderrun " + cmd.Name
	if len(cmd.Options) > 0 {
		line += " [options]"
	}
	return strings.TrimSuffix(line+" "+cmd.Args, " ")
}

// argument is what the usage line calls the first argument.
func (cmd *Command) argument() string { return strings.Trim(cmd.Args, "[]…") }

// Least is how many arguments the command cannot do without.
func (cmd *Command) Least() int {
	required, _, _ := strings.Cut(cmd.Args, "[")
	return len(strings.Fields(required))
}

// misplaced refuses arguments that no command of this kind can mean: one that is empty is a variable that a script did
// not fill in, one that begins with - is an option that stands too late. ended: "--" stands before them.
func (cmd *Command) misplaced(args []string, ended bool) error {
	if cmd.Rest || cmd.Args == "" {
		return nil
	}
	for i, arg := range args {
		switch {
		case arg == "":
			return Usage(cmd.argument(), "it is empty", "usage: "+cmd.UsageLine())
		case i > 0 && !ended && strings.HasPrefix(arg, "-"):
			return Usage(cmd.Name, fmt.Sprintf("%q stands after %s: options go before", arg, cmd.argument()), "usage: "+cmd.UsageLine())
		}
	}
	return nil
}
