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

	"github.com/leaderrun/leaderrun/internal/crontab"
	"github.com/leaderrun/leaderrun/internal/jobfile"
	"github.com/leaderrun/leaderrun/schedule"
)

// Source is a file to look at.
type Source struct {
	Path   string
	Text   []byte
	Format crontab.Format // where it is a crontab
	Host   int            // files of one number belong to one host

	Has func(program string) bool // whether the host, whose cron reads the file, has a program; nil: it cannot be looked up
}

// Finding is one thing that is wrong. The names are a contract.
type Finding struct {
	Path   string `json:"file"`
	Line   int    `json:"line"` // 0: the whole file
	Rule   string `json:"rule"` // a contract, too
	Job    string `json:"job"`  // may be empty
	Why    string `json:"why"`
	Remedy string `json:"remedy"`
}

// The rules, by the names that findings have.
const (
	Syntax   = "syntax"   // cron would ignore the whole file, or `leaderrun cron` refuse it
	Schedule = "schedule" // --schedule is not when cron starts the line
	Name     = "name"     // one name for two jobs, or two for one
	Backend  = "backend"  // none is named
	Local    = "local"    // file: on several hosts
	Percent  = "percent"  // a % that ends the command
	Outside  = "outside"  // a command beside the run, which every host runs
	Call     = "call"     // leaderrun has no such command, or refuses the options and arguments
	Lock     = "lock"     // one inside a run, which keeps runs apart by itself
	Path     = "path"     // cron finds no leaderrun
)

// Host is what is known outside of the files.
type Host struct {
	Named   bool                                      // a backend is named where the jobs run
	Refuses func(words []string) (why, remedy string) // what leaderrun has against the words behind its name; "": nothing
}

// Look finds what is wrong with files, in their order and that of their lines.
func Look(sources []Source, host Host) []Finding {
	l := &linter{Host: host}
	for _, s := range sources {
		at := len(l.findings)
		switch strings.ToLower(filepath.Ext(s.Path)) {
		case ".yaml", ".yml":
			l.jobFile(s)
		default:
			l.crontab(s)
		}
		slices.SortStableFunc(l.findings[at:], func(a, b Finding) int { return cmp.Compare(a.Line, b.Line) })
	}
	l.across()
	return l.findings
}

type linter struct {
	Host
	findings []Finding
	jobs     []job
}

// job is what is compared across files.
type job struct {
	source         Source
	line           int
	name           string
	command, ticks string // that say the same are the same
	local          bool   // its backend is file:
}

func (l *linter) find(s Source, line int, rule, name, why, remedy string) {
	l.findings = append(l.findings, Finding{s.Path, line, rule, name, why, remedy})
}

func (l *linter) jobFile(s Source) {
	file, err := jobfile.Parse(s.Path, s.Text, jobfile.NewDefaults())
	if wrong, ok := errors.AsType[*jobfile.Error](err); ok {
		for _, p := range wrong.Problems {
			l.find(s, lineOf(p.Place), Syntax, p.What, p.Why, p.Hint)
		}
		return
	}
	for _, j := range file.Jobs {
		l.jobs = append(l.jobs, job{s, lineOf(j.Place), j.Name, strings.Join(j.Argv, " "), j.Schedule.Fingerprint(), false})
		script := strings.Join(j.Argv, " ")
		if len(j.Argv) == 3 && j.Argv[1] == "-c" {
			script = j.Argv[2]
		}
		l.locks(s, lineOf(j.Place), j.Name, script)
		if tokens, _ := crontab.Tokens(script); hasRun(tokens) {
			l.find(s, lineOf(j.Place), Lock, j.Name, "`leaderrun run` inside a job takes a second lease", "write the command alone")
		}
	}
	if !l.Named {
		l.find(s, 0, Backend, "", noBackend, "set LEADERRUN_BACKEND where `leaderrun cron` starts, or `backend:` in /etc/leaderrun.yaml")
	}
}

const noBackend = "no backend is named: the hosts would not know of each other"

// lineOf is the line of a place FILE:LINE; 0: it has none.
func lineOf(place string) int {
	line, err := strconv.Atoi(place[strings.LastIndexByte(place, ':')+1:])
	if err != nil {
		return 0
	}
	return line
}

func hasRun(tokens []crontab.Token) bool {
	_, ok := crontab.FindRun(tokens)
	return ok
}

// settings are the variables of a crontab that count for the lines below.
type settings struct {
	cronTZ  string
	backend string // a URL, or "named" where a file has it
	told    bool   // that there is none
	path    string // where cron looks for programs
	lost    bool   // it was told that leaderrun is not there
}

