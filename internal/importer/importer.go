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
	"slices"
	"strings"

	"github.com/leaderrun/leaderrun/internal/crontab"
	"github.com/leaderrun/leaderrun/internal/slots"
	"github.com/leaderrun/leaderrun/internal/value"
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
	ToJobs   bool            // the jobs go into a job file: a line that calls leaderrun run already is not in it, and a note says so
	Timezone string          // of cron on the hosts, for lines where a variable names another for leaderrun; "": unknown
	Packaged map[string]bool // paths of sources that are as their package brought them
}

// Note is something to be told of a line.
type Note struct {
	Path string
	Line int
	Why  string
	Hint string
	Kept bool // the line was not understood, or must not be changed, and stays as it is
	Info bool // all went well
}

// Job is a job that was found.
type Job struct {
	Path, Name string
	Line       int
	Exprs      []string   // at least one
	Timezone   string     // ""; the host's
	User       string     // of a system crontab or a unit, for which it is root where it names none
	Env        []Variable // of which the last of a name counts; shared with other jobs, to be read only
	Shell      string     // of the crontab, absolute; "": /bin/sh
	Dir        string     // where it starts, absolute; "": the home of its user

	// The command, in the form that a crontab has it: raw is for the shell and may have \%, and stdin begins with the % before it.
	raw, stdin string
	options    []option // of leaderrun run
	percent    bool     // raw has \% for %
	group      string   // KEY=value of a unit that gives it another group than its user's
	lost       []string // KEY= of units of which a job has nothing
}

// Variable is one of the environment.
type Variable struct{ Name, Value string }

// option is one of leaderrun run, and the key of a job file that says the same; "": none does.
type option struct{ name, value, key, keyValue string }

// File is a crontab that was imported.
type File struct {
	Source
	After []byte // what to write
	Jobs  []*Job // those that were found now, not what was wrapped before
	pairs []pair
}

// pair is a line and what became of it.
type pair struct{ before, after string }

// Changed says whether there is anything to write.
func (f *File) Changed() bool { return string(f.Text) != string(f.After) }

const (
	mark  = "# leaderrun import: " // begins the comments that this package writes
	leave = mark + "leave"         // is one that people write: the line below it stays as it is
)

func isMark(l *crontab.Line) bool {
	return l.Kind == crontab.Comment && strings.HasPrefix(strings.TrimLeft(l.Text, " \t"), mark)
}

// Import wraps the jobs of crontabs that belong together, such as all of one host: a name is given once.
func Import(sources []Source, o Options) ([]*File, []Note) {
	x := &importer{options: o}
	parsed := make([][]crontab.Line, len(sources))
	for i, s := range sources {
		parsed[i] = crontab.Parse(s.Text, s.Format)
		x.survey(parsed[i], s.Format)
	}
	var files []*File
	for i, s := range sources {
		f := &File{Source: s}
		x.file(f, parsed[i])
		files = append(files, f)
	}
	return files, x.notes
}

type importer struct {
	options Options
	names   crontab.Names
	given   crontab.Names // those of the lines so far, by themselves or by a comment
	lines   []string      // the words of each job's line, one below the other
	notes   []Note
}

// survey takes the names that are given already, and keeps what the lines say of lock files.
func (x *importer) survey(lines []crontab.Line, f crontab.Format) {
	for i := range lines {
		l := &lines[i]
		if l.Kind != crontab.Job {
			continue
		}
		script, _ := l.Script(f)
		tokens, _ := crontab.Tokens(script)
		if run, ok := crontab.FindRun(tokens); ok {
			x.names.Take(run.Job)
		} else if name := given(lines, i); name != "" {
			x.names.Take(name)
		}
		var words []string
		for _, t := range tokens {
			words = append(words, t.Text)
		}
		x.lines = append(x.lines, strings.Join(words, "\n"))
	}
}

// given is the name in a comment "# job: NAME" right above a line, but for what this package has written; "": there is none.
func given(lines []crontab.Line, at int) string {
	for at > 0 && isMark(&lines[at-1]) {
		at--
	}
	if at == 0 || lines[at-1].Kind != crontab.Comment {
		return ""
	}
	name, _ := crontab.NameIn(lines[at-1].Text)
	return name
}

// left says whether a comment right above a line says that it stays.
func left(lines []crontab.Line, at int) bool {
	return at > 0 && lines[at-1].Kind == crontab.Comment && strings.TrimSpace(lines[at-1].Text) == leave
}

