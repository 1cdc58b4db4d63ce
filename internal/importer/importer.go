// Package importer turns what people have into lines and files of leaderrun: crontabs of users and of the system, those of
// supercronic, and timers of systemd.
//
// A line whose meaning it does not know for sure is kept as it is, with the reason in a comment above it. What it writes, it leaves
// alone when it reads it again.
package importer

import (
	"cmp"
	"fmt"
	"path"
	"regexp"
	"slices"
	"strings"
	"sync"

	"github.com/leaderrun/leaderrun/internal/crontab"
	"github.com/leaderrun/leaderrun/schedule"
)

// Source is a crontab that was read.
type Source struct {
	Path   string // for messages
	Text   []byte
	Format crontab.Format
}

// Options say how to import.
type Options struct {
	ToJobs   bool            // the jobs go into a job file: a line that calls leaderrun run already is not in it, and a row says so
	Timezone string          // of cron on the hosts, for lines where a variable names another for leaderrun; "": unknown
	Packaged map[string]bool // paths of sources that are as their package brought them

	Only   Choice // jobs: no others are wrapped, and these also where they look like the host's own work; empty: all
	Except Choice // jobs that stay as they are

	// Check reads back a crontab that is to be written. A line that it finds something wrong with is left. nil: nothing is read back.
	Check func(path string, text []byte, f crontab.Format) []Wrong
}

// Wrong is what Check finds in a line.
type Wrong struct {
	Line int
	Why  string
}

// Choice is what people have named: jobs by their names, lines as LINE or FILE:LINE. The value says whether there is one.
type Choice map[string]bool

func (c Choice) has(j *Job) (found bool) {
	if len(c) == 0 {
		return false
	}
	for _, key := range []string{j.Name, fmt.Sprint(j.Line), fmt.Sprintf("%s:%d", j.Path, j.Line)} {
		if _, named := c[key]; named {
			c[key], found = true, true
		}
	}
	return found
}

// The words.
const (
	Wrapped Word = "job"
	Look    Word = "look" // it is wrapped, and somebody should look whether that is what he wants
	Left    Word = "left" // it stays as it is
)

// Note is something to be told of a file.
type Note struct{ Path, Why, Hint string }

const (
	mark  = "# leaderrun import: " // begins the comments that this package writes
	leave = mark + "leave"         // is one that people write: the line below it stays as it is
)

// Import wraps the jobs of crontabs that belong together, such as all of one host: a name is given once, and a lock that two lines have
// stays.
func Import(sources []Source, o Options) ([]*File, []Note) {
	x := &importer{options: o, names: map[string]int{}, refused: map[string]error{}}
	for _, s := range sources {
		x.files = append(x.files, read(s))
	}
	for _, f := range x.files {
		x.judge(f)
	}
	for _, f := range x.files {
		for _, j := range f.Jobs {
			if n := x.names[j.Name]; n > 1 && j.Word != Left {
				j.leave(fmt.Sprintf("%d lines would be the job %q", n, j.Name), "name each of them: # job: NAME")
			}
		}
		f.write()
		if o.Check != nil {
			f.readBack(o.Check(f.Path, f.After, f.Format))
		}
	}
	return x.files, x.notes
}

type importer struct {
	options Options
	files   []*File
	users   map[string]int   // of a word: in how many lines it stands; nil: they were not counted yet
	names   map[string]int   // of jobs: how many lines have them
	refused map[string]error // of the fields that were seen
	notes   []Note
}

// isShared says whether the name of a lock file stands in more than one line.
func (x *importer) isShared(file string) bool {
	if x.users == nil {
		x.users = map[string]int{}
		for _, f := range x.files {
			for i := range f.rows {
				if l := &f.rows[i]; l.Kind != crontab.Comment {
					words := pieces(l.Text + " " + unquoted.Replace(l.Text))
					slices.Sort(words)
					for _, word := range slices.Compact(words) {
						x.users[word]++
					}
				}
			}
		}
	}
	return slices.ContainsFunc(pieces(path.Base(path.Clean(file))), func(word string) bool { return x.users[word] > 1 })
}

