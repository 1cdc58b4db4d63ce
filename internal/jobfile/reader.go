package jobfile

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/leaderrun/leaderrun/backends"
	lines "github.com/leaderrun/leaderrun/internal/crontab"
	"github.com/leaderrun/leaderrun/internal/slots"
	"github.com/leaderrun/leaderrun/internal/value"
	"github.com/leaderrun/leaderrun/runner"
	"github.com/leaderrun/leaderrun/schedule"
)

// reader collects what is read of one file.
type reader struct {
	path      string
	defaults  Defaults
	jobs      []*Job
	names     map[string]string // the place of each job, also of other files
	schedules map[string]*planned
	zoneless  bool // it was told that the host has no zone
	how       How
	several   bool // the file is one of several: it may have no job

	problems, warnings []Problem
}

func newReader(path string, defaults Defaults) *reader {
	return &reader{path: path, defaults: defaults, names: map[string]string{}, schedules: map[string]*planned{}}
}

// problem notes what is wrong. Line 0 is the whole file.
func (r *reader) problem(line int, what, why, hint string) {
	r.problems = append(r.problems, Problem{Place: r.place(line), What: what, Why: why, Hint: hint, line: line})
}

func (r *reader) warn(line int, what, why, hint string) {
	r.warnings = append(r.warnings, Problem{Place: r.place(line), What: what, Why: why, Hint: hint, line: line})
}

func (r *reader) place(line int) string {
	if line == 0 {
		return r.path
	}
	return fmt.Sprintf("%s:%d", r.path, line)
}

// draft is a job while it is read.
type draft struct {
	job   Job
	line  int
	lines map[string]int // of the keys that the job itself has
	wrong map[string]bool
	env   []string // NAME=VALUE in the order of the file: the last of a name counts. Jobs share what is above them
	zone  string
	exprs []expression
	fixes hints
}

// expression is one of a schedule, and its line.
type expression struct {
	text string
	line int
}

// hints are remedies that differ with the kind of file.
type hints struct{ jitter string }

func (r *reader) newDraft() *draft {
	d := &draft{wrong: map[string]bool{}, env: slices.Clip(r.defaults.Env), zone: r.defaults.Timezone}
	d.job.Options = r.defaults.Options
	return d
}

// derive starts a job with the values of a draft.
func (d *draft) derive(name string, line int) *draft {
	made := *d
	made.job.Name, made.line = name, line
	made.lines = map[string]int{}
	made.wrong = maps.Clone(d.wrong)
	made.env = slices.Clip(d.env)
	return &made
}

// at is the line of the first key that the job itself has, else the job's.
func (d *draft) at(keys ...string) int {
	for _, key := range keys {
		if line := d.lines[key]; line != 0 {
			return line
		}
	}
	return d.line
}

// what names a part of a job in a message.
func (d *draft) what(key string) string {
	name := d.job.Name
	if quoted := strconv.Quote(name); quoted != `"`+name+`"` || strings.Contains(name, ":") {
		name = quoted
	}
	if key == "" || name == "" {
		return name + key
	}
	return name + ": " + key
}

func (d *draft) anyWrong(keys ...string) bool {
	return slices.ContainsFunc(keys, func(key string) bool { return d.wrong[key] })
}

// finish checks what the parts of a job make together, and adds the job.
func (r *reader) finish(d *draft) {
	job := &d.job
	job.Place = r.place(d.line)
	job.Env = d.env
	r.claimName(d)
	r.plan(d)
	if !d.anyWrong("ttl", "grace") {
		var err error
		if job.Timeline, err = runner.NewTimeline(job.TTL, job.Grace); err != nil {
			hint := "raise ttl, or leave grace out"
			if job.TTL < runner.MinTTL {
				hint = "raise ttl"
			}
			r.problem(d.at("grace", "ttl"), d.what(""), err.Error(), hint)
		}
	}
	if job.Overlap == Replace && job.OnLost == backends.Rerun && !d.anyWrong("overlap", "on_lost") {
		r.problem(d.at("overlap", "on_lost"), d.what(""), "overlap: replace contradicts on_lost: rerun, which would run again what was replaced",
			"choose one of them")
	}
	if job.Overlap == Replace && job.CatchUp > 0 && !d.anyWrong("overlap", "catch_up") {
		r.problem(d.at("overlap", "catch_up"), d.what(""), "overlap: replace contradicts catch_up: the latest tick would stop what is caught up",
			"choose one of them")
	}
	r.checkShards(d)
	r.checkNested(d)
	made := d.job // the draft is not kept
	r.jobs = append(r.jobs, &made)
}

