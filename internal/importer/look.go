package importer

import (
	"path"
	"slices"
	"strings"

	"github.com/leaderrun/leaderrun/internal/crontab"
)

// lookAt says what in a command may be meant for each host, and which locks stay in it. Files that a command names in redirections,
// tests and options say nothing, and neither does cd.
func (j *Job) lookAt(command *crontab.Script) {
	if lock, _ := command.Locks(); lock != "" && !strings.Contains(j.Why, "stays inside the run") {
		j.look(lock + " stays inside the run: other programs may use its lock")
	}
	if asksHost().MatchString(command.Text) {
		j.look("the host's name stands in it")
	}
	for _, words := range command.Commands {
		program := path.Base(words[0].Text)
		for _, operand := range operands(program, words[1:]) {
			if dir, _, _ := strings.Cut(strings.TrimPrefix(operand, "/"), "/"); strings.HasPrefix(operand, "/") && slices.Contains([]string{"etc", "tmp", "dev"}, dir) {
				j.look(program + " works on " + operand + ", which each host has")
				return
			}
		}
	}
}

var asksHost = pattern("(?:\\$\\(|`)\\s*(?:/usr)?(?:/bin/)?(?:hostname|uname -n)\\b|\\$\\{?HOSTNAME\\b")

// valued are the programs whose operands are looked at, and which of their options take a value. They are read only.
var valued = map[string][]string{
	"find": {"D"}, "rm": nil,
	"tar":   strings.Fields("f C T X b g H I K L N V file directory files-from exclude-from exclude listed-incremental newer format transform"),
	"rsync": strings.Fields("e f T B M rsh exclude include exclude-from include-from files-from filter password-file log-file link-dest compare-dest backup-dir temp-dir partial-dir suffix bwlimit timeout port chown chmod rsync-path out-format max-size min-size"),
}

// operands are the words of a program that are no options and no values of one.
func operands(program string, words []crontab.Token) (all []string) {
	options, known := valued[program]
	if !known {
		return nil
	}
	if program == "tar" && len(words) > 0 && words[0].Text != "" && words[0].Text[0] != '-' { // as in tar czf FILE
		words = slices.Clone(words)
		words[0].Text = "-" + words[0].Text
	}
	for len(words) > 0 {
		_, n := crontab.ReadOptions(words, options...)
		if program == "find" && n > 0 && len(all) > 0 { // the expression
			return all
		}
		if words = words[n:]; len(words) > 0 {
			all, words = append(all, words[0].Text), words[1:]
		}
	}
	return all
}
