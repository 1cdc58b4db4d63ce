package cli

import (
	"cmp"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"

	"github.com/leaderrun/leaderrun/backends/all"
	"github.com/leaderrun/leaderrun/internal/account"
	"github.com/leaderrun/leaderrun/internal/crontab"
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

It finds what makes a job run twice, or not at all: ticks that are not when cron starts the line; one name for two
commands, and two for one; no backend, or another one than on another host; a job's command without leaderrun;
commands, options, variables and arguments that leaderrun refuses; a % that ends the command; commands beside the
run, which every host runs; what goes on in the background; what looks after the host; locks and runs inside a
run; what makes cron ignore the whole file; and, in the files that this host's cron reads and on stdin, a leaderrun
that is not in cron's PATH. The comment "# leaderrun lint: ok RULE" above a line silences a rule. The exit code is 1
if anything is found.`,
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
	paths := c.args
	if len(paths) == 0 {
		paths = slices.DeleteFunc([]string{"/etc/crontab", "/etc/cron.d"}, func(path string) bool { _, err := os.Stat(path); return err != nil })
	}
	var sources []lint.Source
	for i, path := range paths {
		read, skipped, err := importer.Read([]string{path}, c.stdin, format)
		if err != nil {
			return ExitStatus{}, importFault(err)
		}
		c.tell(skipped)
		if len(c.args) == 0 {
			i = 0 // they are one host's
		}
		for _, s := range read {
			source := lint.Source{Path: s.Path, Text: s.Text, Format: s.Format, Host: i, Here: isRead(path)}
			if source.Here {
				source.Refused = cronRefuses(s.Path)
			}
			sources = append(sources, source)
		}
	}
	this := crontab.ThisHost()
	found := lint.Look(sources, lint.Host{Named: named, Refuses: newRefusals().of, This: &this})
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

// refusals says what leaderrun has against words of a crontab. The lines are many, and the options of most are the same: those that were
// taken are kept.
type refusals struct {
	root      *command
	variables map[string]string
	taken     map[string]*call
}

func newRefusals() *refusals {
	root := rootCommand()
	root.kinds = []*command{runCommand()}
	return &refusals{root: root, taken: map[string]*call{}}
}

// of says it of the words behind the name, up to the job and from that on, and of the variables above them, whatever else its host has. Of
// other commands than run only the name is looked at.
func (r *refusals) of(options, args []string, variables map[string]string) (why, remedy string) {
	r.variables = variables
	key := strings.Join(options, "\x00")
	c, err := r.taken[key], error(nil)
	delete(r.taken, key) // what fails is not asked again
	if c == nil {
		c = &call{settings: newSettings(func(name string) (text string, ok bool) {
			text, ok = r.variables[name]
			return text, ok
		})}
		c.cmd, args, _, err = c.settings.walk(r.root, slices.Concat(options, args))
	}
	s := c.settings
	switch {
	case err != nil:
	case c.cmd.name == "run":
		s.few = len(args) < c.cmd.least()
		c.args = args
		if _, err = c.planRun(); err == nil {
			r.taken[key] = c
			err = cmp.Or(wrongBackend(s), partedUnit(s, args[0]))
		}
	case len(args) > 0 && !slices.Contains(commandNames(), args[0]):
		err = noCommand(args[0])
	}
	f, ok := errors.AsType[*fault](err)
	if !ok || f.code != codeUsage && !strings.Contains(f.what, prefix) || s.asked("help") {
		return "", ""
	}
	return f.Error(), f.hint
}

// wrongBackend says what is wrong with the URL of a backend by itself: its files and servers may be another host's.
func wrongBackend(s *settings) error {
	g, named := s.find("backend")
	if !named {
		return nil
	}
	_, err := parseBackend(g.text)
	if err == nil {
		_, err = all.PlaceOf(g.text)
	}
	if err == nil {
		return nil
	}
	f := badValue(g, err)
	f.hint = cmp.Or(hintOf(err), f.hint)
	return f
}

// partedUnit finds a job that was meant for the unit of a duration, as in --timeout 5 m JOB.
func partedUnit(s *settings, job string) error {
	if !slices.Contains([]string{"ms", "s", "m", "h", "d", "sec", "min", "hours", "minutes", "seconds", "days"}, job) {
		return nil
	}
	for _, o := range runOptions() {
		text := s.word(o).text
		if _, err := strconv.Atoi(text); err == nil && strings.HasPrefix(o.value, "D") {
			return usage(o.flag()+" "+text, "the next word, "+job+", is taken for JOB", "write "+o.flag()+" "+text+job)
		}
	}
	return nil
}

// cronRefuses says why this host's cron does not read a file, whatever is in it: cron(8) of Debian logs INSECURE MODE, WRONG FILE OWNER, BAD
// LINK COUNT and ORPHAN. "": it does, or it is no file.
func cronRefuses(path string) string {
	info, err := os.Stat(path)
	if err != nil {
		return ""
	}
	st, ok := info.Sys().(*syscall.Stat_t)
	owner, isKnown := account.Account{Name: "root"}, true
	if strings.HasPrefix(path, "/var/spool/cron/") {
		owner, err = account.Lookup(filepath.Base(path))
		isKnown = err == nil
	}
	switch {
	case !ok:
		return ""
	case info.Mode().Perm()&0o022 != 0:
		return fmt.Sprintf("others can write it: mode %o", info.Mode().Perm())
	case st.Nlink > 1:
		return "it has another name (a hard link)"
	case !isKnown:
		return "no user in /etc/passwd is called like it"
	case st.Uid != owner.UID && st.Uid != 0:
		return "it does not belong to " + owner.Name
	}
	return ""
}

// isRead says whether this host's cron reads a file, or may: what stdin has is mostly of `crontab -l`.
func isRead(path string) bool {
	abs, err := filepath.Abs(path)
	return path == "-" || err == nil && (abs == "/etc/crontab" || strings.HasPrefix(abs+"/", "/etc/cron.d/") || strings.HasPrefix(abs+"/", "/var/spool/cron/"))
}

func lintText(found []lint.Finding) string {
	var b strings.Builder
	for _, f := range found {
		b.WriteString(findingText(f) + "\n")
		writeHint(&b, f.Remedy)
	}
	return b.String()
}

func findingText(f lint.Finding) string {
	place := f.Path
	if f.Line > 0 {
		place = fmt.Sprintf("%s:%d", f.Path, f.Line)
	}
	if f.Job != "" {
		place += ": " + oneLine(f.Job)
	}
	return fmt.Sprintf("%s: %s: %s", place, f.Rule, oneLine(f.Why))
}
