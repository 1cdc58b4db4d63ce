package lint

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/leaderrun/leaderrun/backends/all"
	"github.com/leaderrun/leaderrun/internal/crontab"
)

// job is what is compared across files.
type job struct {
	source         *Source
	line           int
	name           string
	command, ticks string     // that say the same are the same
	place          *all.Place // of its store; nil: unknown
}

func (j *job) at() string { return fmt.Sprintf("%s:%d", j.source.Path, j.line) }

// lock is a program inside a run that keeps it apart from others.
type lock struct {
	source        *Source
	line          int
	name, program string
	keys          []string // among the linter's users
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

// storeLocks take locks that hosts share: of those nobody can tell here who else uses them.
var storeLocks = []string{"consul lock", "etcdctl lock", "cronlock"} // read only

// takes counts the locks that a script takes, and returns them with the program of the first one.
func (l *linter) takes(s *Source, script *crontab.Script) (program string, keys []string) {
	program, names := script.Locks()
	for _, name := range names {
		keys = append(keys, fmt.Sprint(s.Host, name))
		l.users[keys[len(keys)-1]]++
	}
	return program, keys
}

// splitPlace reads FILE:LINE. Where there is no line, that is 0.
func splitPlace(place string) (path string, line int) {
	at := strings.LastIndexByte(place, ':')
	line, err := strconv.Atoi(place[at+1:])
	if err != nil {
		return place, 0
	}
	return place[:at], line
}
