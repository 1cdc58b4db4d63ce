// Package lint finds what is wrong with lines and files that call leaderrun or are read by it: what makes a job run twice, not at all, or
// otherwise than it looks.
package lint

import (
	"cmp"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/leaderrun/leaderrun/backends/all"
	"github.com/leaderrun/leaderrun/internal/crontab"
	"github.com/leaderrun/leaderrun/internal/duration"
	"github.com/leaderrun/leaderrun/internal/jobfile"
	"github.com/leaderrun/leaderrun/schedule"
)

// Source is a file to look at.
type Source struct {
	Path   string // for messages
	Text   []byte
	Format crontab.Format // where it is a crontab
	Host   int            // files of one number belong to one host

	Here    bool   // the cron of this host reads the file
	Refused string // why that cron does not read the file, whatever is in it; "": it does, or nobody knows

	order int
	lines []string
}

// Finding is one thing that is wrong. The names are a contract.
type Finding struct {
	Path   string `json:"file"`
	Line   int    `json:"line"` // 0: the whole file
	Rule   string `json:"rule"` // a contract, too
	Job    string `json:"job"`  // may be empty
	Why    string `json:"why"`
	Remedy string `json:"remedy"`

	order int
}

// The rules, by the names that findings have.
const (
	Syntax     = "syntax"     // cron would ignore the whole file, or `leaderrun cron` refuse it
	Schedule   = "schedule"   // the run's ticks are not when cron starts the line
	Name       = "name"       // one name for two jobs, or two for one
	Backend    = "backend"    // none is named, or two are
	Local      = "local"      // one that each host has for itself, on several hosts
	Bare       = "bare"       // a job's command without leaderrun
	User       = "user"       // one before a command of a user's crontab
	Percent    = "percent"    // a % that ends the command
	Outside    = "outside"    // a command beside the run, which every host runs
	Background = "background" // what a command leaves behind, which ends with it
	HostWork   = "host"       // what every host has to do for itself
	Call       = "call"       // leaderrun has no such command, or refuses options, variables and arguments
	Lock       = "lock"       // one inside a run, which keeps runs apart by itself; also a run inside a run
	Path       = "path"       // cron finds no leaderrun
)

// rules are all of them. It is read only.
var rules = []string{Syntax, Schedule, Name, Backend, Local, Bare, User, Percent, Outside, Background, HostWork, Call, Lock, Path}

// silence begins a comment that names rules which do not count for the line below it.
const silence = "# leaderrun lint: ok "

// Host is what is known outside of the files.
type Host struct {
	Named   bool                                                                           // a backend is named where the jobs run
	Refuses func(options, args []string, variables map[string]string) (why, remedy string) // what leaderrun has against words, up to JOB and from that on; "": nothing
	This    *crontab.Host                                                                  // which tells users from programs; nil: neither is known
}

// Look finds what is wrong with files, in their order and that of their lines.
func Look(sources []Source, host Host) []Finding {
	l := newLinter(host)
	for i := range sources {
		s := &sources[i]
		s.order, s.lines = i, strings.Split(string(s.Text), "\n")
		if s.isJobFile() {
			l.jobFile(s)
		} else {
			l.crontab(s)
		}
		l.silences(s)
	}
	l.across()
	return l.inOrder()
}

// Inside finds what is wrong with the commands of jobs of the daemon. text reads their files anew, for the comments in them.
func Inside(jobs []*jobfile.Job, text func(path string) []byte) []Finding {
	l, sources := newLinter(Host{}), map[string]*Source{}
	for _, j := range jobs {
		path, line := splitPlace(j.Place)
		if sources[path] == nil {
			sources[path] = &Source{Path: path, lines: strings.Split(string(text(path)), "\n")}
		}
		l.inside(sources[path], line, j.Name, scriptOf(j.Argv))
	}
	return l.inOrder()
}

