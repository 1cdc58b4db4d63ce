package cli

import (
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"regexp"
	"slices"
	"strings"
	"text/tabwriter"

	"github.com/leaderrun/leaderrun/internal/crontab"
	"github.com/leaderrun/leaderrun/internal/importer"
	"github.com/leaderrun/leaderrun/internal/lint"
	"github.com/leaderrun/leaderrun/internal/value"
	"github.com/leaderrun/leaderrun/runner"
)

// formatNames are the kinds of crontabs, as --from calls them.
var formatNames = []string{"user", "system", "supercronic"} // read only

func fromOption() option {
	return option{
		name: "from", value: "user|system|supercronic", words: formatNames, check: by(value.OneOf(formatNames...)), bare: true,
		help: "what FILE is: a user's crontab, one with a user in each line, or one\nof supercronic (default: system for /etc/crontab, directories such\nas /etc/cron.d and the files in one called cron.d, else user)",
	}
}

func importCommand() *command {
	timezone := timezoneOption()
	timezone.group, timezone.def = "", ""
	timezone.help = "the zone that cron has on the hosts, where a line TZ=… would make\nleaderrun take another one"
	targets := []string{"crontab", "jobs"}
	return &command{
		name: "import", args: "[FILE…]", brief: "turn crontabs and timers into jobs of leaderrun",
		about: `Reads crontabs and prints them with each job wrapped in ` + "`leaderrun run`" + `, its schedule taken from the
line's own fields and its name from the command. FILE is a crontab, a directory such as /etc/cron.d, or - for
stdin. What is not understood for sure, and what looks after the host itself, such as logrotate, is left as it is,
with the reason in a comment above it. So is a line below the comment "# leaderrun import: leave". A file that was
imported is left alone when it is imported again.

With --user-crontab it reads what ` + "`crontab -l`" + ` prints. --in-place then installs the result by ` + "`crontab`" + `, after it has
kept the former one in the home as .crontab.before-import. Where anything is wrong, nothing is installed.

A command keeps its text. flock, setlock and timeout in front of it become options of the run where these mean the
same; other locks stay. What is to be written is read back first. In the end a table says of each line: job, it is
wrapped; look, it is, and you should see why; left, it stays as it is.

--to jobs prints a job file for ` + "`leaderrun cron`" + ` instead, of all FILEs.`,
		examples: []exampleLine{
			{"what would change in this user's crontab?", "leaderrun import --diff --user-crontab"},
			{"change it; the former one is kept", "leaderrun import --in-place --user-crontab"},
			{"a job file of the crontabs of a system", "leaderrun import --to jobs cron.d > jobs.yaml"},
			{"the same of timers of systemd", "leaderrun import --systemd --to jobs ./report.timer"},
			{"the files of a system, in place; the former ones are kept", "leaderrun import --in-place cron.d"},
		},
		options: append([]option{
			{name: "to", value: "crontab|jobs", def: "crontab", words: targets, check: by(value.OneOf(targets...)), bare: true, help: "what to write"},
			fromOption(),
			{name: "diff", bare: true, help: "print what would change"},
			{name: "in-place", bare: true, help: "change each FILE, and keep the former one as .FILE.before-import"},
			{name: "user-crontab", bare: true, help: "the crontab of the user who calls, instead of FILE"},
			{
				name: "systemd", bare: true,
				help: "FILE is a timer of systemd: a unit file, the name of an installed\nunit, or - for what `systemctl cat TIMER SERVICE` prints",
			},
			{name: "user", value: "NAME", def: "root", check: by(parseText), bare: true, help: "--to jobs: only what runs as this user, of system crontabs and units"},
			{name: "only", value: "JOB|LINE,…", many: true, check: by(parseText), bare: true, help: "wrap these and no others, also what looks after the host itself"},
			{name: "except", value: "JOB|LINE,…", many: true, check: by(parseText), bare: true, help: "leave these as they are"},
			timezone,
		}, commonOptions()...),
		run: endedAtOnce(runImport),
	}
}