// state is what the variables so far say.
type state struct {
	shell, tz, cronTZ string
	env               []Variable
}

func (s *state) set(l *crontab.Line) {
	switch l.Name {
	case "SHELL":
		s.shell = l.Value
	case "TZ":
		s.tz = l.Value
	case "CRON_TZ":
		s.cronTZ = l.Value
	}
	s.env = append(s.env, Variable{l.Name, l.Value})
}

func (x *importer) file(f *File, lines []crontab.Line) {
	var s state
	var out strings.Builder
	for i := range lines {
		if l := &lines[i]; f.Format == crontab.Supercronic && l.Kind == crontab.Setting { // for that a variable counts for the whole file
			s.set(l)
		}
	}
	for i := range lines {
		l := &lines[i]
		if isMark(l) && strings.TrimSpace(l.Text) != leave {
			f.pairs = append(f.pairs, pair{l.Text, ""}) // it is written again where it still holds
			continue
		}
		after := l.Text
		if l.End() == "" && (l.Kind != crontab.Comment && l.Kind != crontab.Blank) {
			after += "\n"
			x.note(f, l, Note{Why: "the last line had no newline at its end: cron ignores such a file", Info: true})
		}
		switch l.Kind {
		case crontab.Setting:
			if f.Format != crontab.Supercronic {
				s.set(l)
			}
		case crontab.Broken:
			after = x.keep(f, l, l.Why, l.Hint) + after
		case crontab.Job:
			if left(lines, i) {
				break
			}
			job, why, hint := x.job(f, l, &s, given(lines, i))
			switch {
			case why != "":
				after = x.keep(f, l, why, hint) + after
			case job != nil:
				f.Jobs = append(f.Jobs, job)
				end := l.End()
				if end == "" {
					end = "\n"
				}
				after = l.Text[:l.At] + job.command() + end
			}
		}
		f.pairs = append(f.pairs, pair{l.Text, after})
	}
	for i, p := range f.pairs { // a comment that is written again is no change
		if p.after == "" && i+1 < len(f.pairs) {
			if rest, same := strings.CutPrefix(f.pairs[i+1].after, p.before); same {
				f.pairs[i].after, f.pairs[i+1].after = p.before, rest
			}
		}
	}
	for _, p := range f.pairs {
		out.WriteString(p.after)
	}
	f.After = []byte(out.String())
}

func (x *importer) note(f *File, l *crontab.Line, n Note) {
	n.Path, n.Line = f.Path, l.Number
	x.notes = append(x.notes, n)
}

// keep tells why a line stays, and returns the comment.
func (x *importer) keep(f *File, l *crontab.Line, why, hint string) string {
	x.note(f, l, Note{Why: "not wrapped: " + why, Hint: hint, Kept: true})
	if hint != "" {
		why += "; " + hint
	}
	return mark + "not wrapped: " + why + "\n"
}

// job makes one of a line. It is nil without a reason where the line is a run already.
func (x *importer) job(f *File, l *crontab.Line, s *state, name string) (job *Job, why, hint string) {
	script, _ := l.Script(f.Format)
	tokens, _ := crontab.Tokens(script)
	if run, ok := crontab.FindRun(tokens); ok {
		x.given.Take(run.Job)
		if x.options.ToJobs {
			x.note(f, l, Note{
				Why: "not in the job file: the line already calls `leaderrun run` for " + quote(run.Job), Hint: "import the line as it was before, or write the job by hand",
			})
		}
		return nil, "", ""
	}
	if why, hint := x.cannot(f, l, s, script); why != "" {
		return nil, why, hint
	}
	if x.options.Packaged[f.Path] {
		return nil, "the file is as its package brought it, and so looks after what that has on the host", "it runs on each host; a file of your own is wrapped"
	}
	if program := ofHost(tokens); program != "" {
		return nil, program + " looks after the host itself", "it runs on each host"
	}
	if why := whyNotName(name); name != "" && why != "" {
		return nil, why, "give the job another name"
	}
	if name != "" && !x.given.Take(name) {
		return nil, fmt.Sprintf("the name %q is given twice", name), "give each job a name of its own"
	}
	if leavesBehind(tokens) {
		return nil, "what & starts would be ended as soon as the line is over", "take the & away, or let the line end with `wait`"
	}
	job = &Job{Path: f.Path, Line: l.Number, Exprs: []string{l.Fields}, User: l.User, Env: slices.Clip(s.env), percent: f.Format != crontab.Supercronic}
	if s.shell != "/bin/sh" {
		job.Shell = s.shell
	}
	job.raw = l.Command
	if job.percent {
		job.raw, job.stdin = crontab.CutPercent(l.Command)
	}
	switch {
	case s.cronTZ != "":
		job.Timezone = s.cronTZ
		x.note(f, l, Note{Why: "CRON_TZ is the zone of the schedule for cronie and others; cron of Debian takes the host's all the same", Info: true})
	case s.tz != "":
		job.Timezone = x.options.Timezone
	}
	x.peel(f, l, job)
	job.Name = name
	if name == "" {
		job.Name = x.names.Derive(script)
	}
	if n := len(job.command()); n > crontab.MaxCommand && f.Format != crontab.Supercronic {
		return nil, fmt.Sprintf("the command would have %d bytes, and cron takes %d", n, crontab.MaxCommand), "put it into a script"
	}
	return job, "", ""
}

