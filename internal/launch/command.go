package launch

import (
	"slices"
	"strings"

	"github.com/leaderrun/leaderrun/internal/cli"
	"github.com/leaderrun/leaderrun/internal/supervise"
	"github.com/leaderrun/leaderrun/internal/value"
)

// CommandOf is what is run: COMMAND and its arguments, or a shell with its one line.
func CommandOf(argv []string, shell bool) ([]string, error) {
	switch {
	case !shell && argv[0] == "":
		return nil, cli.Usage("COMMAND", "it is empty", "is it a variable that is not set?")
	case !shell:
		return argv, nil
	case len(argv) != 1:
		return nil, cli.Usage("--shell", "COMMAND must be one argument", "quote the line: "+quoteLine(argv))
	case strings.TrimSpace(argv[0]) == "":
		return nil, cli.Usage("--shell", "the line is empty", "is it a variable that is not set?")
	}
	return []string{"sh", "-c", argv[0]}, nil
}

// ofShell are commands that a shell has itself, beside those that are programs, too, and the words of its grammar.
const ofShell = " . : alias bg break case cd command continue declare eval exec exit export fg for function getopts hash if jobs let local read readonly " +
	"return set shift shopt source times trap type typeset ulimit umask unalias unset until wait while [[ { ( ! "

// LookHint is the remedy for a command that LookPath has not found, with the exit code that it gave. job is the word before the command,
// where no -- stands between; else "".
func LookHint(job string, argv []string, code int) string {
	name, _, assigns := strings.Cut(argv[0], "=")
	switch {
	case strings.HasPrefix(argv[0], "~"):
		return "a shell replaces ~ only outside of quotes: leave them out, or write $HOME"
	case strings.Contains(ofShell, " "+argv[0]+" "), assigns && value.IsVariable(name):
		return "that is a shell's own: --shell takes a line for a shell"
	case slices.Contains([]string{"l", "la", "ll"}, argv[0]):
		return "that is often an alias, which only the shell knows that it was made in: write what it stands for"
	case strings.ContainsAny(argv[0], " \t|;&") && len(argv) == 1:
		return "a line for a shell needs --shell"
	case code == 126:
		return "is it a program, with its x bit set?"
	case strings.Contains(argv[0], "/"):
		return ""
	}
	const short = "cron sets a short PATH: give the whole path"
	if _, _, err := supervise.LookPath(job); err == nil && job != "" {
		return short + "; or is JOB missing before " + cli.OneLine(job) + ", which is a program?"
	}
	return short
}

// quoteLine is what people may have meant by several words after --shell.
func quoteLine(argv []string) string {
	return "'" + strings.ReplaceAll(strings.Join(argv, " "), "'", `'\''`) + "'"
}

// QuoteWord quotes a word for a shell where that is needed.
func QuoteWord(word string) string {
	const plain = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_./:@%+=-"
	if word != "" && !strings.HasPrefix(word, "-") && strings.Trim(word, plain) == "" {
		return word
	}
	return quoteLine([]string{word})
}