type linter struct {
	Host
	findings []Finding
	jobs     []job
	bare     []job          // lines without leaderrun
	locks    []lock         // inside runs
	users    map[string]int // how many lines of a host take a lock
	told     map[string]bool
	plans    map[string]plan // that were read
}

func newLinter(host Host) *linter {
	return &linter{Host: host, users: map[string]int{}, told: map[string]bool{}, plans: map[string]plan{}}
}

// plan is a schedule that was read. fingerprint is the same for schedules that mean the same; "": there is none, or it is wrong.
type plan struct {
	*schedule.Schedule
	err         error
	fingerprint string
}

func (l *linter) plan(exprs []string, zone string) plan {
	key := zone + "\n" + strings.Join(exprs, "\n")
	p, known := l.plans[key]
	if !known {
		if p.Schedule, p.err = schedule.Parse(exprs, cmp.Or(zone, "UTC")); p.err == nil && len(exprs) > 0 {
			p.fingerprint = p.Fingerprint()
		}
		l.plans[key] = p
	}
	return p
}

// job is what is compared across files.
type job struct {
	source         *Source
	line           int
	name           string
	command, ticks string     // that say the same are the same
	place          *all.Place // of its store; nil: unknown
}

// lock is a program inside a run that keeps it apart from others.
type lock struct {
	source        *Source
	line          int
	name, program string
	keys          []string // among the linter's users
}

func (s *Source) isJobFile() bool {
	ext := strings.ToLower(filepath.Ext(s.Path))
	return ext == ".yaml" || ext == ".yml"
}

// isSilent says whether a comment above a line says that a rule does not count for it.
func (s *Source) isSilent(line int, rule string) bool {
	for line -= 2; line >= 0 && line < len(s.lines); line-- {
		comment := strings.TrimSpace(s.lines[line])
		if !strings.HasPrefix(comment, "#") {
			break
		}
		if slices.Contains(s.silenced(line), rule) {
			return true
		}
	}
	return false
}

// silences finds names of rules that are misspelt.
func (l *linter) silences(s *Source) {
	for i := range s.lines {
		for _, rule := range s.silenced(i) {
			if !slices.Contains(rules, rule) {
				l.find(s, i+1, Call, "", fmt.Sprintf("there is no rule %q", rule), "the rules are "+strings.Join(rules, ", "))
			}
		}
	}
}

// silenced are the rules that a line silences for what is below it; most lines silence none.
func (s *Source) silenced(line int) []string {
	names, ok := strings.CutPrefix(strings.TrimSpace(s.lines[line]), silence)
	if !ok {
		return nil
	}
	return strings.Fields(strings.ReplaceAll(names, ",", " "))
}

func (l *linter) find(s *Source, line int, rule, name, why, remedy string) {
	if !s.isSilent(line, rule) {
		l.findings = append(l.findings, Finding{s.Path, line, rule, name, why, remedy, s.order})
	}
}

// once is find for what would be said of each line of a file.
func (l *linter) once(s *Source, line int, rule, name, why, remedy string) {
	if key := s.Path + rule + why; !l.told[key] {
		l.told[key] = true
		l.find(s, line, rule, name, why, remedy)
	}
}

func (l *linter) jobFile(s *Source) {
	file, err := jobfile.Parse(s.Path, s.Text, jobfile.NewDefaults())
	if wrong, ok := errors.AsType[*jobfile.Error](err); ok {
		for _, p := range wrong.Problems {
			_, line := splitPlace(p.Place)
			l.find(s, line, Syntax, p.What, p.Why, p.Hint)
		}
		return
	}
	for _, j := range file.Jobs {
		_, line := splitPlace(j.Place)
		script := scriptOf(j.Argv)
		l.inside(s, line, j.Name, script)
		l.nested(s, line, j.Name, script, nil)
		l.jobs = append(l.jobs, job{s, line, j.Name, script.Essence(), j.Schedule.Fingerprint(), nil})
	}
	if !l.Named {
		l.find(s, 0, Backend, "", noBackend, "set LEADERRUN_BACKEND where `leaderrun cron` starts, or `backend:` in /etc/leaderrun.yaml")
	}
}

