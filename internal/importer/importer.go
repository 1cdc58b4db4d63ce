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
	rows  []row
}

// row is a line, and what becomes of it.
type row struct {
	crontab.Line
	marks string // the comments above that this package has written
	name  string // that of a comment "# job: NAME" above; "": there is none
	stays bool   // a comment above says so
	job   *Job   // nil: it is none, or a run already
	after string // what is written in the place of marks and line
}

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

// read takes a crontab apart.
func read(s Source) *File {
	lines := crontab.Parse(s.Text, s.Format)
	f := &File{Source: s, rows: make([]row, 0, len(lines))}
	marks := ""
	for _, l := range lines {
		if text := strings.TrimSpace(l.Text); l.Kind == crontab.Comment && strings.HasPrefix(text, mark) && text != leave {
			marks += l.Text // it is written again where it still holds
			continue
		}
		r := row{Line: l, marks: marks}
		if n := len(f.rows); n > 0 && f.rows[n-1].Kind == crontab.Comment {
			above := &f.rows[n-1]
			r.name, _ = crontab.NameIn(above.Text)
			if r.stays = strings.TrimSpace(above.Text) == leave; r.stays {
				r.name = above.name
			}
		}
		f.rows, marks = append(f.rows, r), ""
	}
	if marks != "" {
		f.rows = append(f.rows, row{marks: marks})
	}
	return f
}

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

// isCut says whether a line that counts has no end.
func (r *row) isCut() bool {
	return r.Kind != crontab.Comment && r.Kind != crontab.Blank && r.End() == ""
}

// write makes the text.
func (f *File) write() {
	f.After = nil
	for i := range f.rows {
		r := &f.rows[i]
		r.after = r.Text
		if r.isCut() {
			r.after += "\n"
		}
		switch j := r.job; {
		case j == nil || j.unsaid:
		case j.Word == Left:
			r.after = mark + "not wrapped: " + j.Why + "\n" + r.after
		default:
			r.after = r.Text[:r.At] + j.command() + r.after[r.At+len(r.Command):]
		}
		f.After = append(f.After, r.after...)
	}
}

// readBack leaves the lines that are wrong as they were written.
func (f *File) readBack(found []Wrong) {
	wrong := map[int]string{}
	for _, w := range found {
		wrong[w.Line] = w.Why
	}
	line, again := 0, false
	for i := range f.rows {
		r := &f.rows[i]
		line += strings.Count(r.after, "\n")
		if j := r.job; j != nil && j.Word != Left && wrong[line] != "" {
			j.leave("what import would write is wrong: "+wrong[line], "wrap it by hand")
			again = true
		}
	}
	if again {
		f.write()
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
