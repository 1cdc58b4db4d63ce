package cli

import (
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"slices"
	"strings"

	"github.com/leaderrun/leaderrun/internal/crontab"
	"github.com/leaderrun/leaderrun/internal/importer"
	"github.com/leaderrun/leaderrun/internal/value"
	"github.com/leaderrun/leaderrun/runner"
)

// formatNames are the kinds of crontabs, as --from calls them.
var formatNames = []string{"user", "system", "supercronic"} // read only

func fromOption() option {
	return option{
		name: "from", value: "user|system|supercronic", words: formatNames, check: by(value.OneOf(formatNames...)), bare: true,
		help: "what FILE is: a user's crontab, one with a user in each line, or one\nof supercronic (default: system for /etc/crontab and directories\nsuch as /etc/cron.d, else user)",
	}
}

func importCommand() *command {
	timezone := timezoneOption()
	timezone.group, timezone.def = "", ""
	timezone.help = "the zone that cron has on the hosts, where a line TZ=… would make\nleaderrun take another one"
	targets := []string{"crontab", "jobs"}
	return &command{
		name: "import", args: "FILE…", brief: "turn crontabs and timers into jobs of leaderrun",
		about: `Reads crontabs and prints them with each job wrapped in ` + "`leaderrun run`" + `, its schedule taken from the
line's own fields and its name from the command. FILE is a crontab, a directory such as /etc/cron.d, or - for
stdin. What is not understood for sure, and what looks after the host itself, such as logrotate, is kept as it is,
with the reason in a comment above it. So is a line below the comment "# leaderrun import: leave". A file that was
imported is left alone when it is imported again.

flock, setlock, lockrun, cronlock, consul lock, etcdctl lock and timeout in front of a command become options
of the run where these mean the same; else they stay, and it is said.

--to jobs prints a job file for ` + "`leaderrun cron`" + ` instead, of all FILEs.`,
		examples: []exampleLine{
			{"what would change in this user's crontab?", "crontab -l | leaderrun import --diff -"},
			{"change it", "crontab -l | leaderrun import - | crontab -"},
			{"a job file of the crontabs of a system", "leaderrun import --to jobs cron.d > jobs.yaml"},
			{"the same of timers of systemd", "leaderrun import --systemd --to jobs ./report.timer"},
			{"the files of a system, in place; the former ones are kept", "leaderrun import --in-place cron.d"},
		},
		options: append([]option{
			{name: "to", value: "crontab|jobs", def: "crontab", words: targets, check: by(value.OneOf(targets...)), bare: true, help: "what to write"},
			fromOption(),
			{name: "diff", bare: true, help: "print what would change"},
			{name: "in-place", bare: true, help: "change each FILE, and keep the former one as .FILE.before-import"},
			{
				name: "systemd", bare: true,
				help: "FILE is a timer of systemd: a unit file, the name of an installed\nunit, or - for what `systemctl cat TIMER SERVICE` prints",
			},
			{name: "user", value: "NAME", def: "root", check: by(parseText), bare: true, help: "--to jobs: only what runs as this user, of system crontabs and units"},
			timezone,
		}, commonOptions()...),
		run: endedAtOnce(runImport),
	}
}

