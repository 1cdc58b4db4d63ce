package importer

import (
	"slices"
	"strings"

	"github.com/leaderrun/leaderrun/internal/crontab"
	"github.com/leaderrun/leaderrun/internal/slots"
	"github.com/leaderrun/leaderrun/internal/value"
)

// Word says what became of a line or a timer.
type Word string

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

// isRun is a call of `leaderrun run`, also of a version that has a name of its own.
var isRun = pattern(`(?:^|[^-\w.])leaderrun(?:[-.]?v?\d[-.\w]*)?["'\\]*\s+(?:[^;|&]*\s)?["'\\]*run(?:[^-\w.]|$)`)

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
