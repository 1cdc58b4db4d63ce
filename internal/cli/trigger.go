package cli

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/leaderrun/leaderrun/backends"
	"github.com/leaderrun/leaderrun/internal/duration"
	"github.com/leaderrun/leaderrun/internal/value"
	"github.com/leaderrun/leaderrun/runner"
	"github.com/leaderrun/leaderrun/schedule"
)

const (
	lastTick        = 253402300799
	defaultAttempts = 3
	defaultDelay    = 10 * time.Second
	// aheadOfTick is how long before an instant a run is for that one: a clock that was set back a little between
	// cron's start and ours must not make it the one before.
	aheadOfTick = 2 * time.Second
	// tickBackendWait is the patience with the backend where a tick or key is at stake: nobody comes for it again.
	tickBackendWait = time.Minute
	// unclaimedAge is how old an instant must be to have passed unclaimed.
	unclaimedAge = time.Minute
)

const triggerGroup = "Ticks and keys"

// triggerOptions are those that say what a run is for.
func triggerOptions() []option {
	options := []option{
		{
			name: "schedule", value: "EXPR", many: true, check: by(parseExpressions), example: `"0 2 * * *"`,
			help: "the ticks: five fields as in a crontab, @daily and the like, or\n" +
				"`@every 90s`. May be repeated. The run is for the latest one that\nis due",
		},
		everyOption(),
		{
			name: "tick", value: "TIME", bare: true, check: by(parseTick), example: "2026-11-20T02:00:00Z",
			help: "the tick, from a scheduler that knows it: 2026-11-20T02:00:00Z, or\nUnix seconds",
		},
		{
			name: "once", value: "KEY", bare: true, check: by(parseOnce), example: "v42",
			help: "run once for this release, migration, invoice…; the last 100 keys\nof a job are kept",
		},
		timezoneOption(),
		{
			name: "start-deadline", value: "D", def: "none", check: by(duration.Deadline), example: "10m",
			help: "do not start a tick that is later than that",
		},
		{
			name: "on-lost", value: "skip|rerun", def: "skip", words: []string{"skip", "rerun"}, check: by(parsePolicy),
			help: "what becomes of a tick or key whose host vanished, or whose run was\n" +
				"stopped. skip: it never runs again, so it ran at most once. rerun:\n" +
				"the others stand by until it is done, and one of them runs it again",
		},
		{
			name: "max-attempts", value: "N", def: strconv.Itoa(defaultAttempts), check: by(parseAttempts), example: "5",
			help: "how often rerun starts one tick or key",
		},
	}
	for i := range options {
		options[i].group = triggerGroup
	}
	return options
}

func everyOption() option {
	return option{
		name: "every", value: "D", check: by(parseEvery), group: triggerGroup,
		help: "a tick every D, at the same instants on every host", example: "15m",
	}
}

func timezoneOption() option {
	return option{
		name: "timezone", value: "TZ", def: "this host's", check: by(parseZone), group: triggerGroup,
		help: "the zone of --schedule and --every, such as Europe/Berlin", example: "Europe/Berlin",
	}
}

// readTrigger reads what a run that starts now is for: nothing in particular, a tick, or a once-key.
func readTrigger(s *settings, now time.Time) (backends.Trigger, error) {
	o := backends.Trigger{
		Tick:          read(s, "tick", parseTick, 0),
		Once:          read(s, "once", parseOnce, ""),
		OnLost:        read(s, "on-lost", parsePolicy, backends.Skip),
		MaxAttempts:   read(s, "max-attempts", parseAttempts, defaultAttempts),
		StartDeadline: read(s, "start-deadline", duration.Deadline, 0),
	}
	plan, err := scheduleOf(s)
	if err == nil {
		err = s.err
	}
	if err == nil {
		err = oneTrigger(s)
	}
	switch {
	case err != nil:
		return backends.Trigger{}, err
	case o.Once != "":
		o.StartDeadline = 0 // a key has no time; the one that is set here is meant for ticks
		return o, nil
	case o.Tick != 0:
		return o, nil
	case plan == nil:
		return backends.Trigger{OnLost: backends.Skip, MaxAttempts: 1}, nil
	}
	due, ok := plan.Last(now.Add(aheadOfTick))
	if !ok {
		why := fmt.Sprintf("%s has no tick before %s", plan, now.UTC().Format(time.RFC3339))
		return backends.Trigger{}, &fault{code: codeConfiguration, what: "schedule", why: why, hint: "compare this host's clock"}
	}
	o.Tick = due.Unix()
	o.Schedule = backends.Schedule{Fingerprint: plan.Fingerprint(), Text: plan.String()}
	return o, nil
}

// oneTrigger refuses what contradicts itself on the command line. There it is a slip; what environment and files
// say is for many runs.
func oneTrigger(s *settings) error {
	var given []string
	for _, names := range [][]string{{"schedule", "every"}, {"tick"}, {"once"}} {
		if i := slices.IndexFunc(names, s.typed); i >= 0 {
			given = append(given, "--"+names[i])
		}
	}
	if len(given) > 1 {
		return usage(strings.Join(given, ", "), "a run is for a tick of a schedule, a given tick, or a key", "give one of them")
	}
	if s.typed("once") && s.typed("start-deadline") {
		return usage("--start-deadline", "a key has no time after which it is late", "leave it out, or give the time by --tick")
	}
	for _, name := range []string{"schedule", "every", "tick", "once"} {
		if _, ok := s.find(name); ok {
			return nil
		}
	}
	const remedy = "say which ticks there are by --schedule or --every, or give one by --tick"
	for _, name := range []string{"on-lost", "max-attempts"} {
		if s.typed(name) {
			return usage("--"+name, "the run is for no tick or key", remedy+", or a key by --once")
		}
	}
	for _, name := range []string{"start-deadline", "timezone"} {
		if s.typed(name) {
			return usage("--"+name, "the run is for no tick", remedy)
		}
	}
	return nil
}