const noBackend = "no backend is named: the hosts would not know of each other"

// splitPlace reads FILE:LINE. Where there is no line, that is 0.
func splitPlace(place string) (path string, line int) {
	at := strings.LastIndexByte(place, ':')
	line, err := strconv.Atoi(place[at+1:])
	if err != nil {
		return place, 0
	}
	return place[:at], line
}

// scriptOf is a command as a script for the shell that it names.
func scriptOf(argv []string) *crontab.Script {
	if len(argv) == 3 && argv[1] == "-c" {
		return crontab.Read(argv[0], argv[2])
	}
	return crontab.Read("", strings.Join(argv, " "))
}

// settings are the variables of a crontab that count for the lines below them.
type settings map[string]string

func (l *linter) crontab(s *Source) {
	if wrong := crontab.Refused(s.Text, s.Format); wrong != nil {
		l.find(s, wrong.Line, Syntax, "", wrong.Why, "cron ignores the whole file until it is mended")
	}
	if s.Refused != "" {
		l.find(s, 0, Syntax, "", "cron ignores the whole file: "+s.Refused, "a crontab belongs to root, or to its user in the spool, has one name, and nobody else may write it: mode 644 or 600")
	}
	set := settings{"PATH": cronPath}
	for _, line := range crontab.Parse(s.Text, s.Format) {
		switch line.Kind {
		case crontab.Setting:
			set[line.Name] = line.Value
			server := line.Value[strings.LastIndexByte(line.Value, '@')+1:] // a password may have any characters
			if strings.HasPrefix(line.Name, "LEADERRUN_") && (strings.Contains(server, "$") || strings.HasPrefix(server, "~/")) {
				l.find(s, line.Number, Call, "", line.Name+": cron replaces no $ and no ~ in a variable", "write the value itself")
			}
		case crontab.Job:
			l.line(s, &line, set)
		}
	}
}

// call is a run in a line.
type call struct {
	*Source
	crontab.Run
	line   *crontab.Line
	set    settings
	script *crontab.Script // in which it stands: the line's, or a text for another shell
	inner  bool            // script is a text for another shell
}

func (l *linter) line(s *Source, line *crontab.Line, set settings) {
	text, _ := line.Script(s.Format)
	script := crontab.Read("", text)
	if s.Format != crontab.Supercronic && crontab.IsCutShort(line.Command) {
		l.find(s, line.Number, Percent, "", "cron ends the command at the %", `a plain % is \%`)
	}
	l.user(s, line, set)
	for i, inner := range script.Texts {
		if run, ok := inner.Run(); ok {
			l.run(&call{s, run, line, set, inner, i > 0})
			if i > 0 {
				run.From = slices.IndexFunc(script.Tokens, func(t crontab.Token) bool { return t.Quoted && strings.Contains(t.Text, "leaderrun") })
				run.To = run.From + 1
				l.outside(&call{Source: s, Run: run, line: line, script: script})
			}
			return
		}
	}
	if word, ok := script.OtherCall(); ok && word.Literal {
		if why, remedy := l.Refuses(nil, []string{word.Text}, nil); why != "" {
			l.find(s, line.Number, Call, "", why, remedy)
		}
	}
	l.takes(s, script)
	l.bare = append(l.bare, job{s, line.Number, "", script.Essence(), l.plan([]string{line.Fields}, "").fingerprint, nil})
}

