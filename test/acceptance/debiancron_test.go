package acceptance

import (
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/leaderrun/leaderrun/schedule"
	"github.com/leaderrun/leaderrun/test/servers"
)

// zoneYears are zones with all that clocks have done, each in a year when they did.
var zoneYears = map[string]int{
	"America/New_York":    2026,
	"Europe/Berlin":       2026,
	"Europe/London":       2026,
	"America/Sao_Paulo":   2018, // the gap is at midnight
	"Australia/Lord_Howe": 2026, // 30 minutes
	"Pacific/Apia":        2011, // a day was skipped
	"Antarctica/Troll":    2026, // 2 hours
	"Africa/Casablanca":   2026, // back for Ramadan
}

// cronExpressions have at most one time in each gap: where there are more, leaderrun runs once and cron once for each
// (see package schedule), which the last one shows.
var cronExpressions = []string{
	"30 2 * * *",
	"15 0 * * *",
	"0 3 * * *",
	"45 1 * * 0",
	"10 2 1-7,25-31 * *",
	"5 3-23/20 * * *", // right after most gaps, and not often: each run of cron's costs a process
	"*/20 2 * 3,4,10,11 *",
	"7 * 25-31 3,10,12 *",
	"0 12 * * 1-5",
	"0 0 1 */2 *",
	"@weekly",
	"@monthly",
	"20 4 13 * 5",
	"0 4 */2 * 1",
}

// In the month of the gap.
const mergedExpression = "0,20,40 2 * 3 *"

// The ticks of a year in eight zones are those at which Debian's cron runs the same lines: the very program, in a
// clock of its own. One year after the other, while the tests beside them wait.
func TestTicksOfAYearAreThoseOfDebiansCron(t *testing.T) { //nolint:tparallel // they work
	t.Parallel()
	servers.SkipShort(t)
	servers.RequireRoot(t, "cron", "daemons of cron")
	library := filepath.Join(t.TempDir(), "virtualtime.so")
	if out, err := exec.Command("cc", "-shared", "-fPIC", "-O1", "-w", "-o", library, "testdata/virtualtime.c").CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	for zone, year := range zoneYears {
		t.Run(strings.ReplaceAll(zone, "/", "-"), func(t *testing.T) {
			place, err := time.LoadLocation(zone)
			if err != nil {
				t.Fatal(err)
			}
			from := time.Date(year, 1, 1, 0, 0, 30, 0, place)
			to := from.AddDate(1, 0, 0)
			ran := yearOfCron(t, library, zone, from, to)
			for _, expr := range cronExpressions {
				compareTicks(t, expr, ticksBetween(t, expr, zone, from, to), promptly(ran[expr], place))
			}
			once := slices.Clone(ran[mergedExpression])
			if slices.Sort(once); len(slices.Compact(once)) == len(ran[mergedExpression]) && hasWideGap(zone) {
				t.Errorf("cron ran %s once for a gap: the documentation says otherwise", mergedExpression)
			}
		})
	}
}

// hasWideGap says whether a zone leaves out 02:00 to 03:00 in its year.
func hasWideGap(zone string) bool { return zone == "America/New_York" || zone == "Europe/Berlin" }

// yearOfCron returns at which minutes cron runs each expression.
func yearOfCron(t *testing.T, library, zone string, from, to time.Time) map[string][]int64 {
	t.Helper()
	dir := servers.Dir(t)
	spool, empty, log := filepath.Join(dir, "crontabs"), filepath.Join(dir, "empty"), filepath.Join(dir, "log")
	var lines strings.Builder
	for _, expr := range append([]string{mergedExpression}, cronExpressions...) {
		// cron takes a command that begins with * for a sixth field.
		fmt.Fprintf(&lines, "%s run_%s\n", expr, strings.ReplaceAll(expr, " ", "_"))
	}
	for _, d := range []string{spool, empty} {
		if err := os.Mkdir(d, 0o700); err != nil {
			t.Fatal(err)
		}
	}
	for path, text := range map[string]string{filepath.Join(spool, "root"): lines.String(), log: ""} {
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	cover := []string{
		"set -e", "mkdir -p /var/spool/cron/crontabs /etc/cron.d",
		"mount --bind " + spool + " /var/spool/cron/crontabs",
		"mount --bind " + empty + " /etc/cron.d",
		"if [ -e /etc/crontab ]; then mount --bind /dev/null /etc/crontab; fi",
		"mount -t tmpfs none /run",
		"export TZ=" + zone + " LD_PRELOAD=" + library,
		fmt.Sprintf("export VIRTUAL_START=%d VIRTUAL_END=%d VIRTUAL_LOG=%s", from.Unix(), to.Unix(), log),
		"exec cron -f",
	}
	cmd := exec.CommandContext(t.Context(), "unshare", "--mount", "--propagation", "private", "sh", "-c", strings.Join(cover, "\n"))
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	text, err := os.ReadFile(log)
	if err != nil {
		t.Fatal(err)
	}
	ran := map[string][]int64{}
	for line := range strings.Lines(string(text)) {
		at, expr, _ := strings.Cut(strings.TrimSpace(line), " ")
		second, err := strconv.ParseInt(at, 10, 64)
		if err != nil {
			t.Fatal(err)
		}
		expr = strings.ReplaceAll(strings.TrimPrefix(expr, "run_"), "_", " ")
		ran[expr] = append(ran[expr], second-second%60)
	}
	if len(ran) == 0 {
		t.Fatal("cron ran nothing")
	}
	return ran
}

func ticksBetween(t *testing.T, expr, zone string, from, to time.Time) []int64 {
	t.Helper()
	s, err := schedule.Parse([]string{expr}, zone)
	if err != nil {
		t.Fatal(err)
	}
	var ticks []int64
	for tick, ok := s.Next(from); ok && tick.Before(to); tick, ok = s.Next(tick) {
		ticks = append(ticks, tick.Unix())
	}
	return ticks
}

// promptly takes back the pauses of 10 s that cron makes between the jobs that it catches up after a gap, which may
// come to a minute or two.
func promptly(ran []int64, zone *time.Location) []int64 {
	prompt := slices.Clone(ran)
	for i, at := range ran {
		for minute := range int64(3) {
			start := at - 60*minute
			_, before := time.Unix(start-1, 0).In(zone).Zone()
			if _, after := time.Unix(start, 0).In(zone).Zone(); after > before {
				prompt[i] = start
			}
		}
	}
	return prompt
}

func compareTicks(t *testing.T, expr string, want, ran []int64) {
	t.Helper()
	ours, theirs := map[int64]bool{}, map[int64]bool{}
	for _, tick := range want {
		ours[tick] = true
	}
	for _, tick := range ran {
		if theirs[tick] {
			t.Errorf("%s: cron ran it twice at %v", expr, time.Unix(tick, 0).UTC())
		}
		theirs[tick] = true
	}
	var differ []string
	for tick := range maps.Keys(ours) {
		if !theirs[tick] {
			differ = append(differ, time.Unix(tick, 0).UTC().Format(time.RFC3339)+" is not cron's")
		}
	}
	for tick := range maps.Keys(theirs) {
		if !ours[tick] {
			differ = append(differ, time.Unix(tick, 0).UTC().Format(time.RFC3339)+" is cron's only")
		}
	}
	slices.Sort(differ)
	if len(differ) > 0 {
		t.Errorf("%s: %d of %d ticks differ: %s", expr, len(differ), len(ran), strings.Join(differ[:min(len(differ), 8)], ", "))
	}
}
