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

// Word says what became of a line or a timer.
type Word string

// The words.
const (
	Wrapped Word = "job"
	Look    Word = "look" // it is wrapped, and somebody should look whether that is what he wants
	Left    Word = "left" // it stays as it is
)

// Note is something to be told of a file.
type Note struct{ Path, Why, Hint string }

// Job is a line or a timer, and what became of it.
type Job struct {
	Path, Name string
	Line       int // 0: of a timer
	Word       Word
	Why        string // in some words; "": there is nothing to say
	Exprs      []string
	Timezone   string     // ""; the host's
	User       string     // of a system crontab or a unit, for which it is root where it names none
	Env        []Variable // of which the last of a name counts; shared with other jobs, to be read only
	Shell      string     // of the crontab, absolute; "": /bin/sh
	Dir        string     // where it starts, absolute; "": the home of its user

	// The command, in the form that a crontab has it: raw is for the shell and may have \%, and stdin begins with the % before it.
	raw, stdin string
	plain      []string // the words of raw, where no shell would make anything of it but these; nil: it needs one
	options    []option // of leaderrun run
	percent    bool     // raw has \% for %
	unsaid     bool     // it is left because somebody says so: no comment repeats that
}

// say adds to what is said of a job.
func (j *Job) say(why string) {
	if j.Why != "" {
		why = j.Why + "; " + why
	}
	j.Why = why
}

// look says why somebody should look.
func (j *Job) look(why string) {
	j.Word = Look
	j.say(why)
}

// leave keeps a line as it is.
func (j *Job) leave(why, hint string) {
	if hint != "" {
		why += "; " + hint
	}
	j.Word, j.Why = Left, why
}

// Variable is one of the environment.
type Variable struct{ Name, Value string }

// option is one of leaderrun run, and the key of a job file that says the same; "": none does.
type option struct{ name, value, key, keyValue string }

// File is a crontab that was imported.
type File struct {
	Source
	After []byte // what to write
	Jobs  []*Job // what became of its lines, but for those that were wrapped before
	pairs []pair
	lines []crontab.Line
	jobs  map[int]*Job // by the index of their line
}

// pair is a line and what became of it.
type pair struct{ before, after string }

// Changed says whether there is anything to write.
func (f *File) Changed() bool { return string(f.Text) != string(f.After) }

// Wrapped counts the lines that became runs.
func (f *File) Wrapped() (n int) {
	for _, j := range f.Jobs {
		if j.Word != Left {
			n++
		}
	}
	return n
}

const (
	mark  = "# leaderrun import: " // begins the comments that this package writes
	leave = mark + "leave"         // is one that people write: the line below it stays as it is
)

func isMark(l *crontab.Line) bool {
	return l.Kind == crontab.Comment && strings.HasPrefix(strings.TrimLeft(l.Text, " \t"), mark)
}

// Import wraps the jobs of crontabs that belong together, such as all of one host: a name is given once, and a lock that two lines have
// stays.
func Import(sources []Source, o Options) ([]*File, []Note) {
	x := &importer{options: o, names: map[string]int{}}
	for _, s := range sources {
		x.files = append(x.files, &File{Source: s, lines: crontab.Parse(s.Text, s.Format), jobs: map[int]*Job{}})
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
		f.readBack(o.Check)
	}
	return x.files, x.notes
}

type importer struct {
	options Options
	files   []*File
	users   map[string]int // of a word: in how many lines it stands; nil: they were not counted yet
	names   map[string]int // of jobs: how many lines have them
	notes   []Note
}