// user looks at the word before a command that is a user in one kind of crontab only.
func (l *linter) user(s *Source, line *crontab.Line, set settings) {
	first, _ := crontab.CutWord(line.Command)
	switch {
	case s.Format == crontab.System && (line.User == "leaderrun" && first == "run" || strings.ContainsAny(line.User, "/=$'\"")):
		l.find(s, line.Number, Syntax, "", "a command stands in the place of the user, and cron ignores the whole file", "write the user before the command")
	case s.Format == crontab.System && s.Here && l.This != nil && !l.This.IsUser(line.User):
		l.find(s, line.Number, Syntax, "", fmt.Sprintf("%q is no user in /etc/passwd, and cron ignores the whole file", line.User), "write a user of this host before the command")
	case s.Format == crontab.User && l.This != nil:
		if why, sure := l.This.UserColumn(line.Command, set["PATH"]); sure {
			l.find(s, line.Number, User, "", why+", and cron takes it for the command", "remove it; or is the file a system crontab? --from system")
		}
	}
}

func (l *linter) run(c *call) {
	exprs, ok := l.schedule(c)
	if ok {
		l.call(c)
	}
	l.outside(c)
	l.path(c)
	text := ""
	if n := len(c.Command); n > 0 {
		text = c.script.Text[c.Command[0].Start:c.Command[n-1].End]
		if why, remedy := notProgram(c.Command); len(c.Options["shell"]) > 0 {
			text = c.Command[0].Text
		} else if why != "" {
			l.find(c.Source, c.line.Number, Call, c.Job, why, remedy)
		}
	}
	backend := c.value("backend")
	if backend+c.value("backend-file")+c.value("config") == "" && !l.Named {
		l.once(c.Source, c.line.Number, Backend, c.Job, noBackend, "write LEADERRUN_BACKEND_FILE=/etc/leaderrun/backend above the lines")
	}
	command := crontab.Read("sh", text) // that of --shell
	found := job{c.Source, c.line.Number, c.Job, command.Essence(), l.plan(exprs, c.value("timezone")).fingerprint, placeOf(backend)}
	l.inside(c.Source, c.line.Number, c.Job, command)
	l.nested(c.Source, c.line.Number, c.Job, command, found.place)
	l.jobs = append(l.jobs, found)
}

// placeOf is that of a store; nil: nobody knows it here.
func placeOf(backend string) *all.Place {
	place, err := all.PlaceOf(backend)
	if err != nil || strings.Contains(backend, "$") {
		return nil
	}
	return &place
}

// value is what a run gets for an option: on the command line, in a variable before the command or above the line. "": nothing.
func (c *call) value(option string) string {
	return cmp.Or(c.Option(option), c.variable("LEADERRUN_"+strings.ToUpper(strings.ReplaceAll(option, "-", "_"))))
}

func (c *call) variable(name string) string {
	for _, t := range c.script.Tokens[:c.From] {
		if text, ok := strings.CutPrefix(t.Text, name+"="); ok && !t.Operator {
			return text
		}
	}
	return c.set[name]
}

// call asks leaderrun itself whether it would take the words of a run and the variables. Not words that a shell has yet to fill in.
func (l *linter) call(c *call) {
	own := c.To - len(c.Command)
	options, args := []string{"run"}, []string{"job", "command"}
	isCut := len(c.Command) == 0 && c.To < len(c.script.Tokens) && strings.ContainsAny(c.script.Tokens[c.To].Text, "<>") // the rest stands behind it
	if !isCut && !slices.ContainsFunc(c.script.Tokens[c.From+1:own], func(t crontab.Token) bool { return !t.Literal }) {
		words := make([]string, 0, c.To-c.From)
		for _, t := range c.script.Tokens[c.From+1 : c.To] {
			words = append(words, t.Text)
		}
		options, args = words[:c.Before], words[c.Before:]
	}
	why, remedy := l.Refuses(options, args, c.set)
	if strings.HasPrefix(why, "LEADERRUN_") {
		l.once(c.Source, c.line.Number, Call, c.Job, why, remedy)
	} else if why != "" {
		l.find(c.Source, c.line.Number, Call, c.Job, why, remedy)
	}
}

