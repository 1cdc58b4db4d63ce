package cli

import (
	"context"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/leaderrun/leaderrun/internal/panics"
)

func shells() map[string]func(io.Writer) {
	return map[string]func(io.Writer){"bash": completeBash, "zsh": completeZsh, "fish": completeFish}
}

func completionCommand() *command {
	return &command{
		name: "completion", args: "bash|zsh|fish", brief: "print a completion script for a shell",
		about: `Prints a script that lets a shell complete commands, options, files and the names of jobs. For those it asks
the backend that environment and files name, 300 ms at most.`,
		examples: []exampleLine{
			{"bash: for this session", "source <(leaderrun completion bash)"},
			{"zsh: once, then restart the shell", "leaderrun completion zsh > \"${fpath[1]:-.}/_leaderrun\""},
			{"fish: once", "leaderrun completion fish > leaderrun.fish"},
		},
		options: []option{helpOption()}, plain: true, run: runCompletion,
	}
}

func runCompletion(c *call) (ExitStatus, error) {
	if len(c.args) != 1 {
		return ExitStatus{}, usage("completion", "name one shell", "leaderrun completion bash|zsh|fish")
	}
	write, ok := shells()[c.args[0]]
	if !ok {
		return ExitStatus{}, usage(fmt.Sprintf("%q", c.args[0]), "no completion for this shell", "leaderrun completion bash|zsh|fish")
	}
	var b strings.Builder
	write(&b)
	return ExitStatus{}, c.print(b.String())
}

func commandNames() []string {
	var names []string
	for _, cmd := range topCommands() {
		names = append(names, cmd.name)
	}
	return names
}

// optionsWithin returns the options of a command and of its kinds, each name once.
func optionsWithin(cmd *command) []option {
	all := slices.Clone(cmd.options)
	for _, kind := range cmd.kinds {
		for _, o := range kind.options {
			if !slices.ContainsFunc(all, func(x option) bool { return x.name == o.name }) {
				all = append(all, o)
			}
		}
	}
	return all
}

// flagNames returns the flags of a command: all, and those that take a value.
func flagNames(cmd *command) (every, valued []string) {
	for _, o := range optionsWithin(cmd) {
		forms := []string{o.flag()}
		if o.short != "" {
			forms = append(forms, "-"+o.short)
		}
		every = append(every, forms...)
		if o.value != "" {
			valued = append(valued, forms...)
		}
	}
	return every, valued
}

// arguments are what a command takes besides options, where that is a fixed set.
func arguments(cmd *command) []string {
	if len(cmd.kinds) > 0 {
		var words []string
		for _, kind := range cmd.kinds {
			words = append(words, kind.word())
		}
		return words
	}
	switch cmd.name {
	case "completion":
		return []string{"bash", "zsh", "fish"}
	case "help":
		return slices.Sorted(slices.Values(append(commandNames(), slices.Collect(maps.Keys(topics()))...)))
	}
	return nil
}

// place is what stands where a command takes an argument that is no fixed word.
type place struct {
	name string // as the usage line calls it; "": there is no such argument
	most int    // how many there may be
}

const (
	placeJob  = "JOB"
	placeFile = "FILE"
	unbounded = 1 << 16
)

// placeOf reads the usage line of a command.
func placeOf(cmd *command) place {
	args, _, _ := strings.Cut(cmd.args, " ")
	p := place{name: strings.Trim(args, "[]…"), most: 1}
	if p.name == "PATH" {
		p.name = placeFile
	}
	if strings.Contains(args, "…") {
		p.most = unbounded
	}
	return p
}

// isFile says whether an option takes the name of a file, isFolder that of a folder.
func (o option) isFile() bool   { return o.value == placeFile }
func (o option) isFolder() bool { return o.value == "DIR" }

const completeJobs = "complete-jobs"

// jobsPatience is how long a store may take: whoever has pressed a key does not wait for longer. Scripts of the tests do, on a busy
// machine.
var jobsPatience = 300 * time.Millisecond

// completeJobsCommand is what the scripts ask for the names of jobs.
func completeJobsCommand() *command {
	return &command{name: completeJobs, options: commonOptions(), plain: true, run: runCompleteJobs}
}

// runCompleteJobs prints the names, a line each. A store that cannot be had, or not soon, has none: nobody wants to read why in the
// middle of a line that is being typed.
func runCompleteJobs(c *call) (ExitStatus, error) {
	ctx, cancel := context.WithTimeout(context.Background(), jobsPatience)
	defer cancel()
	found := make(chan []string, 1)
	panics.Go(func() { found <- c.jobNames(ctx) })
	select {
	case names := <-found:
		return ExitStatus{}, c.print(strings.Join(names, ""))
	case <-ctx.Done(): // also where a store does not heed it
		return ExitStatus{}, nil
	}
}

// jobNames returns the names that a shell can take, with line ends.
func (c *call) jobNames(ctx context.Context) []string {
	if c.settings.loadFiles(allOptions) != nil {
		return nil
	}
	store, err := c.openStore()
	if err != nil {
		return nil
	}
	defer store.Close()
	names, _ := store.Jobs(ctx)
	var lines []string
	for _, name := range names {
		if !isInternal(name) && utf8.ValidString(name) && !strings.ContainsFunc(name, func(r rune) bool { return !unicode.IsPrint(r) }) {
			lines = append(lines, name+"\n")
		}
	}
	return lines
}

