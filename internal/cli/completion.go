package cli

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/leaderrun/leaderrun/internal/panics"
)

func completionCommand() *Command {
	return &Command{
		Name: "completion", Args: "bash|zsh|fish", Brief: "print a completion script for a shell",
		About: `Prints a script that lets a shell complete commands, options, files and the names of jobs. For those it asks
the backend that environment and files name, 300 ms at most.`,
		Examples: []ExampleLine{
			{Does: "bash: for this session", Line: "source <(leaderrun completion bash)"},
			{"zsh: once, then restart the shell", "leaderrun completion zsh > \"${fpath[1]:-.}/_leaderrun\""},
			{Does: "fish: once", Line: "leaderrun completion fish > leaderrun.fish"},
		},
		Options: []Option{helpOption()}, plain: true, Run: runCompletion,
	}
}

// shells are those that there are scripts for. A script hands the words of the line to `leaderrun complete`, up to the one that is being
// typed, and offers what that prints. They are read only.
var shells = map[string]string{
	"bash": `# bash completion for leaderrun
_leaderrun_files() { # anybody may have made them, with any name: bash quotes them
	compopt -o filenames
	mapfile -t COMPREPLY < <(compgen "$1" -- "$2")
}
_leaderrun() {
	local word=${COMP_WORDS[COMP_CWORD]} line
	COMPREPLY=()
	while IFS= read -r line; do
		case $line in
		$'\tfiles') _leaderrun_files -f "$word" ;;
		$'\tfolders') _leaderrun_files -d "$word" ;;
		$'\tcommand '$((COMP_CWORD - 1)))
			if [[ $word == */* ]]; then
				_leaderrun_files -c "$word"
			else
				mapfile -t COMPREPLY < <(compgen -c -- "$word")
			fi
			;;
		$'\tcommand '*) _leaderrun_files -f "$word" ;;
		*) printf -v line %q "${line%%$'\t'*}"; COMPREPLY+=("$line") ;;
		esac
	done < <(leaderrun complete -- "${COMP_WORDS[@]:1:COMP_CWORD}" 2>/dev/null)
}
complete -F _leaderrun leaderrun
`,
	"zsh": `#compdef leaderrun

_leaderrun() {
	local line ret=1
	local -a offers
	for line in "${(@f)$(leaderrun complete -- "${(@Q)words[2,CURRENT]}" 2>/dev/null)}"; do
		case $line in
		$'\tfiles') _files && ret=0 ;;
		$'\tfolders') _files -/ && ret=0 ;;
		$'\tcommand '*) shift $((${line##* } + 1)) words; ((CURRENT -= ${line##* } + 1)); _normal && ret=0 ;;
		*$'\t'*) offers+=("${${line%%$'\t'*}//:/\\:}:${line#*$'\t'}") ;;
		?*) offers+=("${line//:/\\:}") ;;
		esac
	done
	(($#offers)) && _describe leaderrun offers && ret=0
	return ret
}

_leaderrun "$@"
`,
	"fish": `# fish completion for leaderrun
function __leaderrun_offers
	set -l word (commandline -ct)
	set -l words (commandline -opc)[2..-1] "$word"
	for line in (leaderrun complete -- $words 2>/dev/null)
		switch $line
			case \tfiles
				__fish_complete_path $word
			case \tfolders
				__fish_complete_directories $word
			case \tcommand\ '*'
				complete -C (string join ' ' -- (string escape -- $words[(math 1 + (string split ' ' $line)[2])..-1]))
			case '*'
				echo $line
		end
	end
end
complete -c leaderrun -f -a '(__leaderrun_offers)'
`,
}

func runCompletion(c *Call) (ExitStatus, error) {
	const form = "leaderrun completion bash|zsh|fish"
	if len(c.Args) != 1 {
		return ExitStatus{}, Usage("completion", "name one shell", form)
	}
	script, ok := shells[c.Args[0]]
	if !ok {
		return ExitStatus{}, Usage(fmt.Sprintf("%q", c.Args[0]), "no completion for this shell", form)
	}
	return ExitStatus{}, c.Print(script)
}

// CommandNames returns the names of all commands of one word.
func CommandNames() []string {
	var names []string
	for _, cmd := range topCommands() {
		names = append(names, cmd.Name)
	}
	return names
}

// completeCommand is what the scripts ask.
func completeCommand() *Command {
	return &Command{Name: "complete", Options: CommonOptions(), plain: true, Rest: true, Run: runComplete}
}

// runComplete prints what may stand in the place of the last word, a line each, with a tab before what is to be said of it. A line that
// begins with a tab says what the shell itself is to offer.
func runComplete(c *Call) (ExitStatus, error) {
	if len(c.Args) == 0 {
		return ExitStatus{}, nil
	}
	typed := c.Args[len(c.Args)-1]
	var b strings.Builder
	for _, o := range c.offers(c.Args[:len(c.Args)-1], typed) {
		switch {
		case o.word == "":
			b.WriteString("\t" + o.about + "\n")
		case strings.HasPrefix(o.word, typed):
			b.WriteString(strings.TrimSuffix(o.word+"\t"+o.about, "\t") + "\n")
		}
	}
	return ExitStatus{}, c.Print(b.String())
}

