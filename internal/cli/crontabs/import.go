// Package crontabs has the commands that read crontabs of others: import and lint.
package crontabs

import (
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"regexp"
	"slices"
	"strings"
	"text/tabwriter"

	"github.com/leaderrun/leaderrun/internal/cli"
	"github.com/leaderrun/leaderrun/internal/crontab"
	"github.com/leaderrun/leaderrun/internal/importer"
	"github.com/leaderrun/leaderrun/internal/launch"
	"github.com/leaderrun/leaderrun/internal/lint"
	"github.com/leaderrun/leaderrun/internal/value"
	"github.com/leaderrun/leaderrun/runner"
)

// Import is `leaderrun import`.
func Import() *cli.Command {
	timezone := launch.TimezoneOption()
	timezone.Group, timezone.Def = "", ""
	timezone.Help = "the zone that cron has on the hosts, where a line TZ=… would make\nleaderrun take another one"
	targets := []string{"crontab", "jobs"}
	return &cli.Command{
		Name: "import", Args: "[FILE…]", Brief: "turn crontabs and timers into jobs of leaderrun",
		About: `Reads crontabs and prints them with each job wrapped in ` + "`leaderrun run`" + `, its schedule taken from the
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
		Examples: []cli.ExampleLine{
			{Does: "what would change in this user's crontab?", Line: "leaderrun import --diff --user-crontab"},
			{Does: "change it; the former one is kept", Line: "leaderrun import --in-place --user-crontab"},
			{Does: "a job file of the crontabs of a system", Line: "leaderrun import --to jobs cron.d > jobs.yaml"},
			{Does: "the same of timers of systemd", Line: "leaderrun import --systemd --to jobs ./report.timer"},
			{Does: "the files of a system, in place; the former ones are kept", Line: "leaderrun import --in-place cron.d"},
		},
		Options: append([]cli.Option{
			{Name: "to", Value: "crontab|jobs", Def: "crontab", Words: targets, Check: cli.By(value.OneOf(targets...)), Bare: true, Help: "what to write"},
			cli.FromOption(),
			{Name: "diff", Bare: true, Help: "print what would change"},
			{Name: "in-place", Bare: true, Help: "change each FILE, and keep the former one as .FILE.before-import"},
			{Name: "user-crontab", Bare: true, Help: "the crontab of the user who calls, instead of FILE"},
			{
				Name: "systemd", Bare: true,
				Help: "FILE is a timer of systemd: a unit file, the name of an installed\nunit, or - for what `systemctl cat TIMER SERVICE` prints",
			},
			{Name: "user", Value: "NAME", Def: "root", Check: cli.By(cli.ParseText), Bare: true, Help: "--to jobs: only what runs as this user, of system crontabs and units"},
			{Name: "only", Value: "JOB|LINE,…", Many: true, Check: cli.By(cli.ParseText), Bare: true, Help: "wrap these and no others, also what looks after the host itself"},
			{Name: "except", Value: "JOB|LINE,…", Many: true, Check: cli.By(cli.ParseText), Bare: true, Help: "leave these as they are"},
			timezone,
		}, cli.CommonOptions()...),
		Run: launch.EndedAtOnce(runImport),
	}
}

func runImport(c *cli.Call) (cli.ExitStatus, error) {
	s := c.Settings
	to := cli.Read(s, "to", value.OneOf("crontab", "jobs"), "crontab")
	user := cli.Read(s, "user", cli.ParseText, "root")
	o := importer.Options{ToJobs: to == "jobs", Only: choice(s, "only"), Except: choice(s, "except")}
	if s.Typed("timezone") { // that of environment and files is for runs
		o.Timezone = cli.Read(s, "timezone", launch.ParseZone, "")
	}
	diff, inPlace, units, users := s.Asked("diff"), s.Asked("in-place"), s.Asked("systemd"), s.Asked("user-crontab")
	format, err := givenFormat(c)
	switch {
	case err != nil:
		return cli.ExitStatus{}, err
	case s.Err != nil:
		return cli.ExitStatus{}, s.Err
	case users && (len(c.Args) > 0 || units || format != nil && *format != crontab.User):
		return cli.ExitStatus{}, cli.Usage("--user-crontab", "it is the crontab of a user, and takes no FILE", "leave out FILE, --systemd, --from system and --from supercronic")
	case len(c.Args) == 0 && !users:
		return cli.ExitStatus{}, cli.Usage("FILE is missing", "", "usage: "+c.Cmd.UsageLine())
	case diff && inPlace:
		return cli.ExitStatus{}, cli.Usage("--diff and --in-place", "one of them changes nothing", "give one of them")
	case (diff || inPlace) && (to == "jobs" || units):
		return cli.ExitStatus{}, cli.Usage("--diff and --in-place", "they are for crontabs that stay crontabs", "redirect stdout to a new file")
	case inPlace && slices.Contains(c.Args, "-"):
		return cli.ExitStatus{}, cli.Usage("--in-place", "stdin is no file", "--user-crontab changes the crontab of the user who calls")
	}
	back := &readBack{host: lint.Host{Named: namesBackend(c), Refuses: newRefusals().of}}
	o.Check = back.check
	var jobs []*importer.Job
	var files []*importer.File
	var notes []importer.Note
	if units {
		jobs, err = importer.Units(c.Args, c.Stdin, o)
	} else {
		files, notes, err = importCrontabs(c, users, format, o)
	}
	if err != nil {
		return cli.ExitStatus{}, importFault(err)
	}
	if err := missing(o); err != nil {
		return cli.ExitStatus{}, err
	}
	for _, f := range files {
		jobs = append(jobs, f.Jobs...)
	}
	defer func() { // after stdout's text: stderr is written by another goroutine
		tell(c, notes)
		table(c, jobs, back, to)
	}()
	switch {
	case to == "jobs":
		return printJobs(c, jobs, user)
	case units:
		return cli.ExitStatus{}, c.Print(importer.Lines(jobs, o))
	case inPlace:
		return writeImported(c, files)
	case diff:
		var b strings.Builder
		for _, f := range files {
			b.WriteString(f.Diff())
		}
		return cli.ExitStatus{}, c.Print(b.String())
	case len(files) != 1:
		return cli.ExitStatus{}, cli.Usage("several files", "they would become one", "give --diff, --in-place, or one file")
	}
	return cli.ExitStatus{}, c.Print(string(files[0].After))
}

// importCrontabs imports those of a user, or those that the arguments name. A system crontab must not be taken for a user's.
func importCrontabs(c *cli.Call, users bool, format *crontab.Format, o importer.Options) (files []*importer.File, notes []importer.Note, err error) {
	var sources []importer.Source
	if users {
		sources = make([]importer.Source, 1)
		sources[0], err = importer.ReadUser()
	} else {
		sources, notes, err = importer.Read(c.Args, c.Stdin, format)
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
func givenFormat(c *cli.Call) (*crontab.Format, error) {
	text := cli.Read(c.Settings, "from", value.OneOf(cli.FormatNames...), "")
	if i := slices.Index(cli.FormatNames, text); i >= 0 {
		return new(crontab.Format(i)), nil
	}
	return nil, c.Settings.Err
}

// choice is what --only or --except names.
func choice(s *cli.Settings, option string) importer.Choice {
	named := importer.Choice{}
	for _, name := range strings.FieldsFunc(cli.Read(s, option, cli.ParseText, ""), func(r rune) bool { return r == ',' || r == '\n' }) {
		named[name] = false
	}
	return named
}

// missing says that something was named which is not there.
func missing(o importer.Options) error {
	for option, named := range map[string]importer.Choice{"--only": o.Only, "--except": o.Except} {
		for name, found := range named {
			if !found {
				return cli.Usage(option, fmt.Sprintf("there is no line and no job %q", name), "without the option, import prints a table of them")
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
func table(c *cli.Call, jobs []*importer.Job, back *readBack, to string) {
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
		if c.Console.JSON {
			c.Console.Event(runner.Event{Name: "imported", Level: level, Job: j.Name, Text: fmt.Sprintf("%s: %s: %s", place, j.Word, j.Why)})
		}
		fmt.Fprintf(w, "%s\t%s\t%s\t%s\n", cli.OneLine(place), j.Word, cli.OneLine(j.Name), cli.OneLine(j.Why))
	}
	if c.Console.JSON || c.Console.Level > slog.LevelWarn {
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
	c.Console.Write(regexp.MustCompile(` +\n`).ReplaceAll([]byte(b.String()), []byte("\n")))
}

// tell says what is not about a line.
func tell(c *cli.Call, notes []importer.Note) {
	for _, n := range notes {
		c.Console.Warn(n.Path+": "+n.Why, n.Hint)
	}
}

func importFault(err error) error {
	f := cli.FileFault(err, "")
	if refusal, ok := errors.AsType[*importer.Refusal](err); ok {
		f.Hint = refusal.Hint
	}
	if f.Hint == "" && errors.Is(err, fs.ErrPermission) {
		f.Hint = "run it as root, or as the owner of the file"
	}
	return f
}

func printJobs(c *cli.Call, jobs []*importer.Job, user string) (cli.ExitStatus, error) {
	text, notes := importer.JobFile(jobs, user)
	defer tell(c, notes)
	if text == "" {
		return cli.ExitStatus{}, &cli.Fault{Code: cli.CodeConfiguration, Why: "there is no job to write"}
	}
	return cli.ExitStatus{}, c.Print(text)
}

// writeImported changes files. One that must not be changed does not keep the others.
func writeImported(c *cli.Call, files []*importer.File) (cli.ExitStatus, error) {
	var failed error
	for _, f := range files {
		if !f.Changed() {
			if err := c.Print(f.Path + ": nothing to change\n"); err != nil {
				return cli.ExitStatus{}, err
			}
			continue
		}
		backup, err := f.Write()
		if err != nil {
			if failed != nil {
				c.Console.Fault(failed)
			}
			failed = importFault(err)
			continue
		}
		if err := c.Print(fmt.Sprintf("%s: %d job(s) wrapped; the former one is %s\n", f.Path, f.Wrapped(), backup)); err != nil {
			return cli.ExitStatus{}, err
		}
	}
	return cli.ExitStatus{}, failed
}
