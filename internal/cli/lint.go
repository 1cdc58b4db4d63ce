package cli

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/leaderrun/leaderrun/internal/importer"
	"github.com/leaderrun/leaderrun/internal/lint"
	"github.com/leaderrun/leaderrun/internal/value"
)

func lintCommand() *command {
	return &command{
		name: "lint", args: "[FILE…]", brief: "find what is wrong with crontabs and job files",
		about: `Looks at crontabs that call ` + "`leaderrun run`" + `, at directories of them, and at job files (.yaml). Each FILE is taken
for that of another host, and what they must agree on is compared; a directory is one host's. - is stdin. Without
FILE it looks at /etc/crontab and /etc/cron.d.

It finds a --schedule that is not when cron starts the line; one name for two commands, and two for one; no
backend, or file: on several hosts; commands, options and arguments that leaderrun refuses; a % that ends the
command; commands beside the run, which every host runs; locks inside a run; what makes cron ignore the whole
file; and, in the files that this host's cron reads and on stdin, a leaderrun that is not in cron's PATH. The exit
code is 1 if anything is found.`,
		examples: []exampleLine{
			{"this host", "leaderrun lint cron.d"},
			{"what two hosts must agree on", "leaderrun lint host1/crontab host2/crontab"},
			{"for a program", "leaderrun lint --json cron.d"},
		},
		options: append([]option{
			fromOption(),
			{name: "json", help: "one array of objects"},
			{name: "format", value: "text|json", words: formats, check: by(value.OneOf(formats...)), bare: true, help: "json is --json"},
		}, commonOptions()...),
		run: endedAtOnce(runLint),
	}
}

func runLint(c *call) (ExitStatus, error) {
	asJSON := c.settings.on("json")
	as := read(c.settings, "format", value.OneOf(formats...), "")
	format, err := c.givenFormat()
	switch {
	case as == "text" && asJSON && c.settings.typed("json"):
		return ExitStatus{}, usage("--format and --json", "they say two things", "give one of them")
	case err != nil:
		return ExitStatus{}, err
	case c.settings.err != nil:
		return ExitStatus{}, c.settings.err
	}
	named, err := c.namesBackend()
	if err != nil {
		return ExitStatus{}, err
	}
	paths, oneHost := c.args, false
	if len(paths) == 0 {
		oneHost = true
		for _, path := range []string{"/etc/crontab", "/etc/cron.d"} {
			if _, err := os.Stat(path); err == nil {
				paths = append(paths, path)
			}
		}
	}
	var sources []lint.Source
	for i, path := range paths {
		read, skipped, err := importer.Read([]string{path}, c.stdin, format)
		if err != nil {
			return ExitStatus{}, importFault(err)
		}
		c.tell(skipped)
		if oneHost {
			i = 0
		}
		for _, s := range read {
			sources = append(sources, lint.Source{Path: s.Path, Text: s.Text, Format: s.Format, Host: i, Has: ours(path)})
		}
	}
	found := lint.Look(sources, lint.Host{Named: named, Refuses: refuses})
	end := ExitStatus{}
	if len(found) > 0 {
		end.Code = codeBad
	}
	return end, show(c, as == "json" || as == "" && asJSON, found, lintText)
}

// namesBackend says whether a backend is named where jobs run, which do not see the variables of this shell.
func (c *call) namesBackend() (bool, error) {
	g, named, err := c.backend()
	return named && !strings.HasPrefix(g.place, prefix), err
}

// refuses says what leaderrun has against the words of a crontab behind its name, whatever the configuration and variables of its host
// are. Of other commands than run only the name is looked at.
func refuses(words []string) (why, remedy string) {
	s := newSettings(func(string) (string, bool) { return "", false })
	root := rootCommand()
	root.kinds = []*command{runCommand()}
	cmd, args, _, err := s.walk(root, words)
	switch {
	case err != nil:
	case cmd.name == "run":
		s.few = len(args) < cmd.least()
		_, err = (&call{cmd: cmd, args: args, settings: s}).planRun()
	case len(args) > 0 && !slices.Contains(commandNames(), args[0]):
		err = noCommand(args[0])
	}
	f, ok := errors.AsType[*fault](err)
	if !ok || f.code != codeUsage || s.asked("help") {
		return "", ""
	}
	return f.Error(), f.hint
}

// ours tells whether this host has a program, where its own cron reads a file, or may: what stdin has is mostly of `crontab -l`. For
// files of other hosts, or copies, it is nil.
func ours(path string) func(program string) bool {
	abs, err := filepath.Abs(path)
	if path != "-" && (err != nil || abs != "/etc/crontab" && !strings.HasPrefix(abs+"/", "/etc/cron.d/") && !strings.HasPrefix(abs+"/", "/var/spool/cron/")) {
		return nil
	}
	return func(program string) bool {
		info, err := os.Stat(program)
		return err == nil && info.Mode().IsRegular() && info.Mode()&0o111 != 0
	}
}

func lintText(found []lint.Finding) string {
	var b strings.Builder
	for _, f := range found {
		place := f.Path
		if f.Line > 0 {
			place = fmt.Sprintf("%s:%d", f.Path, f.Line)
		}
		if f.Job != "" {
			place += ": " + oneLine(f.Job)
		}
		fmt.Fprintf(&b, "%s: %s: %s\n", place, f.Rule, oneLine(f.Why))
		writeHint(&b, f.Remedy)
	}
	return b.String()
}