// scheduleOf returns the schedule that the options name; nil if they name none. --schedule and --every of one place
// are a union, of two places the stronger one counts.
func scheduleOf(s *settings) (*schedule.Schedule, error) {
	exprs := read(s, "schedule", parseExpressions, nil)
	every := read(s, "every", parseEvery, "")
	zone := read(s, "timezone", parseZone, "")
	if s.err != nil {
		return nil, s.err
	}
	list, _ := s.find("schedule")
	period, _ := s.find("every")
	if list.origin < period.origin {
		exprs = nil
	}
	if every != "" && period.origin >= list.origin {
		exprs = append(exprs, every)
	}
	if len(exprs) == 0 || s.typed("tick") || s.typed("once") {
		return nil, nil
	}
	return parseSchedule(exprs, zone)
}

// parseSchedule makes the schedule of expressions that are right by themselves: what is left to be wrong is the
// zone of this host.
func parseSchedule(exprs []string, zone string) (*schedule.Schedule, error) {
	plan, err := schedule.Parse(exprs, zone)
	if err == nil {
		return plan, nil
	}
	why, _ := explain(err, "")
	return nil, &fault{
		code: codeConfiguration, what: "time zone", why: why, err: err,
		hint: "set --timezone, " + prefix + "TIMEZONE or `timezone:` in " + systemConfig + " to a name such as Europe/Berlin or UTC",
	}
}

// patienceOf says how long a run waits for the job, and without that for the backend. One that may have to run a lost
// tick again stands by until its own is done, and waits the run of an earlier one out, too.
func patienceOf(s *settings, o backends.Trigger) (wait, backendWait time.Duration) {
	usual := defaultBackendWait
	if o.Given() {
		usual = tickBackendWait
	}
	wait, backendWait = read(s, "wait", parseWait, 0), read(s, "backend-wait", duration.NotNegative, usual)
	if _, said := s.find("wait"); !said && o.Given() && o.OnLost == backends.Rerun {
		wait = runner.Forever
	}
	return wait, backendWait
}

// passedUnclaimed looks for an instant of the recorded schedule that passed although nobody ran the job: proof
// that no host uses that schedule any more. The refusal says what is recorded and until when the lease was held.
func passedUnclaimed(r backends.Refusal, now time.Time) (backends.Unclaimed, bool) {
	recorded, err := schedule.ParseText(r.Text)
	if err != nil { // written by rules that this version does not know
		return backends.Unclaimed{}, false
	}
	since := time.Unix(r.Tick, 0)
	if r.Lease.After(since) {
		since = r.Lease
	}
	instant, ok := recorded.Next(since)
	if !ok || now.Sub(instant) < unclaimedAge {
		return backends.Unclaimed{}, false
	}
	return backends.Unclaimed{Fingerprint: recorded.Fingerprint(), Instant: instant.Unix()}, true
}

// parseExpressions reads schedules, one a line.
func parseExpressions(text string) ([]string, error) {
	exprs := lines(text)
	if len(exprs) == 0 {
		exprs = []string{""}
	}
	_, err := schedule.Parse(exprs, "UTC") // whether this host has a zone is another matter
	return exprs, err
}

// parseEvery reads a period and returns its expression. The duration is written so that no unit rounds it.
func parseEvery(text string) (string, error) {
	d, err := duration.Positive(text)
	if err != nil {
		return "", err
	}
	exprs, err := parseExpressions("@every " + d.String())
	if e, ok := errors.AsType[*schedule.Error](err); ok { // about an expression that nobody wrote
		return "", &schedule.Error{Why: strconv.Quote(text) + strings.TrimPrefix(e.Why, "@every "+strconv.Quote(d.String())), Hint: e.Hint}
	}
	return exprs[0], err
}

func parseZone(text string) (string, error) {
	if text == "" {
		return "", errEmpty
	}
	_, err := schedule.Parse([]string{"@daily"}, text)
	return text, err
}

// parseTick reads an instant: RFC 3339 or Unix seconds.
func parseTick(text string) (int64, error) {
	tick, err := strconv.ParseInt(text, 10, 64)
	if err != nil {
		t, err := time.Parse(time.RFC3339, text)
		switch {
		case err != nil:
			return 0, fmt.Errorf("%q is neither a time like 2026-11-20T02:00:00Z nor a number of seconds since 1970", text)
		case t.Nanosecond() != 0:
			return 0, fmt.Errorf("%q has a fraction of a second, which a tick has not", text)
		}
		tick = t.Unix()
	}
	switch {
	case tick < 1:
		return 0, fmt.Errorf("%q is not after the beginning of 1970", text)
	case tick > lastTick:
		return 0, fmt.Errorf("%q is after the year 9999: it takes seconds, not milliseconds", text)
	}
	return tick, nil
}

// parseOnce reads a once-key.
func parseOnce(text string) (string, error) {
	if why := value.NotName(text); why != "" {
		return "", errors.New("the key " + why)
	}
	return text, nil
}

// parseWait reads a duration or "forever".
func parseWait(text string) (time.Duration, error) {
	if text == "forever" {
		return runner.Forever, nil
	}
	return duration.NotNegative(text)
}

var (
	// They are read only.
	parseAttempts = value.Number(1, value.Unbounded)
	parseRetries  = value.Number(0, value.Unbounded)
	parsePolicy   = value.OneOf(backends.Skip, backends.Rerun)
)