func (l *linter) crontab(s Source) {
	if wrong := crontab.Refused(s.Text, s.Format); wrong != nil {
		l.find(s, wrong.Line, Syntax, "", wrong.Why, "cron ignores the whole file until it is mended")
	}
	set := settings{path: cronPath}
	for _, line := range crontab.Parse(s.Text, s.Format) {
		switch line.Kind {
		case crontab.Setting:
			switch line.Name {
			case "PATH":
				set.path, set.lost = line.Value, false
			case "CRON_TZ":
				set.cronTZ = line.Value
			case "LEADERRUN_BACKEND":
				set.backend = line.Value
			case "LEADERRUN_BACKEND_FILE", "LEADERRUN_CONFIG":
				set.backend = "named"
			}
		case crontab.Job:
			l.line(s, &line, &set)
		}
	}
}

func (l *linter) line(s Source, line *crontab.Line, set *settings) {
	script, _ := line.Script(s.Format)
	tokens, _ := crontab.Tokens(script)
	if s.Format != crontab.Supercronic && crontab.IsCutShort(line.Command) {
		l.find(s, line.Number, Percent, "", "cron ends the command at the %", `a plain % is \%`)
	}
	run, ok := crontab.FindRun(tokens)
	if !ok {
		l.command(s, line, tokens)
		return
	}
	if l.schedule(s, line, &run, set) {
		l.call(s, line, tokens, &run)
	}
	l.outside(s, line, tokens, &run)
	l.path(s, line, tokens, &run, set)
	command := script[tokens[run.To-1].End:]
	if len(run.Command) > 0 {
		command = script[run.Command[0].Start:run.Command[len(run.Command)-1].End]
	}
	l.locks(s, line.Number, run.Job, inner(run.Command, command))
	backend := cmp.Or(run.Option("backend"), assigned(tokens[:run.From], "LEADERRUN_BACKEND"), set.backend)
	if assigned(tokens[:run.From], "LEADERRUN_BACKEND_FILE") != "" || run.Option("config") != "" {
		backend = "named"
	}
	if backend == "" && !l.Named && !set.told {
		set.told = true
		l.find(s, line.Number, Backend, run.Job, noBackend, "write LEADERRUN_BACKEND_FILE=/etc/leaderrun/backend above the lines")
	}
	l.jobs = append(l.jobs, job{s, line.Number, run.Job, command, fingerprint(run.Options["schedule"], run.Option("timezone")), strings.HasPrefix(backend, "file:")})
}

// assigned is the value of a variable that stands before a command; "": it is not set.
func assigned(tokens []crontab.Token, name string) string {
	for _, t := range tokens {
		if value, ok := strings.CutPrefix(t.Text, name+"="); ok && !t.Operator {
			return value
		}
	}
	return ""
}

// inner is what a shell is to run, where the command is a shell.
func inner(words []crontab.Token, command string) string {
	if len(words) > 2 && words[1].Text == "-c" {
		return words[2].Text
	}
	if len(words) == 1 { // of --shell
		return words[0].Text
	}
	return command
}

// fingerprint is the same for schedules that mean the same; "": there is none, or it is wrong.
func fingerprint(exprs []string, zone string) string {
	if len(exprs) == 0 {
		return ""
	}
	s, err := schedule.Parse(exprs, cmp.Or(zone, "UTC"))
	if err != nil {
		return ""
	}
	return s.Fingerprint()
}

// call asks leaderrun itself whether it would take the words of a run. Not where a shell has yet to say what they are.
func (l *linter) call(s Source, line *crontab.Line, tokens []crontab.Token, run *crontab.Run) {
	if len(run.Command) == 0 && run.To < len(tokens) && strings.ContainsAny(tokens[run.To].Text, "<>") { // the rest stands behind it
		return
	}
	own := run.To - len(run.Command)
	var words []string
	for i := run.From + 1; i < run.To; i++ {
		if !tokens[i].Literal && i <= own {
			return
		}
		words = append(words, tokens[i].Text)
	}
	if why, remedy := l.Refuses(words); why != "" {
		l.find(s, line.Number, Call, run.Job, why, remedy)
	}
}

// command asks leaderrun whether it has the command that a line calls, where that is not run.
func (l *linter) command(s Source, line *crontab.Line, tokens []crontab.Token) {
	word, ok := crontab.FindCommand(tokens)
	if !ok || !word.Literal {
		return
	}
	if why, remedy := l.Refuses([]string{word.Text}); why != "" {
		l.find(s, line.Number, Call, "", why, remedy)
	}
}

