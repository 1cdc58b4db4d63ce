package importer

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/leaderrun/leaderrun/internal/crontab"
	"github.com/leaderrun/leaderrun/internal/duration"
	"github.com/leaderrun/leaderrun/internal/jobfile"
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
// timer that cannot be a schedule is left.
func Units(names []string, stdin io.Reader, o Options) (jobs []*Job, err error) {
	var units []*unit
	for _, name := range names {
		if name == "-" {
			text, err := readText(stdin)
			if err != nil {
				return nil, fmt.Errorf("stdin: %w", err)
			}
			units = append(units, parseCat(string(text))...)
			continue
		}
		found, err := unitPath(unitDirectories).findUnits(name)
		if err != nil {
			return nil, err
		}
		units = append(units, found...)
	}
	for _, u := range units {
		if !strings.HasSuffix(u.name, ".timer") {
			continue
		}
		job, why := ofTimer(u, units)
		if why != "" {
			job = &Job{Path: u.path}
		}
		job.Name = strings.TrimSuffix(u.name, ".timer")
		jobs = append(jobs, job)
		script, _ := crontab.SplitPercent(job.raw)
		command := crontab.Read("sh", script)
		if job.judge(o, command, false, why, ""); job.Word != Left {
			job.lookAt(command)
		}
	}
	if len(jobs) == 0 {
		return nil, errors.New("there is no timer among the units")
	}
	return jobs, nil
}

// unitHead is what `systemctl cat` prints before a file, but for those of drop-ins.
var unitHead = pattern(`(?m)^\s*# (/.*\.(?:timer|service))\s*$`)