// checkShards looks at a job whose work is divided, or at what only such a job can have.
func (r *reader) checkShards(d *draft) {
	job := &d.job
	switch {
	case d.anyWrong("shards", "parallel"):
	case job.Shards == 0 && d.lines["parallel"] != 0:
		r.problem(d.lines["parallel"], d.what("parallel"), "it is for a job with shards, and this one has none", "add `shards: 16`, or remove it")
	case job.Shards > 0 && len(slots.Name(job.Name, job.Shards-1)) > value.LongestName:
		r.problem(d.at("shards"), d.what("shards"), fmt.Sprintf("the names of the shards are longer than %d bytes", value.LongestName), "give the job a shorter name")
	}
}

// claimName checks the name, and that no other job has it.
func (r *reader) claimName(d *draft) {
	if why := whyNotName(d.job.Name); why != "" {
		r.problem(d.line, "", why, "")
		return
	}
	if first, taken := r.names[d.job.Name]; taken {
		r.problem(d.line, d.what(""), "two jobs of this name; the first is in "+strings.Replace(first, r.path+":", "line ", 1), "rename one of them")
		return
	}
	r.names[d.job.Name] = r.place(d.line)
}

func whyNotName(name string) string {
	if why := value.NotName(name); why != "" {
		return "the name of the job " + why
	}
	if of, slot, isSlot := slots.Split(name); isSlot {
		return fmt.Sprintf("%q is the name of slot %d of %s: a job's own name does not end like that", name, slot, of)
	}
	return ""
}

// longestString is how much of a command line or of its environment one string can be, with its zero byte: MAX_ARG_STRLEN of
// linux/binfmts.h.
const longestString = 128 << 10

// checkVariable says why a job may not set a variable.
func checkVariable(name, text string) error {
	switch {
	case len(name)+len("=")+len(text) >= longestString:
		return fmt.Errorf("%.20s has %d bytes: with its name, a variable can have %d", name, len(text), longestString-1)
	case !value.IsVariable(name):
		return fmt.Errorf("%q is not the name of a variable", name)
	case strings.HasPrefix(name, "LEADERRUN_"):
		return fmt.Errorf("%s is leaderrun's own", name)
	case name == "NOTIFY_SOCKET" || strings.HasPrefix(name, "WATCHDOG_"):
		return fmt.Errorf("%s is between systemd and leaderrun", name)
	}
	return nil
}

// checkNested looks for `leaderrun run` in the command. If the daemon has a job of that run's name, the run finds the lease taken.
func (r *reader) checkNested(d *draft) {
	run, ok := nestedRun(d.job.Argv)
	if !ok {
		return
	}
	at, hint := d.at("command", "shell"), "write the command alone"
	if _, taken := r.names[run.Job]; !taken {
		r.warn(at, d.what(""), "`leaderrun run` inside a job takes a second lease", hint)
		return
	}
	if !isYAML(r.path) {
		hint += "; what it is called stands in a comment above: # job: " + run.Job
	}
	r.problem(at, d.what(""), "`leaderrun run` inside has the name of a job of this daemon, which has its lease", hint)
}

// nestedRun finds a call of `leaderrun run` in a command, also in a text for another shell.
func nestedRun(argv []string) (run lines.Run, ok bool) {
	var script strings.Builder
	for _, word := range argv {
		script.WriteString(" '" + strings.ReplaceAll(word, "'", `'\''`) + "'")
	}
	for _, text := range lines.Read("", script.String()).Texts {
		if run, ok = text.Run(); ok {
			return run, true
		}
	}
	return run, false
}