// unquoted takes away what may stand within a name for a shell, as in "db".lock.
var unquoted = strings.NewReplacer(`"`, "", "'", "", `\`, "")

// pieces are the words of a text that names of files are made of.
func pieces(text string) []string {
	return strings.FieldsFunc(text, func(r rune) bool {
		return r < 0x80 && (r < '0' || r > '9') && (r|0x20 < 'a' || r|0x20 > 'z') && r != '_' && r != '-' && r != '.'
	})
}

// state is what the variables so far say.
type state struct {
	of  map[string]string
	env []Variable // the last one of a name counts
}

func (s *state) set(r *row) {
	s.of[r.Name] = r.Value
	s.env = append(s.env, Variable{r.Name, r.Value})
}

// judge says what becomes of each line.
func (x *importer) judge(f *File) {
	s := &state{of: map[string]string{}}
	for i := range f.rows {
		if r := &f.rows[i]; f.Format == crontab.Supercronic && r.Kind == crontab.Setting { // for that a variable counts for the whole file
			s.set(r)
		}
	}
	for i := range f.rows {
		r := &f.rows[i]
		if r.isCut() {
			x.notes = append(x.notes, Note{Path: f.Path, Why: "the last line had no newline at its end: cron ignores such a file"})
		}
		j := &Job{Path: f.Path, Line: r.Number, Word: Wrapped}
		switch {
		case r.Kind == crontab.Setting && f.Format != crontab.Supercronic:
			s.set(r)
			continue
		case r.Kind == crontab.Broken:
			j.leave(strings.TrimPrefix(r.Name+": "+r.Why, ": "), r.Hint)
		case r.Kind != crontab.Job || !x.job(f, r, s, j):
			continue
		}
		r.job, f.Jobs = j, append(f.Jobs, j)
		if j.Word != Left {
			x.names[j.Name]++
		}
	}
}

// job makes one of a line. It is false where the line is a run already.
func (x *importer) job(f *File, r *row, s *state, j *Job) bool {
	script, _ := r.Script(f.Format)
	command := crontab.Read(s.of["SHELL"], script)
	if run, ok := command.Run(); ok {
		x.names[run.Job]++
		if x.options.ToJobs {
			j.Name = run.Job
			j.leave("it already calls `leaderrun run`", "import the line as it was before, or write the job by hand")
		}
		return x.options.ToJobs
	}
	j.Name = cmp.Or(r.name, crontab.LongName(script))
	j.percent = f.Format != crontab.Supercronic
	if command.Shell != "/bin/sh" {
		j.Shell = command.Shell
	}
	why, hint := x.cannot(f, r, s, script)
	if nameless := whyNotName(r.name); why == "" && r.name != "" && nameless != "" {
		why, hint = nameless, "give the job another name"
	}
	if j.judge(x.options, command, r.stays, why, hint); j.Word == Left {
		return true
	}
	j.Exprs, j.User, j.Env = []string{r.Fields}, r.User, slices.Clip(s.env)
	switch {
	case s.of["CRON_TZ"] != "":
		j.Timezone = s.of["CRON_TZ"]
		j.say("CRON_TZ counts for cronie; cron of Debian takes the host's zone")
	case s.of["TZ"] != "":
		j.Timezone = x.options.Timezone
	}
	j.raw = r.Command
	if j.percent {
		j.raw, j.stdin = crontab.CutPercent(r.Command)
	}
	if j.raw != script {
		command = crontab.Read(command.Shell, j.raw)
	}
	if x.peel(j, command); j.raw != command.Text {
		command = crontab.Read(command.Shell, j.raw)
	}
	j.lookAt(command)
	j.take(command)
	if n := len(j.command()); n > crontab.MaxCommand && f.Format != crontab.Supercronic {
		j.leave(fmt.Sprintf("the command would have %d bytes, and cron takes %d", n, crontab.MaxCommand), "put it into a script")
	}
	return true
}

// pattern is a regular expression that is compiled when it is first used.
func pattern(text string) func() *regexp.Regexp {
	return sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(text) })
}

// cannot says why a line is not wrapped.
func (x *importer) cannot(f *File, r *row, s *state, script string) (why, hint string) {
	if why, hint := r.NotOurs(f.Format); why != "" {
		return why, hint
	}
	shell, zone := s.of["SHELL"], s.of["CRON_TZ"]
	isCrons := f.Format != crontab.Supercronic
	err := x.schedule(r.Fields, "UTC")
	switch {
	case r.End() == "\r\n":
		return "a Windows line end, which cron makes a part of the command", `remove it: sed -i 's/\r$//' FILE`
	case r.Fields == "@reboot":
		return "@reboot is no instant that hosts could share", "it runs on each host"
	case strings.Contains(r.Fields, "~"):
		return "a~b is another time on every host", "choose one"
	case err != nil:
		return schedule.Explain(err)
	case isCrons && strings.HasPrefix(r.Fields, "@every"):
		return "cron does not know @every", ""
	case strings.Trim(script, " \t") == "":
		return "there is no command before the %", `a plain % is \%`
	case isCrons && crontab.IsCutShort(r.Command):
		return "cron ends the command at the %", `a plain % is \%`
	case f.Format == crontab.User && strings.HasPrefix(r.Command, "*"):
		return "six fields instead of five", "a crontab of supercronic: --from supercronic"
	case shell != "" && !crontab.Is(path.Base(shell), "shell"):
		return fmt.Sprintf("SHELL=%s may quote in another way than sh", shell), "wrap it by hand"
	case zone == "" && s.of["TZ"] != "" && x.options.Timezone == "":
		return "TZ is in force here: leaderrun would take it for the zone of the schedule, and cron takes the host's", "name that with --timezone"
	}
	if wrong := crontab.Refused([]byte(strings.TrimSuffix(r.Text, "\n")+"\n"), f.Format); wrong != nil {
		return "cron takes no such line: " + wrong.Why, ""
	}
	if err := x.schedule("@daily", cmp.Or(zone, "UTC")); err != nil {
		return schedule.Explain(err)
	}
	return "", ""
}

// schedule says what is wrong with one. Many lines have the same.
func (x *importer) schedule(expr, zone string) error {
	err, known := x.refused[expr+zone]
	if !known {
		_, err = schedule.Parse([]string{expr}, zone)
		x.refused[expr+zone] = err
	}
	return err
}