// notProgram says why the first word of a command can be no program.
func notProgram(command []crontab.Token) (why, remedy string) {
	const toShell = "give the line to a shell: --shell '…'"
	first := command[0]
	switch {
	case !first.Literal:
	case len(command) == 1 && first.Quoted && strings.ContainsAny(first.Text, " \t|;&"):
		return "the one word " + first.Text + " is taken for the name of a program", toShell
	case crontab.Is(first.Text, "word"):
		return first.Text + " is a word of the shell, and no program", toShell
	case strings.Contains(first.Text, "=") && !strings.Contains(first.Text, "/"):
		return "a variable stands in the place of the program", toShell
	case first.Quoted && strings.HasPrefix(first.Text, "~/"):
		return "no shell replaces the ~ in quotes", "write the whole path"
	}
	return "", ""
}

// schedule compares the ticks of a run with the fields of its line, and returns the expressions. ok is false if leaderrun would refuse
// --schedule.
func (l *linter) schedule(c *call) (exprs []string, ok bool) {
	if c.line.Fields == "@reboot" || c.Option("tick") != "" || c.Option("once") != "" {
		return nil, true
	}
	fault := func(why, remedy string) { l.find(c.Source, c.line.Number, Schedule, c.Job, why, remedy) }
	exprs, every, names := c.Options["schedule"], c.Option("every"), []string{"--schedule", "--every"}
	if len(exprs) == 0 && every == "" {
		exprs, every = strings.FieldsFunc(c.value("schedule"), func(r rune) bool { return r == '\n' }), c.value("every")
		names = []string{"LEADERRUN_SCHEDULE", "LEADERRUN_EVERY"}
	}
	says := names[0]
	if err := l.plan(exprs, "").err; len(exprs) > 0 && err != nil {
		if says == "--schedule" { // else call says it
			fault("--schedule is refused: "+err.Error(), "repeat the fields of the line, in quotes")
		}
		return nil, says != "--schedule"
	}
	zone := cmp.Or(c.value("timezone"), c.variable("TZ"))
	switch cronTZ := c.set["CRON_TZ"]; {
	case len(exprs) == 0 || strings.HasSuffix(c.line.Fields, " * * * *"): // it is the same in all zones
	case cronTZ != "" && zone != cronTZ:
		fault(fmt.Sprintf("cronie starts the line in the zone %s of CRON_TZ, of which leaderrun does not know", cronTZ), "add --timezone "+cronTZ)
	case cronTZ == "" && zone != "" && c.value("timezone") == "":
		fault(fmt.Sprintf("leaderrun takes %s of TZ for the zone of the schedule, and cron starts the line in the host's", zone), "add --timezone with the zone of the hosts")
	}
	if d, err := duration.Positive(every); err == nil {
		says, exprs = names[1], append(slices.Clone(exprs), "@every "+d.String())
	}
	if len(exprs) > 0 && !l.isOnePerTick(c.line.Fields, exprs) {
		fault(fmt.Sprintf("%s says %q, and cron starts the line at %q", says, strings.Join(exprs, `" and "`), c.line.Fields), "write the same in both places")
	}
	return exprs, true
}

// isOnePerTick says whether cron starts a line with these fields once for each tick. With @every that may be some time after the tick.
func (l *linter) isOnePerTick(fields string, exprs []string) bool {
	starts, ticks := l.plan([]string{fields}, ""), l.plan(exprs, "")
	switch {
	case starts.err != nil, ticks.err != nil, starts.fingerprint == ticks.fingerprint:
		return true // what is wrong is cron's, or import's, to tell
	case !strings.HasPrefix(exprs[len(exprs)-1], "@every"):
		return false
	}
	start, _ := starts.Next(time.Unix(0, 0).AddDate(50, 0, 0)) //nolint:mnd // anywhen
	tick, _ := ticks.Last(start)
	const enough = 400
	for range enough {
		start, _ = starts.Next(start)
		next, _ := ticks.Next(tick)
		if tick, _ = ticks.Last(start); !tick.Equal(next) {
			return false
		}
	}
	return true
}

