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
	if writesKernel().MatchString(command.Text) {
		j.look("it writes to the kernel, which each host has")
	}
	for _, words := range command.Commands {
		for _, operand := range crontab.Operands(words) {
			if dir, _, _ := strings.Cut(strings.TrimPrefix(operand, "/"), "/"); strings.HasPrefix(operand, "/") && slices.Contains([]string{"etc", "tmp", "dev"}, dir) {
				j.look(path.Base(words[0].Text) + " works on " + operand + ", which each host has")
				return
			}
		}
	}
}

var (
	asksHost     = pattern("(?:\\$\\(|`)\\s*(?:/usr)?(?:/bin/)?(?:hostname|uname -n)\\b|\\$\\{?HOSTNAME\\b")
	writesKernel = pattern(`>\s*/(?:proc|sys)/`)
)
