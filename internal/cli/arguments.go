package cli

import (
	"fmt"
	"slices"
	"strings"
)

// word is the last word of the command's name: what is typed to call it, behind the command that it is a kind of.
func (cmd *command) word() string { return cmd.name[strings.LastIndexByte(cmd.name, ' ')+1:] }

// kind is the command below this one that a word names; nil: none.
func (cmd *command) kind(word string) *command {
	if i := slices.IndexFunc(cmd.kinds, func(k *command) bool { return k.word() == word }); i >= 0 {
		return cmd.kinds[i]
	}
	return nil
}

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