// schedule compares --schedule with the fields of the line. ok is false if leaderrun would refuse it.
func (l *linter) schedule(s Source, line *crontab.Line, run *crontab.Run, set *settings) (ok bool) {
	exprs := run.Options["schedule"]
	if len(exprs) == 0 || line.Fields == "@reboot" {
		return true
	}
	fault := func(why, remedy string) { l.find(s, line.Number, Schedule, run.Job, why, remedy) }
	if _, err := schedule.Parse(exprs, "UTC"); err != nil {
		fault("--schedule is refused: "+err.Error(), "repeat the fields of the line, in quotes")
		return false
	}
	if fingerprint(exprs, "") != fingerprint([]string{line.Fields}, "") {
		fault(fmt.Sprintf("--schedule says %q, and cron starts the line at %q", strings.Join(exprs, `" and "`), line.Fields), "write the same in both places")
	}
	if zone := run.Option("timezone"); set.cronTZ != "" && zone != set.cronTZ {
		fault(fmt.Sprintf("cronie starts the line in the zone %s of CRON_TZ, of which leaderrun does not know", set.cronTZ), "add --timezone "+set.cronTZ)
	}
	return true
}

// harmless are commands beside a run that only prepare it or look at its exit code. They are read only.
var harmless = strings.Fields(". : [ [[ cd exit export false set sleep source test true ulimit umask")

// outside finds commands that stand beside the run.
func (l *linter) outside(s Source, line *crontab.Line, tokens []crontab.Token, run *crontab.Run) {
	begins := true
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
			if slices.Contains(harmless, t.Text) {
				continue
			}
			where, operator := "before", operatorAfter(tokens[i:])
			if i > run.To {
				where, operator = "after", tokens[i-1].Text
			}
			l.find(s, line.Number, Outside, run.Job,
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
func (l *linter) path(s Source, line *crontab.Line, tokens []crontab.Token, run *crontab.Run, set *settings) {
	if s.Has == nil || s.Format == crontab.Supercronic || set.lost || strings.Contains(tokens[run.From].Text, "/") {
		return
	}
	for _, t := range tokens[:run.From] {
		if strings.HasPrefix(t.Text, "PATH=") || slices.Contains(otherPath, filepath.Base(t.Text)) {
			return
		}
	}
	for dir := range strings.SplitSeq(set.path, ":") {
		if filepath.IsAbs(dir) && s.Has(filepath.Join(dir, tokens[run.From].Text)) {
			return
		}
	}
	set.lost = true
	l.find(s, line.Number, Path, run.Job, "cron finds no leaderrun in its PATH, "+set.path, "write the whole path of leaderrun, or PATH=… above the lines")
}

// operatorAfter is what ends the command that some tokens begin with.
func operatorAfter(tokens []crontab.Token) string {
	at := slices.IndexFunc(tokens, func(t crontab.Token) bool { return t.Operator && !strings.ContainsAny(t.Text, "<>") })
	return tokens[max(at, 0)].Text
}

// locks finds one in a command.
func (l *linter) locks(s Source, line int, name, script string) {
	if program := crontab.FindLock(script); program != "" {
		l.find(s, line, Lock, name, program+" inside the run: the lease keeps runs apart already", "take it out where nothing else uses that lock")
	}
}

// across compares jobs of all files.
func (l *linter) across() {
	local := map[string][]job{}
	for i, a := range l.jobs {
		if a.local {
			local["file:"] = append(local["file:"], a)
		}
		for _, b := range l.jobs[:i] {
			l.compare(a, b)
		}
	}
	if all := local["file:"]; len(all) > 1 {
		first := all[0].source.Host
		for _, j := range all {
			if j.source.Host != first {
				l.find(j.source, j.line, Local, j.name, "file: is this host's alone, and there are several", "name a server that all of them reach")
				break
			}
		}
	}
}

// compare looks at two jobs, the later of which is a.
func (l *linter) compare(a, b job) {
	place := fmt.Sprintf("%s:%d", b.source.Path, b.line)
	switch {
	case a.name == b.name && a.command != b.command:
		l.find(a.source, a.line, Name, a.name, "another command has this name, in "+place, "give each job a name of its own, the same on all hosts")
	case a.name == b.name && a.ticks != b.ticks:
		l.find(a.source, a.line, Schedule, a.name, "the job has another schedule in "+place, "one job has one schedule, on all hosts")
	case a.name == b.name && a.source.Host == b.source.Host:
		l.find(a.source, a.line, Name, a.name, "the same job is in "+place, "remove one of them")
	case a.name != b.name && a.command == b.command && a.ticks == b.ticks && a.source.Host != b.source.Host:
		l.find(a.source, a.line, Name, a.name, fmt.Sprintf("the same command is called %s in %s: each of these hosts runs it", b.name, place), "give it one name on all hosts")
	}
}