// isShared says whether the name of a lock file stands in more than one line.
func (x *importer) isShared(file string) bool {
	if x.users == nil {
		x.users = map[string]int{}
		for _, f := range x.files {
			for i := range f.lines {
				if l := &f.lines[i]; l.Kind != crontab.Comment {
					words := append(pieces(l.Text), pieces(unquoted.Replace(l.Text))...)
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
	env               []Variable // the last one of a name counts
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

// judge says what becomes of each line.
func (x *importer) judge(f *File) {
	var s state
	for i := range f.lines {
		if l := &f.lines[i]; f.Format == crontab.Supercronic && l.Kind == crontab.Setting { // for that a variable counts for the whole file
			s.set(l)
		}
	}
	for i := range f.lines {
		l := &f.lines[i]
		if l.End() == "" && l.Kind != crontab.Comment && l.Kind != crontab.Blank {
			x.notes = append(x.notes, Note{Path: f.Path, Why: "the last line had no newline at its end: cron ignores such a file"})
		}
		j := &Job{Path: f.Path, Line: l.Number, Word: Wrapped}
		switch {
		case l.Kind == crontab.Setting && f.Format != crontab.Supercronic:
			s.set(l)
			continue
		case l.Kind == crontab.Broken:
			j.leave(strings.TrimPrefix(l.Name+": "+l.Why, ": "), l.Hint)
		case l.Kind != crontab.Job || !x.job(f, i, &s, j):
			continue
		}
		f.jobs[i], f.Jobs = j, append(f.Jobs, j)
		if j.Word != Left {
			x.names[j.Name]++
		}
	}
}

// write makes the text.
func (f *File) write() {
	f.pairs = nil
	for i := range f.lines {
		l := &f.lines[i]
		if isMark(l) && strings.TrimSpace(l.Text) != leave {
			f.pairs = append(f.pairs, pair{l.Text, ""}) // it is written again where it still holds
			continue
		}
		after := l.Text
		end := l.End()
		if end == "" && l.Kind != crontab.Comment && l.Kind != crontab.Blank {
			end = "\n"
			after += end
		}
		switch j := f.jobs[i]; {
		case j == nil || j.unsaid:
		case j.Word == Left:
			after = mark + "not wrapped: " + j.Why + "\n" + after
		default:
			after = l.Text[:l.At] + j.command() + end
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
	var out strings.Builder
	for _, p := range f.pairs {
		out.WriteString(p.after)
	}
	f.After = []byte(out.String())
}

// readBack leaves the lines that are wrong as they were written.
func (f *File) readBack(check func(string, []byte, crontab.Format) []Wrong) {
	if check == nil {
		return
	}
	wrong := map[int]string{}
	for _, w := range check(f.Path, f.After, f.Format) {
		wrong[w.Line] = w.Why
	}
	line, again := 0, false
	for i, p := range f.pairs {
		line += strings.Count(p.after, "\n")
		if j := f.jobs[i]; j != nil && j.Word != Left && wrong[line] != "" {
			j.leave("what import would write is wrong: "+wrong[line], "wrap it by hand")
			again = true
		}
	}
	if again {
		f.write()
	}
}

// job makes one of a line. It is false where the line is a run already.
func (x *importer) job(f *File, at int, s *state, j *Job) bool {
	l := &f.lines[at]
	script, _ := l.Script(f.Format)
	command := crontab.Read(s.shell, script)
	if run, ok := command.Run(); ok {
		x.names[run.Job]++
		if x.options.ToJobs {
			j.Name = run.Job
			j.leave("it already calls `leaderrun run`", "import the line as it was before, or write the job by hand")
		}
		return x.options.ToJobs
	}
	name := given(f.lines, at)
	j.Name = cmp.Or(name, crontab.LongName(script))
	j.percent = f.Format != crontab.Supercronic
	if s.shell != "/bin/sh" {
		j.Shell = s.shell
	}
	why, hint := x.cannot(f, l, s, script)
	if nameless := whyNotName(name); why == "" && name != "" && nameless != "" {
		why, hint = nameless, "give the job another name"
	}
	if j.judge(x.options, command, left(f.lines, at), why, hint); j.Word == Left {
		return true
	}
	j.Exprs, j.User, j.Env = []string{l.Fields}, l.User, slices.Clip(s.env)
	switch {
	case s.cronTZ != "":
		j.Timezone = s.cronTZ
		j.say("CRON_TZ counts for cronie; cron of Debian takes the host's zone")
	case s.tz != "":
		j.Timezone = x.options.Timezone
	}
	j.raw = l.Command
	if j.percent {
		j.raw, j.stdin = crontab.CutPercent(l.Command)
	}
	if j.raw != script {
		command = crontab.Read(s.shell, j.raw)
	}
	x.peel(j, command)
	if j.raw != command.Text {
		command = crontab.Read(s.shell, j.raw)
	}
	j.lookAt(command)
	j.take(command)
	if n := len(j.command()); n > crontab.MaxCommand && f.Format != crontab.Supercronic {
		j.leave(fmt.Sprintf("the command would have %d bytes, and cron takes %d", n, crontab.MaxCommand), "put it into a script")
	}
	return true
}

// whyNotName says why no job can have a name.
func whyNotName(name string) string {
	if why := value.NotName(name); why != "" {
		return "the name in the comment " + why
	}
	if _, _, isSlot := slots.Split(name); isSlot {
		return "the name in the comment is that of a slot"
	}
	if strings.HasPrefix(name, "-") {
		return "the name in the comment looks like an option"
	}
	return ""
}

// judge leaves what people say shall stay, what was not chosen, what no run can be made of, for the reason that is given or for what is in
// the command, and what belongs to the host: that is overruled by who chooses it.
func (j *Job) judge(o Options, command *crontab.Script, stays bool, why, hint string) {
	only, except := o.Only.has(j), o.Except.has(j)
	behind, work := command.LeavesBehind(), command.HostWork()
	switch {
	case stays:
		j.leave("the comment above says so", "")
		j.unsaid = true
	case except, len(o.Only) > 0 && !only:
		j.leave("it was not chosen", "")
		j.unsaid = true
	case why != "":
		j.leave(why, hint)
	case isRun().MatchString(command.Text): // at whatever depth of quotes
		j.leave("`leaderrun run` stands inside the command already", "the same job within itself would never run")
	case behind != "":
		j.leave("what "+behind+" starts would end with the line, or go on without its lease", "let it run in the foreground, or `wait` for it")
	case only:
	case work != "":
		j.leave(work+" looks after the host itself", "it runs on each host")
	case o.Packaged[j.Path]:
		j.leave("the file is as its package brought it, and so looks after what that has on the host", "it runs on each host; a file of your own is wrapped")
	}
}

// isRun is a call of `leaderrun run`, also of a version that has a name of its own.
var isRun = pattern(`(?:^|[^-\w.])leaderrun(?:[-.]?v?\d[-.\w]*)?["'\\]*\s+(?:[^;|&]*\s)?["'\\]*run(?:[^-\w.]|$)`)

// pattern is a regular expression that is compiled when it is first used.
func pattern(text string) func() *regexp.Regexp {
	return sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(text) })
}

// cannot says why a line is not wrapped.
func (x *importer) cannot(f *File, l *crontab.Line, s *state, script string) (why, hint string) {
	_, err := schedule.Parse([]string{l.Fields}, "UTC")
	if why, hint := l.NotOurs(f.Format); why != "" {
		return why, hint
	}
	switch {
	case l.End() == "\r\n":
		return "a Windows line end, which cron makes a part of the command", `remove it: sed -i 's/\r$//' FILE`
	case l.Fields == "@reboot":
		return "@reboot is no instant that hosts could share", "it runs on each host"
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
	case s.shell != "" && !crontab.Is(path.Base(s.shell), "shell"):
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

// command is what stands in a crontab.
func (j *Job) command() string {
	var b strings.Builder
	b.WriteString("leaderrun run")
	for _, expr := range j.Exprs {
		b.WriteString(" --schedule " + quote(expr))
	}
	if j.Timezone != "" {
		b.WriteString(" --timezone " + quote(j.Timezone))
	}
	for _, o := range j.options {
		b.WriteString(" " + o.name)
		if o.value != "" {
			b.WriteString(" " + quote(o.value))
		}
	}
	name := " " + j.escape(quote(j.Name)) + " -- "
	switch {
	case j.plain != nil:
		b.WriteString(name + j.raw)
	case j.Shell != "":
		b.WriteString(name + quote(j.Shell) + " -c " + inQuotes(j.raw))
	default:
		b.WriteString(" --shell" + name + inQuotes(j.raw))
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

// take takes the words of the command, if they can stand behind -- as they are: no shell would make anything of them but words.
func (j *Job) take(command *crontab.Script) {
	tokens := command.Tokens
	if j.raw = command.Text; j.doubled() || !command.Ended || len(tokens) == 0 || crontab.Is(tokens[0].Text, "word") || crontab.Is(tokens[0].Text, "builtin") || strings.Contains(tokens[0].Text, "=") {
		return
	}
	if slices.ContainsFunc(tokens, func(t crontab.Token) bool { return t.Operator || !t.Literal }) {
		return
	}
	for _, t := range tokens {
		j.plain = append(j.plain, t.Text)
	}
	j.raw = command.Text[tokens[0].Start:tokens[len(tokens)-1].End] // a blank at the end may be quoted
}

// doubled says whether the command has \\, of which cron of Debian makes one \ and others do not: what a shell makes of it depends
// on that.
func (j *Job) doubled() bool { return j.percent && strings.Contains(j.raw, `\\`) }
