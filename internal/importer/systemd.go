package importer

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"slices"
	"strings"

	"github.com/leaderrun/leaderrun/internal/crontab"
	"github.com/leaderrun/leaderrun/internal/duration"
	"github.com/leaderrun/leaderrun/schedule"
)

// setting is a line KEY=value of a unit.
type setting struct{ key, value string }

// unit is one of systemd, with its drop-ins.
type unit struct {
	name     string
	path     string
	masked   bool // systemd never starts it
	settings []setting
}

// all returns the values of a key. An empty one takes those before it back, as systemd has it.
func (u *unit) all(key string) []string {
	var values []string
	for _, s := range u.settings {
		switch {
		case s.key != key:
		case s.value == "":
			values = nil
		default:
			values = append(values, s.value)
		}
	}
	return values
}

func (u *unit) last(key string) string {
	if values := u.all(key); len(values) > 0 {
		return values[len(values)-1]
	}
	return ""
}

// service is the unit that a timer starts.
func (u *unit) service() string {
	return cmp.Or(u.last("Unit"), strings.TrimSuffix(u.name, ".timer")+".service")
}

// Units reads timers: unit files, whose services lie beside them, names of installed units, or - for what `systemctl cat` prints. A
// timer that cannot be a schedule is told in the notes.
func Units(names []string, stdin io.Reader) (jobs []*Job, notes []Note, err error) {
	var units []*unit
	for _, name := range names {
		if name == "-" {
			text, err := read(stdin)
			if err != nil {
				return nil, nil, fmt.Errorf("stdin: %w", err)
			}
			units = append(units, parseCat(string(text))...)
			continue
		}
		found, err := unitPath(unitDirectories).findUnits(name)
		if err != nil {
			return nil, nil, err
		}
		units = append(units, found...)
	}
	var given crontab.Names
	timers := 0
	for _, u := range units {
		if !strings.HasSuffix(u.name, ".timer") {
			continue
		}
		timers++
		job, why := ofTimer(u, units)
		if why != "" {
			notes = append(notes, Note{Path: u.path, Why: "not imported: " + why, Kept: true})
			continue
		}
		job.Name = strings.TrimSuffix(u.name, ".timer")
		given.Take(job.Name)
		if job.group != "" {
			notes = append(notes, Note{Path: u.path, Why: job.group + " is not carried over: it has the groups of the user that runs it"})
		}
		if len(job.lost) > 0 {
			notes = append(notes, Note{Path: u.path, Why: "not carried over: " + strings.Join(job.lost, ", "), Hint: "look whether the job needs it"})
		}
		jobs = append(jobs, job)
	}
	if timers == 0 {
		return nil, nil, errors.New("there is no timer among the units")
	}
	return jobs, notes, nil
}

// parseCat reads what `systemctl cat` prints: before each file its path in a comment.
func parseCat(text string) []*unit {
	var units []*unit
	var now *unit
	for line := range strings.Lines(text) {
		path, ok := strings.CutPrefix(strings.TrimSpace(line), "# /")
		switch {
		case ok && (strings.HasSuffix(path, ".timer") || strings.HasSuffix(path, ".service")):
			now = &unit{name: filepath.Base(path), path: "/" + path}
			units = append(units, now)
		case now != nil:
			now.settings = append(now.settings, setting{value: line}) // a line, until all are there
		}
	}
	for _, u := range units {
		var all strings.Builder
		for _, s := range u.settings {
			all.WriteString(s.value)
		}
		u.settings = parseUnit(all.String())
	}
	return units
}