// completeBash needs nothing but bash itself. After JOB of run it leaves the rest to the shell's own completion of
// commands and files. Names of jobs are anybody's who may write to the store, and those of files anybody's who may write to a folder:
// they stand quoted in the line, so that no shell evaluates them.
func completeBash(w io.Writer) {
	fmt.Fprint(w, `# bash completion for leaderrun
_leaderrun_jobs() {
	local job
	while IFS= read -r job; do
		[[ $job == "$1"* ]] && COMPREPLY+=("$(printf %q "$job")")
	done < <(leaderrun `+completeJobs+` 2>/dev/null)
}
_leaderrun_files() {
	compopt -o filenames
	mapfile -t COMPREPLY < <(compgen "$1" -- "$2")
}
_leaderrun() {
	local word=${COMP_WORDS[COMP_CWORD]} last=${COMP_WORDS[COMP_CWORD-1]} command= i
	COMPREPLY=()
	for ((i = 1; i < COMP_CWORD; i++)); do
		case ${COMP_WORDS[i]} in
		-*) ;;
		`+strings.Join(commandNames(), "|")+`) command=${COMP_WORDS[i]}; break ;;
		esac
	done
	local flags='' valued='' words='' kinds='' jobs=0 files=0 args=0 first=
	case $command in
`)
	for _, cmd := range topCommands() {
		every, valued := flagNames(cmd)
		fmt.Fprintf(w, "\t%s) flags='%s' valued=' %s ' words='%s'%s ;;\n", cmd.name,
			strings.Join(every, " "), strings.Join(valued, " "), strings.Join(arguments(cmd), " "), bashPlaces(cmd))
	}
	every, valued := flagNames(rootCommand())
	fmt.Fprintf(w, "\t*) flags='%s' valued=' %s ' words='%s' ;;\n\tesac\n",
		strings.Join(every, " "), strings.Join(valued, " "), strings.Join(commandNames(), " "))
	fmt.Fprint(w, "\tcase $last in\n")
	for _, o := range allOptions() {
		var offer string
		switch {
		case o.isFile():
			offer = `_leaderrun_files -f "$word"`
		case o.isFolder():
			offer = `_leaderrun_files -d "$word"`
		case len(o.words) > 0:
			offer = "mapfile -t COMPREPLY < <(compgen -W '" + strings.Join(o.words, " ") + `' -- "$word")`
		default:
			continue
		}
		forms := o.flag()
		if o.short != "" {
			forms += "|-" + o.short
		}
		fmt.Fprintf(w, "\t%s) %s; return ;;\n", forms, offer)
	}
	fmt.Fprint(w, `	esac
	[[ $valued == *" $last "* ]] && return
	if [[ -n $command ]]; then
		for ((i++; i < COMP_CWORD; i++)); do
			case ${COMP_WORDS[i]} in
			--) flags= ;;
			-*=*) ;;
			-*) [[ $valued == *" ${COMP_WORDS[i]} "* ]] && ((i++)) ;;
			*) ((args++)); first=${first:-${COMP_WORDS[i]}}; [[ $command == run ]] && break ;;
			esac
		done
	fi
	if [[ $command == run ]] && ((args > 0)); then
		if ((i + 1 < COMP_CWORD)); then
			_leaderrun_files -f "$word"
		elif [[ $word == */* ]]; then
			_leaderrun_files -c "$word"
		else
			mapfile -t COMPREPLY < <(compgen -c -- "$word")
		fi
	elif [[ $word == -* ]]; then
		mapfile -t COMPREPLY < <(compgen -W "$flags" -- "$word")
	elif ((args < jobs)); then
		_leaderrun_jobs "$word"
	elif ((args < files)) || [[ -n $first && $kinds == *" $first "* ]]; then
		_leaderrun_files -f "$word"
	elif ((args == 0)); then
		mapfile -t COMPREPLY < <(compgen -W "$words" -- "$word")
	fi
}
complete -F _leaderrun leaderrun
`)
}

// bashPlaces says in variables what stands in the places of a command's arguments.
func bashPlaces(cmd *command) string {
	switch p := placeOf(cmd); p.name {
	case placeJob:
		return fmt.Sprintf(" jobs=%d", p.most)
	case placeFile:
		return fmt.Sprintf(" files=%d", p.most)
	}
	if kinds := kindsOfFiles(cmd); kinds != nil {
		return fmt.Sprintf(" kinds=' %s '", strings.Join(kinds, " "))
	}
	return ""
}

// kindsOfFiles are the kinds of a command that take the name of a file.
func kindsOfFiles(cmd *command) []string {
	var words []string
	for _, kind := range cmd.kinds {
		if placeOf(kind).name == placeFile {
			words = append(words, kind.word())
		}
	}
	return words
}

// quoted is a text for a shell's single quotes.
func quoted(text string) string { return strings.ReplaceAll(text, "'", `'\''`) }