func runImport(c *call) (ExitStatus, error) {
	s := c.settings
	to := read(s, "to", value.OneOf("crontab", "jobs"), "crontab")
	user := read(s, "user", parseText, "root")
	o := importer.Options{ToJobs: to == "jobs"}
	if s.typed("timezone") { // that of environment and files is for runs
		o.Timezone = read(s, "timezone", parseZone, "")
	}
	diff, inPlace, units := s.asked("diff"), s.asked("in-place"), s.asked("systemd")
	format, err := c.givenFormat()
	switch {
	case err != nil:
		return ExitStatus{}, err
	case s.err != nil:
		return ExitStatus{}, s.err
	case len(c.args) == 0:
		return ExitStatus{}, usage("FILE is missing", "", "usage: "+c.cmd.usageLine())
	case diff && inPlace:
		return ExitStatus{}, usage("--diff and --in-place", "one of them changes nothing", "give one of them")
	case (diff || inPlace) && (to == "jobs" || units):
		return ExitStatus{}, usage("--diff and --in-place", "they are for crontabs that stay crontabs", "redirect stdout to a new file")
	}
	if units {
		return c.importUnits(to, user)
	}
	sources, skipped, err := importer.Read(c.args, c.stdin, format)
	if err != nil {
		return ExitStatus{}, importFault(err)
	}
	files, notes := importer.Import(sources, o)
	defer c.tell(append(skipped, notes...)) // after stdout's text: stderr is written by another goroutine
	switch {
	case to == "jobs":
		var jobs []*importer.Job
		for _, f := range files {
			jobs = append(jobs, f.Jobs...)
		}
		return c.printJobs(jobs, user)
	case inPlace:
		return c.writeImported(files)
	case diff:
		var b strings.Builder
		for _, f := range files {
			b.WriteString(f.Diff())
		}
		return ExitStatus{}, c.print(b.String())
	case len(files) != 1:
		return ExitStatus{}, usage("several files", "they would become one", "give --diff, --in-place, or one file")
	}
	return ExitStatus{}, c.print(string(files[0].After))
}

// givenFormat is that of --from; nil: it is not given.
func (c *call) givenFormat() (*crontab.Format, error) {
	text := read(c.settings, "from", value.OneOf(formatNames...), "")
	if i := slices.Index(formatNames, text); i >= 0 {
		return new(crontab.Format(i)), nil
	}
	return nil, c.settings.err
}

// tell says what came of lines.
func (c *call) tell(notes []importer.Note) {
	for _, n := range notes {
		text := n.Path
		if n.Line > 0 {
			text += fmt.Sprintf(":%d", n.Line)
		}
		if n.Info {
			c.console.event(runner.Event{Name: "imported", Level: slog.LevelInfo, Text: text + ": " + n.Why, Hint: n.Hint})
			continue
		}
		c.console.warn(text+": "+n.Why, n.Hint)
	}
}

func importFault(err error) error {
	f := fileFault(err, "")
	if refusal, ok := errors.AsType[*importer.Refusal](err); ok {
		f.hint = refusal.Hint
	}
	if f.hint == "" && errors.Is(err, fs.ErrPermission) {
		f.hint = "run it as root, or as the owner of the file"
	}
	return f
}

func (c *call) printJobs(jobs []*importer.Job, user string) (ExitStatus, error) {
	text, notes := importer.JobFile(jobs, user)
	defer c.tell(notes)
	if text == "" {
		return ExitStatus{}, &fault{code: codeConfiguration, why: "there is no job to write"}
	}
	return ExitStatus{}, c.print(text)
}

// writeImported changes files. One that must not be changed does not keep the others.
func (c *call) writeImported(files []*importer.File) (ExitStatus, error) {
	var failed error
	for _, f := range files {
		if f.Path == "stdin" {
			return ExitStatus{}, usage("--in-place", "stdin is no file", "crontab -l | leaderrun import - | crontab -")
		}
	}
	for _, f := range files {
		if !f.Changed() {
			if err := c.print(f.Path + ": nothing to change\n"); err != nil {
				return ExitStatus{}, err
			}
			continue
		}
		backup, err := f.Write()
		if err != nil {
			if failed != nil {
				c.console.fault(failed)
			}
			failed = importFault(err)
			continue
		}
		if err := c.print(fmt.Sprintf("%s: %d job(s) wrapped; the former file is %s\n", f.Path, len(f.Jobs), backup)); err != nil {
			return ExitStatus{}, err
		}
	}
	return ExitStatus{}, failed
}

// importUnits turns timers of systemd into lines or jobs.
func (c *call) importUnits(to, user string) (ExitStatus, error) {
	jobs, notes, err := importer.Units(c.args, c.stdin)
	if err != nil {
		return ExitStatus{}, importFault(err)
	}
	c.tell(notes)
	if to == "jobs" {
		return c.printJobs(jobs, user)
	}
	text, notes := importer.Lines(jobs)
	c.tell(notes)
	return ExitStatus{}, c.print(text)
}