func runImport(c *call) (ExitStatus, error) {
	s := c.settings
	to := read(s, "to", value.OneOf("crontab", "jobs"), "crontab")
	user := read(s, "user", parseText, "root")
	o := importer.Options{ToJobs: to == "jobs", Only: choice(s, "only"), Except: choice(s, "except")}
	if s.typed("timezone") { // that of environment and files is for runs
		o.Timezone = read(s, "timezone", parseZone, "")
	}
	diff, inPlace, units, users := s.asked("diff"), s.asked("in-place"), s.asked("systemd"), s.asked("user-crontab")
	format, err := c.givenFormat()
	switch {
	case err != nil:
		return ExitStatus{}, err
	case s.err != nil:
		return ExitStatus{}, s.err
	case users && (len(c.args) > 0 || units || format != nil && *format != crontab.User):
		return ExitStatus{}, usage("--user-crontab", "it is the crontab of a user, and takes no FILE", "leave out FILE, --systemd, --from system and --from supercronic")
	case len(c.args) == 0 && !users:
		return ExitStatus{}, usage("FILE is missing", "", "usage: "+c.cmd.usageLine())
	case diff && inPlace:
		return ExitStatus{}, usage("--diff and --in-place", "one of them changes nothing", "give one of them")
	case (diff || inPlace) && (to == "jobs" || units):
		return ExitStatus{}, usage("--diff and --in-place", "they are for crontabs that stay crontabs", "redirect stdout to a new file")
	case inPlace && slices.Contains(c.args, "-"):
		return ExitStatus{}, usage("--in-place", "stdin is no file", "--user-crontab changes the crontab of the user who calls")
	}
	back, err := c.newReadBack()
	if err != nil {
		return ExitStatus{}, err
	}
	o.Check = back.check
	var jobs []*importer.Job
	var files []*importer.File
	var notes []importer.Note
	if units {
		jobs, err = importer.Units(c.args, c.stdin, o)
	} else {
		files, notes, err = c.importCrontabs(users, format, o)
	}
	if err != nil {
		return ExitStatus{}, importFault(err)
	}
	if err := missing(o); err != nil {
		return ExitStatus{}, err
	}
	for _, f := range files {
		jobs = append(jobs, f.Jobs...)
	}
	defer func() { // after stdout's text: stderr is written by another goroutine
		c.tell(notes)
		c.table(jobs, back, to)
	}()
	switch {
	case to == "jobs":
		return c.printJobs(jobs, user)
	case units:
		return ExitStatus{}, c.print(importer.Lines(jobs, o))
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

// importCrontabs imports those of a user, or those that the arguments name. A system crontab must not be taken for a user's.
func (c *call) importCrontabs(users bool, format *crontab.Format, o importer.Options) (files []*importer.File, notes []importer.Note, err error) {
	var sources []importer.Source
	if users {
		sources = make([]importer.Source, 1)
		sources[0], err = importer.ReadUser()
	} else {
		sources, notes, err = importer.Read(c.args, c.stdin, format)
	}
	host := crontab.ThisHost()
	for i := 0; i < len(sources) && err == nil && format == nil; i++ {
		var doubts []importer.Note
		doubts, err = importer.CheckUsers(sources[i], host)
		notes = append(notes, doubts...)
	}
	if err != nil {
		return nil, nil, err
	}
	o.Packaged = importer.Packaged(sources)
	files, more := importer.Import(sources, o)
	return files, append(notes, more...), nil
}

// givenFormat is that of --from; nil: it is not given.
func (c *call) givenFormat() (*crontab.Format, error) {
	text := read(c.settings, "from", value.OneOf(formatNames...), "")
	if i := slices.Index(formatNames, text); i >= 0 {
		return new(crontab.Format(i)), nil
	}
	return nil, c.settings.err
}

// choice is what --only or --except names.
func choice(s *settings, option string) importer.Choice {
	named := importer.Choice{}
	for _, name := range strings.FieldsFunc(read(s, option, parseText, ""), func(r rune) bool { return r == ',' || r == '\n' }) {
		named[name] = false
	}
	return named
}

// missing says that something was named which is not there.
func missing(o importer.Options) error {
	for option, named := range map[string]importer.Choice{"--only": o.Only, "--except": o.Except} {
		for name, found := range named {
			if !found {
				return usage(option, fmt.Sprintf("there is no line and no job %q", name), "without the option, import prints a table of them")
			}
		}
	}
	return nil
}

// readBack asks lint about what import is to write.
type readBack struct {
	host      lint.Host
	noBackend bool // no line and no configuration file names one
}

func (c *call) newReadBack() (*readBack, error) {
	named, err := c.namesBackend()
	return &readBack{host: lint.Host{Named: named, Refuses: newRefusals().of}}, err
}

func (b *readBack) check(path string, text []byte, format crontab.Format) (wrong []importer.Wrong) {
	for _, f := range lint.Look([]lint.Source{{Path: path, Text: text, Format: format}}, b.host) {
		switch f.Rule {
		case lint.Backend:
			b.noBackend = true
		case lint.Syntax, lint.Schedule, lint.Name, lint.Call, lint.Percent:
			wrong = append(wrong, importer.Wrong{Line: f.Line, Why: f.Why})
		}
	}
	return wrong
}

// table says what became of each line, and what comes next.
func (c *call) table(jobs []*importer.Job, back *readBack, to string) {
	var b strings.Builder
	w := tabwriter.NewWriter(&b, 0, 0, 2, ' ', 0)
	for _, j := range jobs {
		place, level := j.Path, slog.LevelWarn
		if j.Line > 0 {
			place += fmt.Sprintf(":%d", j.Line)
		}
		if j.Word == importer.Wrapped {
			level = slog.LevelInfo
		}
		if c.console.json {
			c.console.event(runner.Event{Name: "imported", Level: level, Job: j.Name, Text: fmt.Sprintf("%s: %s: %s", place, j.Word, j.Why)})
		}
		fmt.Fprintf(w, "%s\t%s\t%s\t%s\n", oneLine(place), j.Word, oneLine(j.Name), oneLine(j.Why))
	}
	if c.console.json || c.console.level > slog.LevelWarn {
		return
	}
	_ = w.Flush()
	if slices.ContainsFunc(jobs, func(j *importer.Job) bool { return j.Word != importer.Left }) {
		switch {
		case to == "jobs":
			b.WriteString("next: name the backend where `leaderrun cron` starts: LEADERRUN_BACKEND_FILE=/etc/leaderrun/backend\n")
		case back.noBackend:
			b.WriteString("next: name the backend above the lines: LEADERRUN_BACKEND_FILE=/etc/leaderrun/backend\n")
		}
		b.WriteString("next: compare what all hosts have: leaderrun lint FILE…\n")
	}
	c.console.write(regexp.MustCompile(` +\n`).ReplaceAll([]byte(b.String()), []byte("\n")))
}

// tell says what is not about a line.
func (c *call) tell(notes []importer.Note) {
	for _, n := range notes {
		c.console.warn(n.Path+": "+n.Why, n.Hint)
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
		if err := c.print(fmt.Sprintf("%s: %d job(s) wrapped; the former one is %s\n", f.Path, f.Wrapped(), backup)); err != nil {
			return ExitStatus{}, err
		}
	}
	return ExitStatus{}, failed
}