// outside finds commands that stand beside the run.
func (l *linter) outside(c *call) {
	begins, run, tokens := true, &c.Run, c.script.Tokens
	for i, t := range tokens {
		switch {
		case i >= run.From && i < run.To:
			begins = false
		case t.Operator && strings.HasPrefix(t.Text, "#"):
			return
		case t.Operator:
			begins = !strings.ContainsAny(t.Text, "<>")
		case begins && strings.Contains(t.Text, "=") && i < run.From: // a variable of the run
		case begins && i < run.From && !slices.ContainsFunc(tokens[i:run.From], func(t crontab.Token) bool { return t.Operator }): // what starts the run
			begins = false
		case begins:
			begins = false
			if crontab.Is(t.Text, "beside") {
				continue
			}
			where, operator := "before", operatorAfter(tokens[i:])
			if i > run.To {
				where, operator = "after", tokens[i-1].Text
			}
			l.find(c.Source, c.line.Number, Outside, c.Job,
				fmt.Sprintf("%s stands %s the run (%s): every host runs it, also where the job did not run", t.Text, where, operator),
				"what belongs to the job goes inside: -- sh -c '… && …'")
			return
		}
	}
}

// cronPath is where cron looks for programs, if a file does not say.
const cronPath = "/usr/bin:/bin"

// otherPath are words before a call with which it may be looked for elsewhere. They are read only.
var otherPath = strings.Fields(". doas env export source su sudo")

// path looks for leaderrun where cron does, once for each PATH.
func (l *linter) path(c *call) {
	name, path := c.script.Tokens[c.From].Text, c.set["PATH"]
	if !c.Here || c.Format == crontab.Supercronic || c.inner || strings.Contains(name, "/") || l.This.IsProgram(name, path) {
		return
	}
	for _, t := range c.script.Tokens[:c.From] {
		if strings.HasPrefix(t.Text, "PATH=") || slices.Contains(otherPath, filepath.Base(t.Text)) {
			return
		}
	}
	l.once(c.Source, c.line.Number, Path, c.Job, "cron finds no leaderrun in its PATH, "+path, "write the whole path of leaderrun, or PATH=… above the lines")
}

// operatorAfter is what ends the command that some tokens begin with.
func operatorAfter(tokens []crontab.Token) string {
	at := slices.IndexFunc(tokens, func(t crontab.Token) bool { return t.Operator && !strings.ContainsAny(t.Text, "<>") })
	return tokens[max(at, 0)].Text
}

// storeLocks take locks that hosts share: of those nobody can tell here who else uses them.
var storeLocks = []string{"consul lock", "etcdctl lock", "cronlock"} // read only

// inside looks at the command of a run, or of a job of the daemon.
func (l *linter) inside(s *Source, line int, name string, script *crontab.Script) {
	fault := func(rule, why, remedy string) { l.find(s, line, rule, name, why, remedy) }
	program, locks := l.takes(s, script)
	if program != "" && !slices.Contains(storeLocks, program) {
		l.locks = append(l.locks, lock{s, line, name, program, locks})
	}
	if part := script.LeavesBehind(); part != "" {
		fault(Background, part+" lets the command end at once: what it has started is ended with the run, or goes on without its lease", "let it run in the foreground, or end with `wait`")
	}
	if work := script.HostWork(); work != "" {
		fault(HostWork, work+" looks after the host on which it runs, and the run takes place on one of them", "every host has to run it: leave it to cron, without leaderrun")
	}
}

// nested looks for a run in the command of another one, or of a job of the daemon. place is that of the outer store; nil: unknown.
func (l *linter) nested(s *Source, line int, name string, script *crontab.Script, place *all.Place) {
	const remedy = "write the command alone"
	for _, text := range script.Texts {
		run, ok := text.Run()
		if !ok {
			continue
		}
		other := placeOf((&call{Source: s, Run: run, script: text}).value("backend"))
		isTriggered := run.Option("schedule")+run.Option("every")+run.Option("tick")+run.Option("once") != ""
		switch {
		case run.Option("slots") != "", other != nil && place != nil && !place.IsSame(*other):
		case run.Job == name:
			l.find(s, line, Lock, name, "a run of this job inside its run finds the job taken: the command never runs", remedy)
		case isTriggered, s.isJobFile():
			l.find(s, line, Lock, name, "`leaderrun run` inside a job takes a second lease", remedy)
		}
		return
	}
}

