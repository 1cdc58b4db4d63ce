package jobfile

import (
	"bytes"
	"fmt"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"time"

	lines "github.com/leaderrun/leaderrun/internal/crontab"
)

const (
	blanks       = " \t"
	defaultShell = "/bin/sh"
)

// crontab is read line by line: a variable counts for the lines after it.
type crontab struct {
	*reader
	host   lines.Host
	state  *draft // what the lines so far have set
	shell  string
	path   string // PATH, as far as the file sets it
	system bool   // cron reads this file as a system crontab

	line     int
	name     string // of the comment in the line before
	nameLine int    // 0: there is none
	lost     int    // the line of a name with nothing but comments since; 0: there is none
	derived  lines.Names
	wrong    int // the first line that sets a variable wrongly; 0: there is none
}

func (r *reader) readCrontab(text []byte, h lines.Host) {
	c := &crontab{reader: r, host: h, state: r.newDraft(), shell: defaultShell, system: lines.FormatOf(r.path) == lines.System}
	if !r.how.System { // else it is the home of each job's user
		c.state.job.Dir = r.defaults.Home
	}
	c.state.env = append(c.state.env, "SHELL="+defaultShell)
	c.state.fixes.jitter = "write RANDOM_DELAY=0 above the line"
	if bytes.HasPrefix(text, []byte("\ufeff")) {
		r.problem(1, "", "the file begins with a byte order mark", "save it without one")
		return
	}
	if at := bytes.IndexByte(text, '\r'); at >= 0 && bytes.HasPrefix(text[at:], []byte("\r\n")) {
		r.problem(lineOf(text, at), "", "the file has Windows line ends", `remove them: sed -i 's/\r$//' `+r.path)
		return
	}
	format := lines.User // the user of a system crontab is cut off below
	if r.how.Supercronic {
		format = lines.Supercronic
	}
	all := lines.Parse(text, format)
	for _, line := range all {
		if name, ok := lines.NameIn(line.Text); ok {
			c.derived.Take(name) // a derived one is another
		}
		if c.line = line.Number; line.Kind == lines.Setting && r.how.Supercronic { // for which a variable counts for the whole file
			c.variable(line.Name, line.Value)
		}
	}
	for _, line := range all {
		c.line = line.Number
		if topKey().MatchString(strings.TrimLeft(line.Text, blanks)) {
			r.problem(c.line, "", "this looks like YAML, and the file is read as a crontab", "a YAML file's name ends in .yaml or .yml")
			return
		}
		c.read(&line)
	}
	c.forgetName()
	if len(r.jobs) == 0 && len(r.problems) == 0 && !r.several {
		r.problem(0, "", "there is no job in it", "write one like: 0 2 * * * COMMAND, below a comment # job: NAME")
	}
}

// pattern is a regular expression that is compiled when it is first used: most runs of leaderrun read no job file.
func pattern(text string) func() *regexp.Regexp {
	return sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(text) })
}

// topKey is how a YAML file begins.
var topKey = pattern(`^(jobs|defaults|timezone):(\s|$)`)

func (c *crontab) read(line *lines.Line) {
	problems, jobs := len(c.problems), len(c.jobs)
	switch {
	case line.Kind == lines.Blank:
		c.forgetName()
	case line.Kind == lines.Comment:
		// A line that is commented out takes its name along.
		if name, ok := lines.NameIn(line.Text); ok {
			c.name, c.nameLine, c.lost = name, c.line, 0
		} else if c.nameLine != 0 {
			c.nameLine, c.lost = 0, c.nameLine
		}
	case line.Kind == lines.Setting, line.Kind == lines.Broken && line.Name != "":
		c.forgetName()
		if line.Kind == lines.Broken {
			c.problem(c.line, line.Name, line.Why, line.Hint)
		} else if !c.how.Supercronic {
			c.variable(line.Name, line.Value)
		}
		if len(c.problems) > problems && c.wrong == 0 {
			c.wrong = c.line
		}
	default:
		c.job(line)
		if len(c.problems) > problems {
			c.jobs = c.jobs[:jobs]
		}
		c.nameLine, c.lost = 0, 0
	}
}

// forgetName drops a name that names nothing, which somebody may have taken for the name of a job further down.
func (c *crontab) forgetName() {
	if c.nameLine != 0 {
		c.warn(c.nameLine, "", fmt.Sprintf("the name %q has no job: its line must follow at once", c.name), "")
	}
	c.nameLine, c.lost = 0, 0
}

// variable sets one for the lines that follow.
func (c *crontab) variable(name, value string) {
	if err := checkVariable(name, value); err != nil {
		c.problem(c.line, "", err.Error(), "remove the line")
		return
	}
	problem := func(why, hint string) { c.problem(c.line, name, why, hint) }
	switch name {
	case "LOGNAME":
		c.warn(c.line, name, "cron does not let a crontab set it, and it is ignored here too", "remove the line")
		return
	case "MAILTO", "MAILFROM", "CONTENT_TYPE", "CONTENT_TRANSFER_ENCODING":
		if value != "" {
			c.warn(c.line, name, "no mail is sent: the output of the jobs is the daemon's", "remove the line")
		}
	case "SHELL":
		if !filepath.IsAbs(value) {
			problem(fmt.Sprintf("%q is not an absolute path", value), "write SHELL=/bin/bash")
			return
		}
		c.shell = value
	case "HOME":
		if !filepath.IsAbs(value) {
			problem(fmt.Sprintf("%q is not an absolute path", value), "commands start there")
			return
		}
		c.state.job.Dir = value
	case "PATH":
		c.path = value
	case "CRON_TZ":
		c.zone(value)
	case "RANDOM_DELAY":
		minutes, err := strconv.ParseUint(value, 10, 16)
		if err != nil {
			problem(fmt.Sprintf("%q is not a number of minutes", value), "write RANDOM_DELAY=15")
			return
		}
		c.state.job.Jitter = time.Duration(minutes) * time.Minute
	}
	c.state.env = append(c.state.env, name+"="+value)
}

