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

// command is one command: what the command line, the help and the completion know of it.
type command struct {
	name     string
	args     string // of the usage line
	brief    string // one line
	about    string
	examples []exampleLine
	options  []option
	run      func(*call) (ExitStatus, error)
	plain    bool // needs no configuration
	mixed    bool // options may stand behind arguments too
	rest     bool // what follows the first argument is another program's, whatever it looks like

	// kinds are commands below this one. The name of each begins with the name of this one and a blank.
	kinds []*command
}

// exampleLine is a line that people can copy, and what it does. A test runs each.
type exampleLine struct{ does, line string }

// makers make the commands.
func makers() []func() *command {
	return []func() *command{
		runCommand, statusCommand, historyCommand, checkCommand, breakCommand, forgetCommand,
		nextCommand, cronCommand, importCommand, lintCommand, fenceCommand, doctorCommand,
		versionCommand, completionCommand, manCommand, helpCommand,
	}
}

// topCommands returns the commands that are called by one word. They are made anew for each call: nothing of one may
// reach another.
func topCommands() []*command {
	var all []*command
	for _, newCommand := range makers() {
		all = append(all, newCommand())
	}
	return all
}

// commands returns every command, those of two words behind the one that they are a kind of.
func commands() []*command {
	var all []*command
	for _, cmd := range topCommands() {
		all = append(append(all, cmd), cmd.kinds...)
	}
	return all
}

// commandsFor returns the one command that the line names, if that stands first, as it mostly does; else all. A run
// does not pay for the others.
func commandsFor(line []string) []*command {
	if len(line) > 1 {
		for _, newCommand := range append(makers(), completeCommand) { // that one is for scripts, and in no list
			if c := newCommand(); c.name == line[1] {
				return []*command{c}
			}
		}
	}
	return topCommands()
}

// allOptions returns the options of every command, each name once: the keys of a configuration file.
func allOptions() []option {
	var all []option
	for _, c := range commands() {
		for _, o := range c.options {
			if !slices.ContainsFunc(all, func(x option) bool { return x.name == o.name }) {
				all = append(all, o)
			}
		}
	}
	return all
}

// dispatch parses the command line and runs the command that it names.
func dispatch(args []string, stdin, stdout *os.File, v *console, signals func() <-chan syscall.Signal, ahead *tree) ExitStatus {
	s := newSettings(os.LookupEnv)
	for _, arg := range args { // wherever a URL stands, also in the place of something else
		v.keepSecret(secretsOf(arg)...)
	}
	root := rootCommand()
	root.kinds = commandsFor(args)
	cmd, rest, flags, err := s.walk(root, args[min(1, len(args)):])
	ended := endedOptions(args, rest)
	if err == nil {
		s.few = len(rest) < cmd.least()
		if cmd.mixed && !ended {
			if rest, ended, err = s.mixed(cmd, rest, flags); err != nil {
				err = mistyped(cmd, err)
			}
		}
	}
	if err != nil {
		v.configureEarly(s)
		v.fault(err)
		return ExitStatus{Code: codeUsage}
	}
	c := &call{cmd: cmd, args: rest, settings: s, console: v, stdin: stdin, stdout: stdout, terminal: isTerminal(stdout), ahead: ahead}
	return c.start(ended, signals)
}

// endedOptions says whether "--" stands before the arguments: what follows it is no option.
func endedOptions(line, args []string) bool {
	before := len(line) - len(args) - 1
	return before > 0 && line[before] == "--"
}

// start reads the configuration and runs the command. ended: "--" stands before its arguments. From the first thing
// that is done, signals are caught.
func (c *call) start(ended bool, signals func() <-chan syscall.Signal) ExitStatus {
	if c.settings.asked("help") {
		return c.finish(c.showHelp(c.cmd))
	}
	if err := c.cmd.misplaced(c.args, ended); err != nil {
		c.console.configureEarly(c.settings)
		return c.finish(ExitStatus{}, err)
	}
	if !c.cmd.plain {
		if err := c.settings.loadFiles(allOptions); err != nil {
			c.console.configureEarly(c.settings)
			return c.finish(ExitStatus{}, err)
		}
		c.console.configure(c.settings)
		if err := c.settings.err; err != nil {
			c.console.configureEarly(c.settings)
			return c.finish(ExitStatus{}, err)
		}
	}
	c.signals = signals()
	return c.finish(c.cmd.run(c))
}

// configureEarly finds out in which form an error is to be told that came before the options were read.
func (v *console) configureEarly(s *settings) {
	if g, ok := s.find("log-format"); ok && g.text == "json" {
		v.json = true
	}
}

// rootCommand is leaderrun itself, without the name of a command.
func rootCommand() *command {
	options := commonOptions()
	options = append(options, option{name: "version", bare: true, help: "show the version"})
	return &command{options: options, plain: true, run: runRoot}
}

func runRoot(c *call) (ExitStatus, error) {
	if c.settings.asked("version") {
		return showVersion(c)
	}
	if len(c.args) == 0 {
		return ExitStatus{}, usage("usage", "leaderrun [options] COMMAND …", "`leaderrun help` shows the commands")
	}
	return ExitStatus{}, noCommand(c.args[0])
}

// noCommand is the fault of a word that stands where the name of a command does.
func noCommand(word string) error {
	hint := cmp.Or(elsewhere(word), didYouMean(word, commandNames(), ""),
		"`leaderrun help` shows the commands; a job is run by `leaderrun run JOB COMMAND`")
	return usage(fmt.Sprintf("%q", word), "there is no such command", hint)
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
func mistyped(cmd *command, err error) error {
	if _, ours := errors.AsType[*fault](err); ours {
		return err
	}
	text := err.Error()
	if name, ok := strings.CutPrefix(text, "flag provided but not defined: -"); ok {
		return unknownOption(cmd, name)
	}
	if name, ok := strings.CutPrefix(text, "flag needs an argument: -"); ok {
		for _, o := range cmd.options {
			if o.name == name || o.short == name {
				return usage(o.flag(), "needs a value", "write "+o.flag()+" "+o.value)
			}
		}
	}
	return usage("the command line", text, seeHelp(cmd))
}

func unknownOption(cmd *command, typed string) error {
	var names []string
	for _, o := range cmd.options {
		names = append(names, o.name)
	}
	if o, value, ok := joined(cmd, typed); ok {
		return usage("unknown option -"+typed, "", fmt.Sprintf("write -%s %s", o.short, value))
	}
	hint := didYouMean(typed, names, "--")
	for _, other := range commands() {
		if slices.ContainsFunc(other.options, func(o option) bool { return o.name == typed }) {
			hint = fmt.Sprintf("--%s is an option of `leaderrun %s`", typed, other.name)
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
	return usage("unknown option "+dashes+typed, "", hint)
}

// joined takes apart what other programs read as a short option and its value, such as -E75.
func joined(cmd *command, typed string) (o option, value string, ok bool) {
	for _, o := range cmd.options {
		value, cut := strings.CutPrefix(typed, o.short)
		if cut && o.short != "" && o.value != "" && o.validate(value) == nil {
			return o, value, true
		}
	}
	return option{}, "", false
}

func seeHelp(cmd *command) string {
	return strings.TrimSpace("`leaderrun "+cmd.name) + " --help` shows the options"
}
