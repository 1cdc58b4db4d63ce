// Package lint finds what is wrong with lines and files that call leaderrun or are read by it: what makes a job run twice, not at all, or
// otherwise than it looks.
package lint

import (
	"cmp"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"github.com/leaderrun/leaderrun/internal/crontab"
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