// whyNotName says why no job can have a name.
func whyNotName(name string) string {
	if why := value.NotName(name); why != "" {
		return "the name in the comment " + why
	}
	if _, _, isSlot := slots.Split(name); isSlot {
		return "the name in the comment is that of a slot"
	}
	return ""
}

// cannot says why a line is not wrapped.
func (x *importer) cannot(f *File, l *crontab.Line, s *state, script string) (why, hint string) {
	_, err := schedule.Parse([]string{l.Fields}, "UTC")
	switch {
	case l.End() == "\r\n":
		return "a Windows line end, which cron makes a part of the command", `remove it: sed -i 's/\r$//' FILE`
	case l.Fields == "@reboot":
		return "@reboot is no instant that hosts could share", "it runs on each host"
	case l.Seconds != "" && strings.Trim(l.Seconds, "0") != "":
		return "schedules of leaderrun have no seconds", "@every 30s is one, for the daemon"
	case l.Year != "" && l.Year != "*":
		return "schedules of leaderrun have no year", ""
	case f.Format == crontab.Supercronic && isEitherDay(l.Fields):
		return "supercronic takes days that either field names, and leaderrun those that both name", "write the range in the place of *, as in 1-31/2"
	case strings.Contains(l.Fields, "~"):
		return "a~b is another time on every host", "choose one"
	case err != nil:
		return schedule.Explain(err)
	case f.Format != crontab.Supercronic && strings.HasPrefix(l.Fields, "@every"):
		return "cron does not know @every", ""
	case strings.Trim(script, " \t") == "":
		return "there is no command before the %", `a plain % is \%`
	case f.Format != crontab.Supercronic && crontab.IsCutShort(l.Command):
		return "cron ends the command at the %", `a plain % is \%`
	case f.Format == crontab.User && strings.HasPrefix(l.Command, "*"):
		return "six fields instead of five", "a crontab of supercronic: --from supercronic"
	case s.shell != "" && !slices.Contains([]string{"sh", "bash", "dash", "ash", "zsh", "ksh"}, path.Base(s.shell)):
		return fmt.Sprintf("SHELL=%s may quote in another way than sh", s.shell), "wrap it by hand"
	case s.cronTZ == "" && s.tz != "" && x.options.Timezone == "":
		return "TZ is in force here: leaderrun would take it for the zone of the schedule, and cron takes the host's", "name that with --timezone"
	}
	if wrong := crontab.Refused([]byte(strings.TrimSuffix(l.Text, "\n")+"\n"), f.Format); wrong != nil {
		return "cron takes no such line: " + wrong.Why, ""
	}
	if s.cronTZ != "" {
		if _, err := schedule.Parse([]string{"@daily"}, s.cronTZ); err != nil {
			return schedule.Explain(err)
		}
	}
	return "", ""
}

// isEitherDay says whether the two fields for days, one of them as in */2, mean for supercronic another thing than for cron.
func isEitherDay(fields string) bool {
	words := strings.Fields(fields)
	if len(words) != 5 {
		return false
	}
	day, weekday := words[2], words[4]
	return day != "*" && weekday != "*" && (day[0] == '*' || weekday[0] == '*')
}

// hostOwn are programs that look after the machine on which they run. They are read only.
var hostOwn = strings.Fields(`adjkerntz anacron checkarray debian-sa1 e2scrub_all e2scrub_all_cron fstrim logrotate mandb newsyslog
	periodic raid-check sa1 sa2 save-entropy sessionclean updatedb`)

