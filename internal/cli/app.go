package cli

import (
	"cmp"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"syscall"
)

// Command is one command: what the command line, the help and the completion know of it.
type Command struct {
	Name     string
	Args     string // of the usage line
	Brief    string // one line
	About    string
	Examples []ExampleLine
	Options  []Option
	Run      func(*Call) (ExitStatus, error)
	Refuse   func(*Call) error // what is wrong with options and arguments, and nothing is touched; nil: only run tells
	plain    bool              // needs no configuration
	Mixed    bool              // options may stand behind arguments too
	Rest     bool              // what follows the first argument is another program's, whatever it looks like

	// Kinds are commands below this one. The name of each begins with the name of this one and a blank.
	Kinds []*Command
}

// ExampleLine is a line that people can copy, and what it does. A test runs each.
type ExampleLine struct{ Does, Line string }

// families make the commands that Provide was given. They are read only from then on.
var families []func() *Command

// Provide sets the commands of the families, in the order of the help. It is called once, before all else.
func Provide(commands ...func() *Command) { families = commands }

// makers make all commands.
func makers() []func() *Command {
	return append(slices.Clip(families), versionCommand, completionCommand, manCommand, helpCommand)
}

// topCommands returns the commands that are called by one word. They are made anew for each call: nothing of one may
// reach another.
func topCommands() []*Command {
	var all []*Command
	for _, newCommand := range makers() {
		all = append(all, newCommand())
	}
	return all
}

// commands returns every command, those of two words behind the one that they are a kind of.
func commands() []*Command {
	var all []*Command
	for _, cmd := range topCommands() {
		all = append(append(all, cmd), cmd.Kinds...)
	}
	return all
}

// commandsFor returns the one command that the line names, if that stands first, as it mostly does; else all. A run
// does not pay for the others.
func commandsFor(line []string) []*Command {
	if len(line) > 1 {
		if c := CommandNamed(line[1]); c != nil {
			return []*Command{c}
		}
	}
	return topCommands()
}

// CommandNamed returns the command of a name; nil: there is none.
func CommandNamed(name string) *Command {
	for _, newCommand := range append(makers(), completeCommand) { // that one is for scripts, and in no list
		if c := newCommand(); c.Name == name {
			return c
		}
	}
	return nil
}

// AllOptions returns the options of every command, each name once: the keys of a configuration file.
func AllOptions() []Option {
	var all []Option
	for _, c := range commands() {
		for _, o := range c.Options {
			if !slices.ContainsFunc(all, func(x Option) bool { return x.Name == o.Name }) {
				all = append(all, o)
			}
		}
	}
	return all
}

// dispatch parses the command line and runs the command that it names.
func dispatch(args []string, stdin, stdout *os.File, v *Console, signals func() <-chan syscall.Signal, ahead Early) ExitStatus {
	s := NewSettings(os.LookupEnv)
	for _, arg := range args { // wherever a URL stands, also in the place of something else
		v.KeepSecret(SecretsOf(arg)...)
	}
	root := RootCommand()
	root.Kinds = commandsFor(args)
	cmd, rest, flags, err := s.Walk(root, args[min(1, len(args)):])
	ended := endedOptions(args, rest)
	if err == nil {
		s.Few = len(rest) < cmd.Least()
		if cmd.Mixed && !ended {
			if rest, ended, err = s.mixed(cmd, rest, flags); err != nil {
				err = mistyped(cmd, err)
			}
		}
	}
	if err != nil {
		v.configureEarly(s)
		v.Fault(err)
		return ExitStatus{Code: CodeUsage}
	}
	c := &Call{Cmd: cmd, Args: rest, Settings: s, Console: v, Stdin: stdin, Stdout: stdout, Terminal: isTerminal(stdout), Ahead: ahead}
	return c.start(ended, signals)
}

// endedOptions says whether "--" stands before the arguments: what follows it is no option.
func endedOptions(line, args []string) bool {
	before := len(line) - len(args) - 1
	return before > 0 && line[before] == "--"
}

