package cli

import (
	"fmt"
	"io"
	"slices"
	"strings"
)

func shells() map[string]func(io.Writer) {
	return map[string]func(io.Writer){"bash": completeBash, "zsh": completeZsh, "fish": completeFish}
}

func completionCommand() *command {
	return &command{
		name: "completion", args: "bash|zsh|fish", brief: "print a completion script for a shell",
		about: "Prints a script that lets a shell complete commands and options.",
		examples: []exampleLine{
			{"bash: for this session", "source <(leaderrun completion bash)"},
			{"zsh: once, then restart the shell", "leaderrun completion zsh > \"${fpath[1]:-.}/_leaderrun\""},
			{"fish: once", "leaderrun completion fish > leaderrun.fish"},
		},
		options: []option{helpOption()}, plain: true, run: runCompletion,
	}
}

func runCompletion(c *call) (End, error) {
	if len(c.args) != 1 {
		return End{}, usage("completion", "name one shell", "leaderrun completion bash|zsh|fish")
	}
	write, ok := shells()[c.args[0]]
	if !ok {
		return End{}, usage(fmt.Sprintf("%q", c.args[0]), "no completion for this shell", "leaderrun completion bash|zsh|fish")
	}
	var b strings.Builder
	write(&b)
	return End{}, c.print(b.String())
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
		return append(commandNames(), "backends", "environment", "exit-codes")
	}
	return nil
}

// completeBash needs nothing but bash itself. After JOB it leaves the rest to the shell's own completion of
// commands and files.
func completeBash(w io.Writer) {
	fmt.Fprint(w, `# bash completion for leaderrun
_leaderrun() {
	local word=${COMP_WORDS[COMP_CWORD]} last=${COMP_WORDS[COMP_CWORD-1]} command= i
	COMPREPLY=()
	for ((i = 1; i < COMP_CWORD; i++)); do
		case ${COMP_WORDS[i]} in
		-*) ;;
		`+strings.Join(commandNames(), "|")+`) command=${COMP_WORDS[i]}; break ;;
		esac
	done
	local flags='' valued='' words='' job=0
	case $command in
`)
	for _, cmd := range topCommands() {
		every, valued := flagNames(cmd)
		fmt.Fprintf(w, "\t%s) flags='%s' valued=' %s ' words='%s' ;;\n", cmd.name,
			strings.Join(every, " "), strings.Join(valued, " "), strings.Join(arguments(cmd), " "))
	}
	every, valued := flagNames(rootCommand())
	fmt.Fprintf(w, "\t*) flags='%s' valued=' %s ' words='%s' ;;\n\tesac\n",
		strings.Join(every, " "), strings.Join(valued, " "), strings.Join(commandNames(), " "))
	fmt.Fprint(w, "\tcase $last in\n")
	for _, o := range allOptions() {
		if len(o.words) > 0 {
			forms := o.flag()
			if o.short != "" {
				forms += "|-" + o.short
			}
			fmt.Fprintf(w, "\t%s) mapfile -t COMPREPLY < <(compgen -W '%s' -- \"$word\"); return ;;\n", forms, strings.Join(o.words, " "))
		}
	}
	fmt.Fprint(w, `	--config) mapfile -t COMPREPLY < <(compgen -f -- "$word"); return ;;
	esac
	[[ $valued == *" $last "* ]] && return
	if [[ $command == run ]]; then
		for ((i++; i < COMP_CWORD; i++)); do
			case ${COMP_WORDS[i]} in
			--) job=$((job + 1)) ;;
			-*=*) ;;
			-*) [[ $valued == *" ${COMP_WORDS[i]} "* ]] && ((i++)) ;;
			*) job=$((job + 1)); break ;;
			esac
		done
		if ((job > 0 && i + 1 < COMP_CWORD)); then
			mapfile -t COMPREPLY < <(compgen -f -- "$word"); return
		elif ((job > 0)); then
			mapfile -t COMPREPLY < <(compgen -c -- "$word"); return
		fi
	fi
	if [[ $word == -* ]]; then
		mapfile -t COMPREPLY < <(compgen -W "$flags" -- "$word")
	else
		mapfile -t COMPREPLY < <(compgen -W "$words" -- "$word")
	fi
}
complete -F _leaderrun leaderrun
`)
}

// quoted is a text for a shell's single quotes.
func quoted(text string) string { return strings.ReplaceAll(text, "'", `'\''`) }

// brief is the first line of an option's help.
func brief(o option) string {
	line, _, _ := strings.Cut(o.help, "\n")
	return line
}

func completeZsh(w io.Writer) {
	fmt.Fprint(w, "#compdef leaderrun\n\n_leaderrun() {\n\tlocal curcontext=$curcontext state line\n\tlocal -a commands\n\tcommands=(\n")
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
			fmt.Fprint(w, " \\\n\t\t'1:job:' '*:::command:_normal'")
		case words != nil:
			fmt.Fprintf(w, " \\\n\t\t'1:word:(%s)'", strings.Join(words, " "))
		}
		fmt.Fprint(w, " ;;\n")
	}
	fmt.Fprint(w, "\tesac\n}\n\n_leaderrun \"$@\"\n")
}

func zshForms(o option) []string {
	about := strings.NewReplacer("[", `\[`, "]", `\]`, ":", `\:`).Replace(brief(o))
	value := ""
	switch {
	case o.name == "config":
		value = ":file:_files"
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
			case o.name == "config":
				line += " -r -F"
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
		if cmd.name == "run" {
			fmt.Fprintf(w, "complete -c leaderrun %s -a '(__fish_complete_subcommand)'\n", when)
		}
	}
}