// ofHost is the program of a line that looks after the machine on which it runs; "": none does. run-parts is one where it runs what
// packages bring.
func ofHost(tokens []crontab.Token) string {
	for i, t := range tokens {
		program := path.Base(t.Text)
		switch {
		case t.Operator:
		case slices.Contains(hostOwn, program):
			return program
		case program == "run-parts":
			for _, t := range tokens[i:] {
				if strings.HasPrefix(t.Text, "/etc/cron.") || strings.HasPrefix(t.Text, "/etc/periodic") {
					return t.Text
				}
			}
		}
	}
	return ""
}

// leavesBehind says whether a shell puts something into the background and does not wait for it: it would not outlive the run. A word
// of another command is no wait, and neither is that of a subshell, which has other children.
func leavesBehind(tokens []crontab.Token) bool {
	behind := false
	for i, t := range tokens {
		switch {
		case t.Operator && t.Text == "&":
			behind = true
		case t.Text == "wait" && behind && tokens[i-1].Operator && slices.Contains([]string{"&", "&&", "||", ";", "\n"}, tokens[i-1].Text):
			behind = false
		}
	}
	return behind
}

// command is what stands in a crontab.
func (j *Job) command() string {
	var b strings.Builder
	b.WriteString("leaderrun run")
	if !hasSlots(j.options) {
		for _, expr := range j.Exprs {
			b.WriteString(" --schedule " + quote(expr))
		}
		if j.Timezone != "" {
			b.WriteString(" --timezone " + quote(j.Timezone))
		}
	}
	for _, o := range j.options {
		b.WriteString(" " + o.name)
		if o.value != "" {
			b.WriteString(" " + quote(o.value))
		}
	}
	b.WriteString(" " + j.escape(quote(j.Name)) + " -- ")
	if j.isPlain() {
		tokens, _ := crontab.Tokens(j.raw) // a blank at the end may be quoted
		b.WriteString(j.raw[tokens[0].Start:tokens[len(tokens)-1].End])
	} else {
		b.WriteString(quote(cmp.Or(j.Shell, "sh")) + " -c " + inQuotes(j.raw))
	}
	return b.String() + j.stdin
}

// escape hides what is special to cron in words of quote. Where a \ stands before a \ or %, cron would take them for a pair: quotes that
// end and begin again part them.
func (j *Job) escape(words string) string {
	if !j.percent {
		return words
	}
	var b strings.Builder
	for i, c := range []byte(words) {
		if i > 0 && words[i-1] == '\\' && (c == '\\' || c == '%') {
			b.WriteString("''")
		}
		if c == '%' {
			b.WriteByte('\\')
		}
		b.WriteByte(c)
	}
	return b.String()
}

// quote makes one word of a text, for sh. Where it is one already, it stays.
func quote(text string) string {
	const plain = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_-./@:+,"
	if text != "" && strings.Trim(text, plain) == "" {
		return text
	}
	return inQuotes(text)
}

// inQuotes puts a text into single quotes. What cron makes of a \ in it stays the same: a quote begins and ends no pair.
func inQuotes(text string) string { return "'" + strings.ReplaceAll(text, "'", `'\''`) + "'" }

// needShell are words with which a command begins that is no program, or another one than the shell's own. They are read only.
var needShell = strings.Fields(`. : [ [[ alias bg break builtin case cd command continue declare do done echo elif else esac eval exec exit export false fc fg fi
	for function getopts hash if in jobs kill let local printf pwd read readonly return select set shift shopt source test then time times trap true type typeset
	ulimit umask unalias unset until wait while { } !`)

// isPlain says whether the words of the command can stand behind -- as they are: no shell would make anything of them but words.
func (j *Job) isPlain() bool {
	if j.doubled() {
		return false
	}
	tokens, ok := crontab.Tokens(j.raw)
	if !ok || len(tokens) == 0 || slices.Contains(needShell, tokens[0].Text) || strings.Contains(tokens[0].Text, "=") {
		return false
	}
	return !slices.ContainsFunc(tokens, func(t crontab.Token) bool { return t.Operator || !t.Literal })
}

// doubled says whether the command has \\, of which cron of Debian makes one \ and others do not: what a shell makes of it depends
// on that.
func (j *Job) doubled() bool { return j.percent && strings.Contains(j.raw, `\\`) }