// start reads the configuration and runs the command. ended: "--" stands before its arguments. From the first thing
// that is done, signals are caught.
func (c *Call) start(ended bool, signals func() <-chan syscall.Signal) ExitStatus {
	if c.Settings.Asked("help") {
		return c.Finish(c.showHelp(c.Cmd))
	}
	if err := c.Cmd.misplaced(c.Args, ended); err != nil {
		c.Console.configureEarly(c.Settings)
		return c.Finish(ExitStatus{}, err)
	}
	if !c.Cmd.plain {
		if err := c.Settings.loadFiles(AllOptions); err != nil {
			c.Console.configureEarly(c.Settings)
			return c.Finish(ExitStatus{}, err)
		}
		c.Console.configure(c.Settings)
		if err := c.Settings.Err; err != nil {
			c.Console.configureEarly(c.Settings)
			return c.Finish(ExitStatus{}, err)
		}
	}
	c.Signals = signals()
	return c.Finish(c.Cmd.Run(c))
}

// configureEarly finds out in which form an error is to be told that came before the options were read.
func (v *Console) configureEarly(s *Settings) {
	if g, ok := s.Find("log-format"); ok && g.Text == "json" {
		v.JSON = true
	}
}

// RootCommand is leaderrun itself, without the name of a command.
func RootCommand() *Command {
	options := CommonOptions()
	options = append(options, Option{Name: "version", Bare: true, Help: "show the version"})
	return &Command{Options: options, plain: true, Run: runRoot}
}

func runRoot(c *Call) (ExitStatus, error) {
	if c.Settings.Asked("version") {
		return showVersion(c)
	}
	if len(c.Args) == 0 {
		return ExitStatus{}, Usage("usage", "leaderrun [options] COMMAND …", "`leaderrun help` shows the commands")
	}
	return ExitStatus{}, NoCommand(c.Args[0])
}

// NoCommand is the fault of a word that stands where the name of a command does.
func NoCommand(word string) error {
	hint := cmp.Or(elsewhere(word), DidYouMean(word, CommandNames(), ""),
		"`leaderrun help` shows the commands; a job is run by `leaderrun run JOB COMMAND`")
	return Usage(fmt.Sprintf("%q", word), "there is no such command", hint)
}

// elsewhere points from the words of other programs to the command that does the same here; "": it is none of those.
func elsewhere(word string) string {
	for does, words := range map[string][]string{
		"`leaderrun status` shows all jobs, and who runs them":                                                                {"ls", "list", "jobs", "ps"},
		"`leaderrun break JOB` ends the run of a job":                                                                         {"stop", "kill", "unlock", "release"},
		"`leaderrun history JOB` shows how the last runs ended; what a command writes goes where leaderrun's own output goes": {"logs", "log"},
	} {
		if slices.Contains(words, word) {
			return does
		}
	}
	return ""
}

// mistyped says what is wrong with the options. Package flag, below urfave/cli, only has texts.
func mistyped(cmd *Command, err error) error {
	if _, ours := errors.AsType[*Fault](err); ours {
		return err
	}
	text := err.Error()
	if name, ok := strings.CutPrefix(text, "flag provided but not defined: -"); ok {
		return unknownOption(cmd, name)
	}
	if name, ok := strings.CutPrefix(text, "flag needs an argument: -"); ok {
		for _, o := range cmd.Options {
			if o.Name == name || o.Short == name {
				return Usage(o.Flag(), "needs a value", "write "+o.Flag()+" "+o.Value)
			}
		}
	}
	return Usage("the command line", text, seeHelp(cmd))
}

func unknownOption(cmd *Command, typed string) error {
	var names []string
	for _, o := range cmd.Options {
		names = append(names, o.Name)
	}
	if o, value, ok := joined(cmd, typed); ok {
		return Usage("unknown option -"+typed, "", fmt.Sprintf("write -%s %s", o.Short, value))
	}
	hint := DidYouMean(typed, names, "--")
	for _, other := range commands() {
		if slices.ContainsFunc(other.Options, func(o Option) bool { return o.Name == typed }) {
			hint = fmt.Sprintf("--%s is an option of `leaderrun %s`", typed, other.Name)
			break
		}
	}
	if hint == "" {
		hint = seeHelp(cmd)
	}
	dashes := "--"
	if len(typed) == 1 {
		dashes = "-"
	}
	return Usage("unknown option "+dashes+typed, "", hint)
}

// joined takes apart what other programs read as a short option and its value, such as -E75.
func joined(cmd *Command, typed string) (o Option, value string, ok bool) {
	for _, o := range cmd.Options {
		value, cut := strings.CutPrefix(typed, o.Short)
		if cut && o.Short != "" && o.Value != "" && o.validate(value) == nil {
			return o, value, true
		}
	}
	return Option{}, "", false
}

func seeHelp(cmd *Command) string {
	return strings.TrimSpace("`leaderrun "+cmd.Name) + " --help` shows the options"
}