// parseUnit reads the settings of a unit file. A \ at the end of a line joins it with the next.
func parseUnit(text string) []setting {
	var settings []setting
	joined := ""
	for line := range strings.Lines(text) {
		line = strings.TrimSpace(line)
		if line == "" || line[0] == '#' || line[0] == ';' {
			continue
		}
		if before, ok := strings.CutSuffix(line, `\`); ok {
			joined += before + " "
			continue
		}
		key, value, ok := strings.Cut(joined+line, "=")
		joined = ""
		if ok {
			settings = append(settings, setting{strings.TrimSpace(key), strings.TrimSpace(value)})
		}
	}
	return settings
}

// ofTimer makes a job of a timer. why is why it cannot.
func ofTimer(u *unit, units []*unit) (job *Job, why string) {
	for _, key := range []string{"OnActiveSec", "OnBootSec", "OnStartupSec", "OnUnitActiveSec", "OnUnitInactiveSec"} {
		if len(u.all(key)) > 0 {
			return nil, key + "= is no instant that hosts could share"
		}
	}
	if u.masked {
		return nil, "it is masked, so systemd never starts it"
	}
	job = &Job{Path: u.path}
	for _, calendar := range u.all("OnCalendar") {
		expr, zone, why := fields(calendar)
		if why != "" {
			return nil, fmt.Sprintf("OnCalendar=%s: %s", calendar, why)
		}
		if len(job.Exprs) > 0 && zone != job.Timezone {
			return nil, "its OnCalendar= are in several zones"
		}
		job.Exprs, job.Timezone = append(job.Exprs, expr), zone
	}
	if len(job.Exprs) == 0 {
		return nil, "it has no OnCalendar="
	}
	service := u.service()
	at := slices.IndexFunc(units, func(u *unit) bool { return u.name == service })
	if at < 0 {
		return nil, "its service " + service + " was not found"
	}
	if units[at].masked {
		return nil, "its service " + service + " is masked, so systemd never starts it"
	}
	if why := job.service(units[at]); why != "" {
		return nil, service + ": " + why
	}
	for _, s := range slices.Concat(u.settings, units[at].settings) {
		if key := s.key + "="; s.value != "" && !slices.Contains(carried, s.key) && !slices.Contains(job.lost, key) {
			job.lost = append(job.lost, key)
		}
	}
	if d := strings.ReplaceAll(strings.TrimSuffix(u.last("RandomizedDelaySec"), "in"), " ", ""); d != "" && d != "0" {
		if _, err := duration.NotNegative(d); err != nil {
			return nil, "RandomizedDelaySec=" + u.last("RandomizedDelaySec") + " is not understood"
		}
		job.options = append(job.options, option{key: "jitter", keyValue: d})
	}
	if value := u.last("Persistent"); slices.Contains([]string{"true", "yes", "1", "on"}, value) {
		job.options = append(job.options, option{key: "catch_up", keyValue: "1"})
	}
	return job, ""
}

// carried are the settings that a job has too, and those that say nothing of how it runs. They are read only.
var carried = strings.Fields(`OnCalendar RandomizedDelaySec Persistent Unit AccuracySec ExecStart User Group SupplementaryGroups Environment WorkingDirectory
	Description Documentation After Before Wants Type WantedBy Also DefaultDependencies RefuseManualStart RefuseManualStop SyslogIdentifier`)

// service takes the command and what belongs to it.
func (j *Job) service(u *unit) (why string) {
	for _, key := range []string{"ExecStartPre", "ExecStartPost", "ExecCondition", "ExecStopPost", "EnvironmentFile", "RootDirectory", "DynamicUser", "LoadCredential"} {
		if len(u.all(key)) > 0 && u.last(key) != "no" && u.last(key) != "false" {
			return key + "= is not carried over"
		}
	}
	commands := u.all("ExecStart")
	if len(commands) != 1 {
		return fmt.Sprintf("it has %d ExecStart=", len(commands))
	}
	command := strings.TrimLeft(commands[0], "-")
	if command != commands[0] {
		j.lost = append(j.lost, "the - of ExecStart=")
	}
	switch {
	case strings.ContainsAny(command[:min(1, len(command))], "@:+!|"):
		return "its ExecStart= begins with " + command[:1]
	case strings.ContainsAny(command, `\$`):
		return "its ExecStart= has a $ or \\, which a shell takes in another way"
	case strings.Contains(strings.ReplaceAll(command, "%%", ""), "%"):
		return "its ExecStart= has a % that systemd replaces"
	}
	words, ok := unitWords(strings.ReplaceAll(command, "%%", "%"))
	if !ok || len(words) == 0 {
		return "its ExecStart= is not understood"
	}
	for i, word := range words {
		words[i] = quote(word)
	}
	j.percent = true
	j.raw = j.escape(strings.Join(words, " "))
	j.User = cmp.Or(u.last("User"), "root")
	if strings.Contains(j.User, "%") {
		return "User=" + j.User + " is not understood"
	}
	for _, key := range []string{"Group", "SupplementaryGroups"} {
		if group := u.last(key); group != "" && group != j.User {
			j.group = key + "=" + group
		}
	}
	for _, line := range u.all("Environment") {
		all, ok := unitWords(line)
		if !ok || strings.ContainsAny(line, `%\`) {
			return "Environment=" + line + " is not understood"
		}
		for _, entry := range all {
			if name, value, ok := strings.Cut(entry, "="); ok { // systemd ignores others
				j.Env = append(j.Env, Variable{name, value})
			}
		}
	}
	if dir := u.last("WorkingDirectory"); dir != "" {
		if !strings.HasPrefix(dir, "/") || strings.Contains(dir, "%") {
			return "WorkingDirectory=" + dir + " is not understood"
		}
		j.Dir = dir
	}
	return ""
}

// unitWords takes a line apart as systemd does, without \ in it: quotes may stand anywhere in a word. A ; that is a word begins another
// command, so such a line is not understood.
func unitWords(line string) (words []string, ok bool) {
	var word strings.Builder
	quote, begun, plain := byte(0), false, true
	for _, c := range []byte(line + " ") {
		switch {
		case quote != 0 && c == quote:
			quote = 0
		case quote == 0 && (c == '"' || c == '\''):
			quote, begun, plain = c, true, false
		case quote != 0 || c != ' ' && c != '\t':
			word.WriteByte(c)
			begun = true
		case begun && plain && word.String() == ";":
			return nil, false
		case begun:
			words = append(words, word.String())
			word.Reset()
			begun, plain = false, true
		}
	}
	return words, quote == 0
}

// Lines writes jobs of timers as lines of a user's crontab. Those of another user have that in a comment.
func Lines(jobs []*Job) (text string, notes []Note) {
	var b strings.Builder
	jobs = slices.Clone(jobs) // CRON_TZ counts for all lines below it, and cannot be taken back
	slices.SortStableFunc(jobs, func(a, b *Job) int { return cmp.Compare(a.Timezone, b.Timezone) })
	zone := ""
	for _, j := range jobs {
		if len(j.Exprs) > 1 {
			b.WriteString(mark + "not a line of a crontab: " + j.Name + " has several schedules; --to jobs writes it\n")
			notes = append(notes, Note{Path: j.Path, Why: "not a line of a crontab: it has several schedules", Hint: "--to jobs writes it", Kept: true})
			continue
		}
		if j.User != "root" {
			b.WriteString("# runs as " + j.User + ": " + "for the crontab of that user\n")
		}
		line := *j
		line.options = nil
		for _, o := range j.options {
			notes = append(notes, Note{Path: j.Path, Why: "a crontab has nothing like " + o.key + " of a job file", Hint: "--to jobs writes it"})
		}
		for _, v := range slices.Backward(j.Env) {
			line.raw = v.Name + "=" + line.escape(quote(v.Value)) + " " + line.raw
		}
		if j.Dir != "" {
			line.raw = "cd " + line.escape(quote(j.Dir)) + " && " + line.raw
		}
		if j.Timezone != zone {
			zone = j.Timezone
			b.WriteString("CRON_TZ=" + zone + "\n")
		}
		if j.Timezone != "" {
			notes = append(notes, Note{Path: j.Path, Why: "its time is in " + j.Timezone + ", and cron of Debian knows no CRON_TZ", Hint: "--to jobs writes a file for `leaderrun cron`, which does"})
		}
		b.WriteString(j.Exprs[0] + " " + line.command() + "\n")
	}
	return b.String(), notes
}

// calendars are what the words of systemd stand for. They are read only.
var calendars = map[string]string{
	"minutely": "* * * * *", "hourly": "0 * * * *", "daily": "0 0 * * *", "weekly": "0 0 * * 1", "monthly": "0 0 1 * *",
	"quarterly": "0 0 1 1,4,7,10 *", "semiannually": "0 0 1 1,7 *", "yearly": "0 0 1 1 *", "annually": "0 0 1 1 *",
}

// fields makes five fields of a calendar of systemd.time(7).
func fields(calendar string) (expr, zone, why string) {
	words := strings.Fields(calendar)
	if n := len(words); n > 1 && (words[n-1] == "UTC" || strings.Contains(words[n-1], "/") && !strings.ContainsAny(words[n-1], "0123456789:*")) {
		zone, words = words[n-1], words[:n-1]
	}
	const not = "it has no five fields that mean the same"
	if len(words) == 1 && calendars[strings.ToLower(words[0])] != "" {
		return calendars[strings.ToLower(words[0])], zone, ""
	}
	minute, hour, day, month, weekday := "0", "0", "*", "*", "*"
	for i, word := range words {
		var ok bool
		switch {
		case strings.Contains(word, ":"):
			parts := strings.Split(word, ":")
			if len(parts) == 3 && strings.Trim(parts[2], "0") != "" || len(parts) > 3 {
				return "", "", "schedules of leaderrun have no seconds"
			}
			hour, ok = field(parts[0], 0, 23)
			if ok {
				minute, ok = field(parts[1], 0, 59)
			}
		case strings.Contains(word, "-"):
			parts := strings.Split(word, "-")
			if len(parts) == 3 {
				if parts[0] != "*" {
					return "", "", "schedules of leaderrun have no year"
				}
				parts = parts[1:]
			}
			if len(parts) != 2 {
				return "", "", not
			}
			month, ok = field(parts[0], 1, 12)
			if ok {
				day, ok = field(parts[1], 1, 31)
			}
		case i == 0:
			weekday, ok = weekdays(word)
		}
		if !ok {
			return "", "", not
		}
	}
	if day[0] != '*' && weekday[0] != '*' {
		return "", "", "it wants both a day of the month and one of the week, and five fields take either"
	}
	expr = strings.Join([]string{minute, hour, day, month, weekday}, " ")
	if _, err := schedule.Parse([]string{expr}, "UTC"); err != nil {
		return "", "", not
	}
	return expr, zone, ""
}

// field makes one of a part of a calendar: numbers, a..b, a/step, lists.
func field(part string, low, high int) (string, bool) {
	var all []string
	for element := range strings.SplitSeq(part, ",") {
		span, step, stepped := strings.Cut(element, "/")
		from, to, ranged := strings.Cut(span, "..")
		number := func(text string) (string, bool) {
			var n int
			if _, err := fmt.Sscanf(text, "%d", &n); err != nil || n < low || n > high || strings.Trim(text, "0123456789") != "" {
				return "", false
			}
			return fmt.Sprint(n), true
		}
		var ok bool
		switch {
		case span == "*" && !stepped:
			all = append(all, "*")
			continue
		case span == "*": // systemd refuses */5, and never starts the timer
			return "", false
		default:
			if from, ok = number(from); !ok {
				return "", false
			}
			if !ranged && !stepped {
				all = append(all, from)
				continue
			}
			if !ranged {
				to = fmt.Sprint(high)
			} else if to, ok = number(to); !ok {
				return "", false
			}
		}
		switch {
		case !stepped:
			all = append(all, from+"-"+to)
		case strings.Trim(step, "0123456789") != "" || step == "":
			return "", false
		case from == fmt.Sprint(low) && to == fmt.Sprint(high):
			all = append(all, "*/"+step)
		default:
			all = append(all, from+"-"+to+"/"+step)
		}
	}
	return strings.Join(all, ","), true
}

// weekdays makes the field of Mon..Fri and the like. Sunday is 7 as the end of a range.
func weekdays(word string) (string, bool) {
	names := []string{"mon", "tue", "wed", "thu", "fri", "sat", "sun"}
	long := []string{"monday", "tuesday", "wednesday", "thursday", "friday", "saturday", "sunday"}
	var all []string
	for element := range strings.SplitSeq(strings.ToLower(word), ",") {
		var days []string
		for name := range strings.SplitSeq(element, "..") {
			at := max(slices.Index(names, name), slices.Index(long, name))
			if at < 0 {
				return "", false
			}
			days = append(days, fmt.Sprint(at+1))
		}
		if len(days) > 2 {
			return "", false
		}
		all = append(all, strings.Join(days, "-"))
	}
	return strings.Join(all, ","), true
}