// zone sets the one of the lines that follow.
func (c *crontab) zone(name string) {
	why, hint := c.checkZone(name)
	if why == "" {
		c.state.zone = name
		return
	}
	if _, _, more := strings.Cut(name, " "); more {
		why, hint = "there is more than a zone in the line", "write CRON_TZ=ZONE in a line of its own, above those that it is for"
	}
	c.problem(c.line, "CRON_TZ", why, hint)
	c.state.zone = "UTC" // to look at the schedules all the same
}

// job reads a line that is no variable.
func (c *crontab) job(line *lines.Line) {
	d := c.state.derive(c.name, c.line)
	if c.nameLine == 0 {
		d.job.Name = ""
	}
	if c.how.SkipBad && c.wrong != 0 {
		c.problem(c.line, d.what(""), fmt.Sprintf("the variable in line %d is wrong, and may be meant for this line", c.wrong), "")
		return
	}
	expr, command, why, hint := line.Fields, line.Command, line.Why, line.Hint
	if line.Quiet && !c.how.Supercronic { // only cronie has that, and keeps no record of such a line
		expr = "-" + expr
	}
	if why == "" && c.how.Supercronic {
		why, hint = line.NotOurs(lines.Supercronic)
	}
	if why != "" {
		c.problem(c.line, d.what(""), why, hint)
		return
	}
	if c.how.System {
		var ok bool
		if command, ok = c.user(d, command); !ok {
			return
		}
	}
	if why, hint := c.notCommand(d, expr, command); why != "" {
		c.problem(c.line, d.what(""), why, hint)
		return
	}
	script := command
	if !c.how.Supercronic {
		script, d.job.Stdin = lines.SplitPercent(command)
		if lines.IsCutShort(command) {
			c.warn(c.line, d.what(""), "the command ends at the %", `a plain % is \%; or is it a crontab of supercronic? --from supercronic`)
		}
	}
	if strings.Trim(script, blanks) == "" {
		c.problem(c.line, d.what(""), "there is no command before the %", `what follows the first % is what the command reads; a plain one is \%`)
		return
	}
	d.job.Argv = []string{c.shell, "-c", script}
	d.exprs = []expression{{expr, c.line}}
	switch {
	case c.nameLine != 0:
	case c.lost != 0: // it would run under another name than somebody may have meant
		c.problem(c.line, "", fmt.Sprintf("is the name in line %d meant for this job? it does not stand right above", c.lost), "move it down, or put an empty line between")
		return
	case expr == "@reboot": // import gives no name to what is no job, either
		d.job.Name = lines.Name(script)
		c.plan(d)
		return
	default:
		d.job.Name = c.derived.Derive(script)
	}
	c.finish(d)
}

// user takes the user's column off a line, and says whether the line can run as that user. One without a line in /etc/passwd
// could only run as root.
func (c *crontab) user(d *draft, command string) (rest string, ok bool) {
	name, rest := lines.CutWord(command)
	switch {
	case rest == "":
		c.problem(c.line, d.what(""), "there is no command behind the user", "write minute, hour, day of month, month, day of week, the user and the command")
	case !c.host.IsUser(name):
		word := "the sixth word"
		if lines.IsAccount(name) { // another one may be a secret, as in PASSWORD=…
			word += fmt.Sprintf(", %q,", name)
		}
		c.problem(c.line, d.what(""), word+" is no user in /etc/passwd", "a system crontab has a user before the command; another one is for a daemon without --system")
	default:
		d.job.User = name
		return rest, true
	}
	return "", false
}

// A field of a schedule, and one that may also be a program.
var (
	isField   = pattern(`^[0-9*?][-0-9*?/,]*$`)
	isWeekday = pattern(`(?i)^(sun|mon|tue|wed|thu|fri|sat)([-,](sun|mon|tue|wed|thu|fri|sat))*$`)
)

// notCommand says why the sixth word does not begin a command.
func (c *crontab) notCommand(d *draft, expr, command string) (why, hint string) {
	word, rest := lines.CutWord(command)
	seconds := expr[0] != '@' && (isField().MatchString(word) || rest != "" && isWeekday().MatchString(word))
	if seconds {
		return "six fields instead of five", "there is no field for seconds; @every 30s is a schedule"
	}
	const column = "remove the column, or let a daemon of root's with --system run the file"
	if c.how.System || c.how.Supercronic {
		return "", ""
	}
	if c.system && rest != "" && rest[0] != '-' && lines.IsAccount(word) {
		return fmt.Sprintf("the sixth word, %s, is the user of a system crontab", word), column
	}
	why, sure := c.host.UserColumn(command, c.path)
	if why != "" && !sure {
		c.warn(c.line, d.what(""), why, "if it is a user's column: "+column)
		return "", ""
	}
	return why, column
}
