package launch

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/leaderrun/leaderrun/backends"
	"github.com/leaderrun/leaderrun/internal/cli"
	"github.com/leaderrun/leaderrun/internal/duration"
	"github.com/leaderrun/leaderrun/internal/value"
	"github.com/leaderrun/leaderrun/runner"
	"github.com/leaderrun/leaderrun/schedule"
)

// Bounds and defaults of what a run is for.
const (
	lastTick        = 253402300799
	defaultAttempts = 3
	DefaultDelay    = 10 * time.Second
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
func triggerOptions() []cli.Option {
	options := []cli.Option{
		{
			Name: "schedule", Value: "EXPR", Many: true, Check: cli.By(ParseExpressions), Example: `"0 2 * * *"`,
			Help: "the ticks: five fields as in a crontab, @daily and the like, or\n" +
				"`@every 90s`. May be repeated. The run is for the latest one that\nis due",
		},
		EveryOption(),
		{
			Name: "tick", Value: "TIME", Bare: true, Check: cli.By(parseTick), Example: "2026-11-20T02:00:00Z",
			Help: "the tick, from a scheduler that knows it: 2026-11-20T02:00:00Z, or\nUnix seconds",
		},
		{
			Name: "once", Value: "KEY", Bare: true, Check: cli.By(ParseOnce), Example: "v42",
			Help: "run once for this release, migration, invoice…; the last 100 keys\nof a job are kept",
		},
		TimezoneOption(),
		{
			Name: "start-deadline", Value: "D", Def: "none", Check: cli.By(duration.Deadline), Example: "10m",
			Help: "do not start a tick that is later than that",
		},
		{
			Name: "on-lost", Value: "skip|rerun", Def: "skip", Words: []string{"skip", "rerun"}, Check: cli.By(parsePolicy),
			Help: "what becomes of a tick or key whose host vanished, or whose run was\n" +
				"stopped. skip: it never runs again, so it ran at most once. rerun:\n" +
				"the others stand by until it is done, and one of them runs it again",
		},
		{
			Name: "max-attempts", Value: "N", Def: strconv.Itoa(defaultAttempts), Check: cli.By(parseAttempts), Example: "5",
			Help: "how often rerun starts one tick or key",
		},
	}
	for i := range options {
		options[i].Group = triggerGroup
	}
	return options
}

// EveryOption is --every.
func EveryOption() cli.Option {
	return cli.Option{
		Name: "every", Value: "D", Check: cli.By(ParseEvery), Group: triggerGroup,
		Help: "a tick every D, at the same instants on every host", Example: "15m",
	}
}

// TimezoneOption is --timezone.
func TimezoneOption() cli.Option {
	return cli.Option{
		Name: "timezone", Value: "TZ", Def: "this host's", Check: cli.By(ParseZone), Group: triggerGroup,
		Help: "the zone of --schedule and --every, such as Europe/Berlin", Example: "Europe/Berlin",
	}
}

// ReadTrigger reads what a run that starts now is for: nothing in particular, a tick, or a once-key.
func ReadTrigger(s *cli.Settings, now time.Time) (backends.Trigger, error) {
	o := backends.Trigger{
		Tick:          cli.Read(s, "tick", parseTick, 0),
		Once:          cli.Read(s, "once", ParseOnce, ""),
		OnLost:        cli.Read(s, "on-lost", parsePolicy, backends.Skip),
		MaxAttempts:   cli.Read(s, "max-attempts", parseAttempts, defaultAttempts),
		StartDeadline: cli.Read(s, "start-deadline", duration.Deadline, 0),
	}
	plan, err := scheduleOf(s)
	if err == nil {
		err = s.Err
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
		return backends.Trigger{}, &cli.Fault{Code: cli.CodeConfiguration, What: "schedule", Why: why, Hint: "compare this host's clock"}
	}
	o.Tick = due.Unix()
	o.Schedule = backends.Schedule{Fingerprint: plan.Fingerprint(), Text: plan.String()}
	return o, nil
}

// oneTrigger refuses what contradicts itself on the command line. There it is a slip; what environment and files
// say is for many runs.
func oneTrigger(s *cli.Settings) error {
	var given []string
	for _, names := range [][]string{{"schedule", "every"}, {"tick"}, {"once"}} {
		if i := slices.IndexFunc(names, s.Typed); i >= 0 {
			given = append(given, "--"+names[i])
		}
	}
	if len(given) > 1 {
		return cli.Usage(strings.Join(given, ", "), "a run is for a tick of a schedule, a given tick, or a key", "give one of them")
	}
	if s.Typed("once") && s.Typed("start-deadline") {
		return cli.Usage("--start-deadline", "a key has no time after which it is late", "leave it out, or give the time by --tick")
	}
	for _, name := range []string{"schedule", "every", "tick", "once"} {
		if _, ok := s.Find(name); ok {
			return nil
		}
	}
	const remedy = "say which ticks there are by --schedule or --every, or give one by --tick"
	for _, name := range []string{"on-lost", "max-attempts"} {
		if s.Typed(name) {
			return cli.Usage("--"+name, "the run is for no tick or key", remedy+", or a key by --once")
		}
	}
	for _, name := range []string{"start-deadline", "timezone"} {
		if s.Typed(name) {
			return cli.Usage("--"+name, "the run is for no tick", remedy)
		}
	}
	return nil
}

// scheduleOf returns the schedule that the options name; nil if they name none. --schedule and --every of one place
// are a union, of two places the stronger one counts.
func scheduleOf(s *cli.Settings) (*schedule.Schedule, error) {
	exprs := cli.Read(s, "schedule", ParseExpressions, nil)
	every := cli.Read(s, "every", ParseEvery, "")
	zone := cli.Read(s, "timezone", ParseZone, "")
	if s.Err != nil {
		return nil, s.Err
	}
	list, _ := s.Find("schedule")
	period, _ := s.Find("every")
	if list.Origin < period.Origin {
		exprs = nil
	}
	if every != "" && period.Origin >= list.Origin {
		exprs = append(exprs, every)
	}
	if len(exprs) == 0 || s.Typed("tick") || s.Typed("once") {
		return nil, nil
	}
	return ParseSchedule(exprs, zone)
}

// ParseSchedule makes the schedule of expressions that are right by themselves: what is left to be wrong is the
// zone of this host.
func ParseSchedule(exprs []string, zone string) (*schedule.Schedule, error) {
	plan, err := schedule.Parse(exprs, zone)
	if err == nil {
		return plan, nil
	}
	why, _ := cli.Explain(err, "")
	return nil, &cli.Fault{
		Code: cli.CodeConfiguration, What: "time zone", Why: why, Err: err,
		Hint: "set --timezone, " + cli.Prefix + "TIMEZONE or `timezone:` in " + cli.SystemConfig + " to a name such as Europe/Berlin or UTC",
	}
}

// PatienceOf says how long a run waits for the job, and without that for the backend. One that may have to run a lost
// tick again stands by until its own is done, and waits the run of an earlier one out, too.
func PatienceOf(s *cli.Settings, o backends.Trigger) (wait, backendWait time.Duration) {
	usual := defaultBackendWait
	if o.Given() {
		usual = tickBackendWait
	}
	wait, backendWait = cli.Read(s, "wait", ParseWait, 0), cli.Read(s, "backend-wait", duration.NotNegative, usual)
	if _, said := s.Find("wait"); !said && o.Given() && o.OnLost == backends.Rerun {
		wait = runner.Forever
	}
	return wait, backendWait
}

// PassedUnclaimed looks for an instant of the recorded schedule that passed although nobody ran the job: proof
// that no host uses that schedule any more. The refusal says what is recorded and until when the lease was held.
func PassedUnclaimed(r backends.Refusal, now time.Time) (backends.Unclaimed, bool) {
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

// ParseExpressions reads schedules, one a line.
func ParseExpressions(text string) ([]string, error) {
	exprs := cli.Lines(text)
	if len(exprs) == 0 {
		exprs = []string{""}
	}
	_, err := schedule.Parse(exprs, "UTC") // whether this host has a zone is another matter
	return exprs, err
}

// ParseEvery reads a period and returns its expression. The duration is written so that no unit rounds it.
func ParseEvery(text string) (string, error) {
	d, err := duration.Positive(text)
	if err != nil {
		return "", err
	}
	exprs, err := ParseExpressions("@every " + d.String())
	if e, ok := errors.AsType[*schedule.Error](err); ok { // about an expression that nobody wrote
		return "", &schedule.Error{Why: strconv.Quote(text) + strings.TrimPrefix(e.Why, "@every "+strconv.Quote(d.String())), Hint: e.Hint}
	}
	return exprs[0], err
}

// ParseZone reads the name of a time zone.
func ParseZone(text string) (string, error) {
	if text == "" {
		return "", cli.ErrEmpty
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

// ParseOnce reads a once-key.
func ParseOnce(text string) (string, error) {
	if why := value.NotName(text); why != "" {
		return "", errors.New("the key " + why)
	}
	return text, nil
}

// ParseWait reads a duration or "forever".
func ParseWait(text string) (time.Duration, error) {
	if text == "forever" {
		return runner.Forever, nil
	}
	return duration.NotNegative(text)
}

// What reads these options. They are read only.
var (
	parseAttempts = value.Number(1, value.Unbounded)
	ParseRetries  = value.Number(0, value.Unbounded)
	parsePolicy   = value.OneOf(backends.Skip, backends.Rerun)
)

const defaultBackendWait = 5 * time.Second
