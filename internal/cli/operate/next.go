package operate

import (
	"cmp"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/leaderrun/leaderrun/internal/cli"
	"github.com/leaderrun/leaderrun/internal/launch"
	"github.com/leaderrun/leaderrun/internal/value"
	"github.com/leaderrun/leaderrun/schedule"
)

const defaultCount = 5

// Next is `leaderrun next`.
func Next() *cli.Command {
	every, timezone := launch.EveryOption(), launch.TimezoneOption()
	every.Group, timezone.Group = "", ""
	timezone.Help = "the zone of EXPR and --every, such as Europe/Berlin"
	return &cli.Command{
		Name: "next", Args: "EXPR…", Brief: "print the next ticks of a schedule",
		About: `Prints when a schedule is due next: in its time zone, in UTC, and in how long. A note says what a
change of the clock does to a tick. Several EXPR are one schedule, as for ` + "`run --schedule`" + `.`,
		Examples: []cli.ExampleLine{
			{Does: "the next five", Line: "leaderrun next '0 2 * * *'"},
			{Does: "three of them, in another zone", Line: "leaderrun next -n 3 --timezone America/New_York '30 2 * * MON-FRI'"},
			{Does: "for a program", Line: "leaderrun next --json --every 15m"},
		},
		Options: append([]cli.Option{
			every, timezone,
			{Name: "count", Short: "n", Value: "N", Def: strconv.Itoa(defaultCount), Check: cli.By(parseTicks), Example: "3", Help: "how many"},
			{Name: "json", Help: "one array of objects"},
		}, cli.CommonOptions()...),
		Mixed: true, Run: runNext,
	}
}

// maxTicks keeps a slip of the finger from filling the memory.
const maxTicks = 100_000

func parseTicks(text string) (int, error) {
	n, err := value.Number(1, value.Unbounded)(text)
	if err == nil && n > maxTicks {
		return 0, fmt.Errorf("%q is more than %d", text, maxTicks)
	}
	return n, err
}

// nextTick is what next shows of one tick. The names are a contract.
type nextTick struct {
	Tick  string `json:"tick"`      // in UTC
	Unix  int64  `json:"tick_unix"` // in seconds
	Local string `json:"local"`     // in the zone of its expression
	In    int64  `json:"in_ms"`
	Note  string `json:"note"`
	shown string
}

func runNext(c *cli.Call) (cli.ExitStatus, error) {
	s := c.Settings
	count, asJSON := cli.Read(s, "count", parseTicks, defaultCount), s.On("json")
	every, zone := cli.Read(s, "every", launch.ParseEvery, ""), cli.Read(s, "timezone", launch.ParseZone, "")
	if s.Err != nil {
		return cli.ExitStatus{}, s.Err
	}
	plan, err := planNext(c, every, zone)
	if err != nil {
		return cli.ExitStatus{}, err
	}
	now := time.Now()
	return cli.ExitStatus{}, cli.Show(c, asJSON, describeTicks(plan.Upcoming(now, count), now), func(ticks []nextTick) string {
		rows := [][]string{{"TICK", "UTC", "IN", "NOTE"}}
		for _, t := range ticks {
			rows = append(rows, []string{t.shown, t.Tick, span(time.Duration(t.In) * time.Millisecond), cmp.Or(t.Note, "-")})
		}
		var b strings.Builder
		fmt.Fprintf(&b, "%s\n\n", plan)
		cli.WriteColumns(&b, rows...)
		return b.String()
	})
}

// planNext reads the schedule. What environment and files say of --every is for runs.
func planNext(c *cli.Call, every, zone string) (*schedule.Schedule, error) {
	exprs := c.Args
	for _, expr := range exprs {
		_, err := launch.ParseExpressions(expr)
		if err == nil {
			continue
		}
		why, hint := cli.Explain(err, "")
		if len(exprs) > 1 && len(strings.Fields(expr)) == 1 {
			hint = "quote an expression: leaderrun next '0 2 * * *'"
		}
		return nil, cli.Usage("EXPR", why, hint)
	}
	if every != "" && (len(exprs) == 0 || c.Settings.Typed("every")) {
		exprs = append(exprs, every)
	}
	if len(exprs) == 0 {
		return nil, cli.Usage("EXPR is missing", "", "leaderrun next '0 2 * * *'")
	}
	if _, err := schedule.Parse(exprs, "UTC"); err != nil { // too many
		why, hint := cli.Explain(err, "")
		return nil, cli.Usage("EXPR", why, hint)
	}
	return launch.ParseSchedule(exprs, zone)
}

func describeTicks(ticks []schedule.Tick, now time.Time) []nextTick {
	var described []nextTick
	for _, t := range ticks {
		described = append(described, nextTick{
			Tick: cli.TickText(t.Time.Unix()), Unix: t.Time.Unix(), Local: t.Time.Format(time.RFC3339),
			In: t.Time.Sub(now).Milliseconds(), Note: t.Note, shown: t.Time.Format("Mon 2006-01-02 15:04:05 -07:00"),
		})
	}
	return described
}

// span writes a duration with days, to the second or, from an hour on, to the minute.
func span(d time.Duration) string {
	const day = 24 * time.Hour
	switch {
	case d >= day:
		return fmt.Sprintf("%dd%dh%dm", d/day, d%day/time.Hour, d%time.Hour/time.Minute)
	case d >= time.Hour:
		return fmt.Sprintf("%dh%dm", d/time.Hour, d%time.Hour/time.Minute)
	case d >= time.Minute:
		return fmt.Sprintf("%dm%ds", d/time.Minute, d%time.Minute/time.Second)
	}
	return fmt.Sprintf("%ds", d/time.Second)
}