// planned is a schedule that was read. Many jobs share one: a zone is loaded once for each schedule.
type planned struct {
	schedule *schedule.Schedule
	err      error
	gap      time.Duration // the smallest between two ticks; 0: not yet looked for
}

func (r *reader) schedule(zone string, exprs ...string) *planned {
	key := zone + "\n" + strings.Join(exprs, "\n")
	p := r.schedules[key]
	if p == nil {
		p = &planned{}
		p.schedule, p.err = schedule.Parse(exprs, zone)
		r.schedules[key] = p
	}
	return p
}

// plan makes the schedule of a job.
func (r *reader) plan(d *draft) {
	if d.anyWrong("schedule", "every") || len(d.exprs) == 0 {
		return
	}
	texts, fine := make([]string, 0, len(d.exprs)), true
	for _, e := range d.exprs { // each by itself, to find all that is wrong
		texts = append(texts, e.text)
		if err := r.schedule(d.zone, e.text).err; err != nil {
			fine = false
			if !r.toldOfZone(err) {
				r.scheduleProblem(e.line, d.what("schedule"), err)
			}
		}
	}
	if !fine {
		return
	}
	p := r.schedule(d.zone, texts...)
	if p.err != nil {
		r.scheduleProblem(d.at("schedule", "every"), d.what("schedule"), p.err)
		return
	}
	d.job.Schedule = p.schedule
	r.checkJitter(d, p)
}

// toldOfZone says whether an error of one expression is about the zone of the host, and was told for another job.
func (r *reader) toldOfZone(err error) bool {
	e, ok := errors.AsType[*schedule.Error](err)
	if !ok || e.Expr != "" {
		return false
	}
	told := r.zoneless
	r.zoneless = true
	return told
}

func (r *reader) scheduleProblem(line int, what string, err error) {
	why, hint := schedule.Explain(err)
	r.problem(line, what, why, hint)
}

// checkZone says what is wrong with the name of a zone, if anything is.
func (r *reader) checkZone(zone string) (why, hint string) {
	if zone == "" {
		return "the name of the zone is empty", "name one of the IANA database, such as Europe/Berlin or UTC"
	}
	if e, ok := errors.AsType[*schedule.Error](r.schedule(zone, "@daily").err); ok {
		return e.Why, e.Hint
	}
	return "", ""
}

// checkJitter holds that a run which is delayed still starts before the next tick, and in time.
func (r *reader) checkJitter(d *draft, p *planned) {
	jitter, deadline := d.job.Jitter, d.job.StartDeadline
	if jitter == 0 || d.anyWrong("jitter", "start_deadline") {
		return
	}
	if p.gap == 0 {
		p.gap = SmallestGap(p.schedule)
	}
	if jitter >= p.gap {
		r.problem(d.at("jitter", "schedule", "every"), d.what("jitter"),
			fmt.Sprintf("%v is not shorter than the %v between two ticks", jitter, p.gap), d.fixes.jitter)
	}
	if deadline != 0 && jitter >= deadline {
		r.problem(d.at("jitter", "start_deadline"), d.what("jitter"),
			fmt.Sprintf("%v is not shorter than the start_deadline of %v: a run could delay itself past it", jitter, deadline), d.fixes.jitter)
	}
}

// SmallestGap is the shortest time between two ticks of a schedule's first ones. They are counted from a fixed
// instant: the same file is right or wrong on every day.
func SmallestGap(s *schedule.Schedule) time.Duration {
	const enough = 64
	gap := time.Duration(1<<63 - 1)
	last, _ := s.Next(time.Date(2024, 1, 1, 0, 0, 0, 0, time.UTC))
	for range enough {
		next, ok := s.Next(last)
		if !ok {
			break
		}
		gap = min(gap, next.Sub(last))
		last = next
	}
	return gap
}