// brief is the first line of an option's help.
func brief(o option) string {
	line, _, _ := strings.Cut(o.help, "\n")
	return line
}

func completeZsh(w io.Writer) {
	fmt.Fprint(w, "#compdef leaderrun\n\n_leaderrun_jobs() {\n\tlocal -a jobs\n\tjobs=(${(f)\"$(leaderrun "+completeJobs+" 2>/dev/null)\"})\n\tcompadd -a jobs\n}\n\n")
	fmt.Fprint(w, "_leaderrun() {\n\tlocal curcontext=$curcontext state line\n\tlocal -a commands\n\tcommands=(\n")
	for _, cmd := range topCommands() {
		fmt.Fprintf(w, "\t\t'%s:%s'\n", cmd.name, quoted(strings.ReplaceAll(cmd.brief, ":", `\:`)))
	}
	fmt.Fprint(w, "\t)\n\tif (( CURRENT == 2 )); then\n\t\t_describe command commands\n\t\treturn\n\tfi\n")
	fmt.Fprint(w, "\tlocal command=$words[2]\n\tshift words; (( CURRENT-- ))\n\tcase $command in\n")
	for _, cmd := range topCommands() {
		fmt.Fprintf(w, "\t%s) _arguments -S", cmd.name)
		for _, o := range optionsWithin(cmd) {
			for _, form := range zshForms(o) {
				fmt.Fprintf(w, " \\\n\t\t'%s'", quoted(form))
			}
		}
		switch words := arguments(cmd); {
		case cmd.name == "run":
			fmt.Fprint(w, " \\\n\t\t'1:job:_leaderrun_jobs' '*:::command:_normal'")
		case words != nil:
			fmt.Fprintf(w, " \\\n\t\t'1:word:(%s)'", strings.Join(words, " "))
			if kindsOfFiles(cmd) != nil {
				fmt.Fprint(w, " '*:file:_files'")
			}
		default:
			fmt.Fprint(w, zshPlaces(placeOf(cmd)))
		}
		fmt.Fprint(w, " ;;\n")
	}
	fmt.Fprint(w, "\tesac\n}\n\n_leaderrun \"$@\"\n")
}

func zshPlaces(p place) string {
	which := "1"
	if p.most > 1 {
		which = "*"
	}
	switch p.name {
	case placeJob:
		return " \\\n\t\t'" + which + ":job:_leaderrun_jobs'"
	case placeFile:
		return " \\\n\t\t'" + which + ":file:_files'"
	}
	return ""
}

func zshForms(o option) []string {
	about := strings.NewReplacer("[", `\[`, "]", `\]`, ":", `\:`).Replace(brief(o))
	value := ""
	switch {
	case o.isFile():
		value = ":file:_files"
	case o.isFolder():
		value = ":folder:_files -/"
	case len(o.words) > 0:
		value = ":" + o.name + ":(" + strings.Join(o.words, " ") + ")"
	case o.value != "":
		value = ":" + o.name + ":"
	}
	equals := ""
	if o.value != "" {
		equals = "="
	}
	again := ""
	if o.many {
		again = "*"
	}
	forms := []string{again + o.flag() + equals + "[" + about + "]" + value}
	if o.short != "" {
		forms = append(forms, "-"+o.short+"["+about+"]"+value)
	}
	return forms
}

func completeFish(w io.Writer) {
	fmt.Fprint(w, "# fish completion for leaderrun\ncomplete -c leaderrun -f\n")
	for _, cmd := range topCommands() {
		fmt.Fprintf(w, "complete -c leaderrun -n __fish_use_subcommand -a %s -d '%s'\n", cmd.name, quoted(cmd.brief))
	}
	for _, cmd := range topCommands() {
		when := "-n '__fish_seen_subcommand_from " + cmd.name + "'"
		for _, o := range optionsWithin(cmd) {
			line := "complete -c leaderrun " + when + " -l " + o.name
			if o.short != "" {
				line += " -s " + o.short
			}
			switch {
			case o.isFile():
				line += " -r -F"
			case o.isFolder():
				line += " -x -a '(__fish_complete_directories)'"
			case len(o.words) > 0:
				line += " -x -a '" + strings.Join(o.words, " ") + "'"
			case o.value != "":
				line += " -x"
			}
			fmt.Fprintf(w, "%s -d '%s'\n", line, quoted(brief(o)))
		}
		if words := slices.Clone(arguments(cmd)); words != nil {
			fmt.Fprintf(w, "complete -c leaderrun %s -a '%s'\n", when, strings.Join(words, " "))
		}
		switch p := placeOf(cmd); {
		case p.name == placeJob:
			fmt.Fprintf(w, "complete -c leaderrun %s -a '(leaderrun %s 2>/dev/null)'\n", when, completeJobs)
		case p.name == placeFile, kindsOfFiles(cmd) != nil:
			fmt.Fprintf(w, "complete -c leaderrun %s -F\n", when)
		}
		if cmd.name == "run" {
			fmt.Fprintf(w, "complete -c leaderrun %s -a '(__fish_complete_subcommand)'\n", when)
		}
	}
}