// parseCat reads what `systemctl cat` prints.
func parseCat(text string) (units []*unit) {
	heads := unitHead().FindAllStringSubmatchIndex(text, -1)
	for i, head := range heads {
		end := len(text)
		if i+1 < len(heads) {
			end = heads[i+1][0]
		}
		path := text[head[2]:head[3]]
		units = append(units, &unit{name: filepath.Base(path), path: path, settings: parseUnit(text[head[1]:end])})
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
	job = &Job{Path: u.path, Word: Wrapped}
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
	var lost []string
	for _, s := range slices.Concat(u.settings, units[at].settings) {
		if key := s.key + "="; s.value != "" && !slices.Contains(carried, s.key) && !slices.Contains(lost, key) {
			lost = append(lost, key)
		}
	}
	if len(lost) > 0 {
		job.look("not carried over: " + strings.Join(lost, ", "))
	}
	if yes, _ := boolean(u.last("Persistent")); yes {
		job.options = append(job.options, option{key: "catch_up", keyValue: "1"})
	}
	why = job.jitter(u.last("RandomizedDelaySec"))
	return job, why
}

// jitter takes a random delay. A run must start before the next tick.
func (j *Job) jitter(text string) (why string) {
	delay, ok := span(text)
	if !ok {
		return "RandomizedDelaySec=" + text + " is not understood"
	}
	if delay == 0 {
		return ""
	}
	s, err := schedule.Parse(j.Exprs, cmp.Or(j.Timezone, "UTC"))
	if err != nil {
		return err.Error()
	}
	if gap := jobfile.SmallestGap(s); delay >= gap {
		j.look(fmt.Sprintf("its random delay of %v is made a second shorter than the %v between two ticks", delay, gap))
		delay = gap - time.Second
	}
	short := strings.NewReplacer("h0m0s", "h", "m0s", "m")
	j.options = append(j.options, option{key: "jitter", keyValue: short.Replace(delay.String())})
	return ""
}

// boolean reads one as systemd does.
func boolean(text string) (yes, ok bool) {
	at := slices.Index(strings.Fields("1 yes y true t on 0 no n false f off"), strings.ToLower(text))
	return at >= 0 && at < 6, at >= 0
}

// spans are the units of systemd.time(7), and seconds where there is none. They are read only.
var spans = map[string]time.Duration{
	"us": time.Microsecond, "usec": time.Microsecond, "µs": time.Microsecond, "ms": time.Millisecond, "msec": time.Millisecond,
	"": time.Second, "s": time.Second, "sec": time.Second, "second": time.Second, "seconds": time.Second,
	"m": time.Minute, "min": time.Minute, "minute": time.Minute, "minutes": time.Minute, "h": time.Hour, "hr": time.Hour, "hour": time.Hour, "hours": time.Hour,
	"d": day, "day": day, "days": day, "w": 7 * day, "week": 7 * day, "weeks": 7 * day,
	"M": month, "month": month, "months": month, "y": year, "year": year, "years": year,
}

const (
	day   = 24 * time.Hour
	month = 2629800 * time.Second
	year  = 31557600 * time.Second
)

var spanPart = pattern(`^\s*([0-9.]+)\s*([A-Za-zµ]*)\s*`)

// span reads one of systemd.time(7): numbers with units.
func span(text string) (sum time.Duration, ok bool) {
	for text != "" {
		m := spanPart().FindStringSubmatch(text)
		if m == nil {
			return 0, false
		}
		number, err := strconv.ParseFloat(m[1], 64)
		length := spans[m[2]]
		if err != nil || length == 0 || number > float64(duration.Longest/length) {
			return 0, false
		}
		sum += time.Duration(number * float64(length))
		text = text[len(m[0]):]
	}
	return sum, sum <= duration.Longest
}

// carried are the settings that a job has too, and those that say nothing of how it runs. They are read only.
var carried = strings.Fields(`OnCalendar RandomizedDelaySec Persistent Unit AccuracySec ExecStart User Group SupplementaryGroups Environment WorkingDirectory
	Description Documentation After Before Wants Type WantedBy Also DefaultDependencies RefuseManualStart RefuseManualStop SyslogIdentifier`)

// service takes the command and what belongs to it.
func (j *Job) service(u *unit) (why string) {
	for _, key := range []string{"ExecStartPre", "ExecStartPost", "ExecCondition", "ExecStopPost", "EnvironmentFile", "RootDirectory", "DynamicUser", "LoadCredential"} {
		if no, is := boolean(u.last(key)); len(u.all(key)) > 0 && (no || !is) {
			return key + "= is not carried over"
		}
	}
	if u.last("Type") == "forking" {
		return "Type=forking leaves a daemon behind, which would end with the run"
	}
	commands := u.all("ExecStart")
	if len(commands) != 1 {
		return fmt.Sprintf("it has %d ExecStart=", len(commands))
	}
	command := strings.TrimLeft(commands[0], "-")
	if command != commands[0] {
		j.look("not carried over: the - of ExecStart=")
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
	j.take(crontab.Read("sh", j.escape(strings.Join(words, " "))))
	j.User = cmp.Or(u.last("User"), "root")
	if strings.Contains(j.User, "%") {
		return "User=" + j.User + " is not understood"
	}
	for _, key := range []string{"Group", "SupplementaryGroups"} {
		if group := u.last(key); group != "" && group != j.User {
			j.look(key + "=" + group + " is not carried over: it has the groups of the user that runs it")
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

// A word of a unit, and a part of one that stands in quotes.
var (
	unitWord   = pattern(`(?:"[^"]*"|'[^']*'|[^"' \t])+`)
	quotedPart = pattern(`"([^"]*)"|'([^']*)'`)
)

// unitWords takes a line apart as systemd does, without \ in it: quotes may stand anywhere in a word. A ; that is a word begins another
// command, so such a line is not understood.
func unitWords(line string) (words []string, ok bool) {
	words = unitWord().FindAllString(line, -1)
	if strings.ContainsAny(unitWord().ReplaceAllString(line, ""), `"'`) || slices.Contains(words, ";") {
		return nil, false
	}
	for i, word := range words {
		words[i] = quotedPart().ReplaceAllString(word, "$1$2")
	}
	return words, true
}

// Lines writes jobs of timers as a crontab of the user that they have, imported as others are. What a line cannot say is left, or said.
func Lines(jobs []*Job, o Options) string {
	files, _ := Import([]Source{{Path: "timers", Text: []byte(bare(jobs))}}, o)
	for _, found := range files[0].Jobs {
		j := jobs[slices.IndexFunc(jobs, func(j *Job) bool { return j.Name == found.Name })]
		switch {
		case found.Word == Left:
			j.leave(found.Why, "")
		case found.Why != "":
			j.look(found.Why)
		}
	}
	return string(files[0].After)
}

// bare writes jobs of timers as a crontab that was not imported yet.
func bare(jobs []*Job) string {
	var b strings.Builder
	jobs = slices.Clone(jobs) // CRON_TZ counts for all lines below it, and cannot be taken back
	slices.SortStableFunc(jobs, func(a, b *Job) int { return cmp.Compare(a.Timezone, b.Timezone) })
	zone := ""
	for _, j := range jobs {
		if j.Word != Left && len(j.Exprs) > 1 {
			j.leave("a line has one schedule, and this has several", "--to jobs writes it")
		}
		if j.Word == Left {
			continue
		}
		for _, o := range j.options {
			j.look("a crontab has nothing like " + o.key + " of a job file: --to jobs writes it")
		}
		if j.Timezone != zone {
			zone = j.Timezone
			b.WriteString("CRON_TZ=" + zone + "\n")
		}
		if j.User != "root" {
			b.WriteString("# runs as " + j.User + ": for the crontab of that user\n")
		}
		line := j.raw
		for _, v := range slices.Backward(j.Env) {
			line = v.Name + "=" + j.escape(quote(v.Value)) + " " + line
		}
		if j.Dir != "" {
			line = "cd " + j.escape(quote(j.Dir)) + " && " + line
		}
		b.WriteString("# job: " + j.Name + "\n" + j.Exprs[0] + " " + line + "\n")
	}
	return b.String()
}

// calendars are what the words of systemd stand for. They are read only.
var calendars = map[string]string{
	"minutely": "* * * * *", "hourly": "0 * * * *", "daily": "0 0 * * *", "weekly": "0 0 * * 1", "monthly": "0 0 1 * *",
	"quarterly": "0 0 1 1,4,7,10 *", "yearly": "0 0 1 1 *", "annually": "0 0 1 1 *", "anually": "0 0 1 1 *",
	"semiannually": "0 0 1 1,7 *", "semi-annually": "0 0 1 1,7 *", "biannually": "0 0 1 1,7 *", "bi-annually": "0 0 1 1,7 *",
}

// event is a calendar without its zone: day of the week, date and time.
var event = pattern(`^(?:([A-Za-z][A-Za-z.,-]*) ?)?(?:(?:([^ -]+)-)?([^ -]+)-([^ -]+) ?)?(?:([^ :]+):([^ :]+)(?::([^ :]+))?)?$`)

// fields makes five fields of a calendar of systemd.time(7).
func fields(calendar string) (expr, zone, why string) {
	words := strings.Fields(calendar)
	if n := len(words); n > 1 && words[n-1][0]|0x20 >= 'a' { // nothing else that begins with a letter stands at the end
		zone, words = words[n-1], words[:n-1]
		if _, err := schedule.Parse([]string{"@daily"}, zone); err != nil {
			why, _ := schedule.Explain(err)
			return "", "", why
		}
	}
	if expr = calendars[strings.ToLower(words[0])]; len(words) == 1 && expr != "" {
		return expr, zone, ""
	}
	const not = "import reads no five fields out of it"
	m := event().FindStringSubmatch(strings.Join(words, " "))
	switch {
	case m == nil:
		return "", "", not
	case m[2] != "" && m[2] != "*":
		return "", "", "schedules of leaderrun have no year"
	case strings.Trim(m[7], "0") != "":
		return "", "", "schedules of leaderrun have no seconds"
	}
	all := []string{
		timePart(cmp.Or(m[6], "0"), 0, 59), timePart(cmp.Or(m[5], "0"), 0, 23), timePart(cmp.Or(m[4], "*"), 1, 31), timePart(cmp.Or(m[3], "*"), 1, 12),
		weekdays.Replace(cmp.Or(strings.ToLower(m[1]), "*")),
	}
	if all[2][0] != '*' && all[4][0] != '*' {
		return "", "", "it wants both a day of the month and one of the week, and five fields take either"
	}
	expr = strings.Join(all, " ")
	if _, err := schedule.Parse([]string{expr}, "UTC"); err != nil {
		return "", "", not
	}
	return expr, zone, ""
}

var timeElement = pattern(`^([0-9]+)(?:\.\.([0-9]+))?(?:/([0-9]+))?$`)

// timePart makes a field of a part of a calendar: numbers, a..b, a/step, lists. What is none becomes what no schedule has.
func timePart(part string, low, high int) string {
	elements := strings.Split(part, ",")
	for i, element := range elements {
		m := timeElement().FindStringSubmatch(element)
		if m == nil {
			if element != "*" { // systemd refuses */5, too, and never starts the timer
				elements[i] = "!"
			}
			continue
		}
		from, _ := strconv.Atoi(m[1]) // too large a number is none of a schedule, either
		to, _ := strconv.Atoi(cmp.Or(m[2], strconv.Itoa(high)))
		elements[i] = strconv.Itoa(from)
		switch {
		case m[3] != "" && from == low && to == high:
			elements[i] = "*"
		case m[2]+m[3] != "":
			elements[i] += "-" + strconv.Itoa(to)
		}
		if m[3] != "" {
			elements[i] += "/" + m[3]
		}
	}
	return strings.Join(elements, ",")
}

// weekdays makes a field of Mon..Fri and the like. Sunday is 7 as the end of a range.
var weekdays = strings.NewReplacer("monday", "1", "mon", "1", "tuesday", "2", "tue", "2", "wednesday", "3", "wed", "3", "thursday", "4", "thu", "4",
	"friday", "5", "fri", "5", "saturday", "6", "sat", "6", "sunday", "7", "sun", "7", "..", "-")