// takes counts the locks that a script takes, and returns them with the program of the first one.
func (l *linter) takes(s *Source, script *crontab.Script) (program string, keys []string) {
	program, names := script.Locks()
	for _, name := range names {
		keys = append(keys, fmt.Sprint(s.Host, name))
		l.users[keys[len(keys)-1]]++
	}
	return program, keys
}

// inOrder returns all findings, also those that needed a look at all lines.
func (l *linter) inOrder() []Finding {
	for _, k := range l.locks {
		if !slices.ContainsFunc(k.keys, func(key string) bool { return l.users[key] > 1 }) {
			l.find(k.source, k.line, Lock, k.name, k.program+" inside the run: the lease keeps runs apart already", "take it out where nothing else uses that lock")
		}
	}
	slices.SortStableFunc(l.findings, func(a, b Finding) int { return cmp.Or(cmp.Compare(a.order, b.order), cmp.Compare(a.Line, b.Line)) })
	return l.findings
}

// across compares jobs of all files.
func (l *linter) across() {
	first := map[string]job{}
	earlier := func(a job, what ...string) (job, bool) { // the first one of which the same is to be said
		key := strings.Join(what, "\x00")
		b, ok := first[key]
		if !ok {
			first[key] = a
		}
		return b, ok
	}
	for _, a := range l.jobs {
		b, isKnown := earlier(a, "job", a.name)
		twin, isTwin := earlier(a, "job of host", a.name, strconv.Itoa(a.source.Host))
		other, isOther := earlier(a, "command at", a.command, a.ticks)
		earlier(a, "command", a.command)
		fault := func(rule, why, remedy string) { l.find(a.source, a.line, rule, a.name, why, remedy) }
		switch {
		case isKnown && a.command != b.command:
			fault(Name, "another command has this name, in "+b.at(), "give each job a name of its own, the same on all hosts")
		case isKnown && a.ticks != b.ticks:
			fault(Schedule, "the job has another schedule in "+b.at(), "one job has one schedule, on all hosts")
		case isTwin:
			fault(Name, "the same job is in "+twin.at(), "remove one of them")
		case !isKnown && isOther && a.source.Host != other.source.Host:
			fault(Name, fmt.Sprintf("the same command is called %s in %s: each of these hosts runs it", other.name, other.at()), "give it one name on all hosts")
		}
		if a.place == nil {
			continue
		}
		switch b, ok := earlier(a, "store", a.name); {
		case !ok || a.source.Host == b.source.Host:
		case a.place.IsLocal() && b.place.IsLocal():
			l.once(a.source, a.line, Local, a.name, a.place.String()+" is this host's alone, and there are several", "name a server that all of them reach")
		case !a.place.IsSame(*b.place):
			l.once(a.source, a.line, Backend, a.name, fmt.Sprintf("the backend is %v, and %v in %s: these hosts do not know of each other", a.place, b.place, b.source.Path), "name the same store on all hosts")
		}
	}
	for _, a := range l.bare {
		b, ok := first["command\x00"+a.command]
		if !ok || b.source.Host == a.source.Host {
			b, ok = first["command at\x00"+a.command+"\x00"+a.ticks]
		}
		if ok {
			l.find(a.source, a.line, Bare, b.name, "the same command is a run of "+b.name+" in "+b.at()+", and here it runs without leaderrun", "wrap this line, too, or remove it")
		}
	}
}

func (j *job) at() string { return fmt.Sprintf("%s:%d", j.source.Path, j.line) }