// offer is a word, and what is to be said of it. Without a word it is what the shell offers: files, folders, or command N, where the words
// of another program's command line begin with word N.
type offer struct{ word, about string }

// offers returns what may follow words.
func (c *Call) offers(before []string, typed string) []offer {
	cmd, args, ended := RootCommand(), 0, false
	cmd.Kinds = topCommands()
	for i := 0; i < len(before); i++ {
		word := before[i]
		switch {
		case cmd.Rest && args > 0 && word == "--":
			return []offer{{about: fmt.Sprintf("command %d", i+1)}}
		case cmd.Name == "run" && args > 0:
			return []offer{{about: fmt.Sprintf("command %d", i)}}
		case word == "--" && !ended:
			ended = true
		case strings.HasPrefix(word, "-") && !ended:
			o, ok := cmd.optionIn(word)
			if !ok || o.Value == "" || strings.Contains(word, "=") {
				continue
			}
			if i++; i < len(before) && before[i] == "=" { // bash makes three words of --wait=1m
				i++
			}
			if i >= len(before) {
				return o.values("")
			}
		case args == 0 && cmd.kind(word) != nil:
			cmd = cmd.kind(word)
		default:
			args++
		}
	}
	switch {
	case cmd.Name == "run" && args > 0:
		return []offer{{about: fmt.Sprintf("command %d", len(before))}}
	case strings.HasPrefix(typed, "-") && !ended:
		if o, ok := cmd.optionIn(typed); ok && strings.Contains(typed, "=") {
			return o.values(o.Flag() + "=")
		}
		return flagOffers(cmd.Options)
	}
	return c.argumentOffers(cmd, args)
}

// optionIn is the option that a word gives.
func (cmd *Command) optionIn(word string) (o Option, ok bool) {
	name, _, _ := strings.Cut(strings.TrimLeft(word, "-"), "=")
	i := slices.IndexFunc(cmd.Options, func(o Option) bool { return o.Name == name || o.Short == name && name != "" })
	if i < 0 {
		return o, false
	}
	return cmd.Options[i], true
}

// values are those that an option may have, with what stands before them in the same word.
func (o Option) values(before string) (all []offer) {
	switch o.Value {
	case "FILE":
		return []offer{{about: "files"}}
	case "DIR":
		return []offer{{about: "folders"}}
	}
	for _, word := range o.Words {
		all = append(all, offer{word: before + word})
	}
	return all
}

func flagOffers(options []Option) (all []offer) {
	for _, o := range options {
		about, _, _ := strings.Cut(o.Help, "\n")
		all = append(all, offer{o.Flag(), about})
		if o.Short != "" {
			all = append(all, offer{"-" + o.Short, about})
		}
	}
	return all
}

// argumentOffers are those for an argument of a command, behind so many.
func (c *Call) argumentOffers(cmd *Command, behind int) (all []offer) {
	place, _, _ := strings.Cut(cmd.Args, " ")
	switch name := strings.Trim(place, "[]…"); {
	case behind > 0 && !strings.Contains(place, "…"):
	case name == "JOB":
		return c.jobOffers()
	case name == "FILE", name == "PATH":
		return []offer{{about: "files"}}
	case behind > 0:
	case cmd.Name == "completion":
		for _, shell := range slices.Sorted(maps.Keys(shells)) {
			all = append(all, offer{word: shell})
		}
	case cmd.Name == "help":
		all = argumentsOf(topCommands())
		for _, topic := range slices.Sorted(maps.Keys(topics())) {
			all = append(all, offer{word: topic})
		}
	default:
		all = argumentsOf(cmd.Kinds)
	}
	return all
}

func argumentsOf(commands []*Command) (all []offer) {
	for _, cmd := range commands {
		all = append(all, offer{cmd.Word(), cmd.Brief})
	}
	return all
}

// jobsPatience is how long a store may take: whoever has pressed a key does not wait for longer. Scripts of the tests do, on a busy
// machine.
var jobsPatience = 300 * time.Millisecond

// jobOffers are the names of jobs. A store that cannot be had, or not soon, has none: nobody wants to read why in the middle of a line
// that is being typed.
func (c *Call) jobOffers() []offer {
	ctx, cancel := context.WithTimeout(context.Background(), jobsPatience)
	defer cancel()
	found := make(chan []offer, 1)
	panics.Go(func() { found <- c.namesOfJobs(ctx) })
	select {
	case names := <-found:
		return names
	case <-ctx.Done(): // also where a store does not heed it
		return nil
	}
}

// namesOfJobs returns those that a shell can take.
func (c *Call) namesOfJobs(ctx context.Context) (all []offer) {
	if c.Settings.loadFiles(AllOptions) != nil {
		return nil
	}
	store, err := c.OpenStore()
	if err != nil {
		return nil
	}
	defer store.Close()
	names, _ := store.Jobs(ctx)
	for _, name := range names {
		if !IsInternal(name) && !strings.HasPrefix(name, "-") && utf8.ValidString(name) && !strings.ContainsFunc(name, func(r rune) bool { return !unicode.IsPrint(r) }) {
			all = append(all, offer{word: name})
		}
	}
	return all
}
