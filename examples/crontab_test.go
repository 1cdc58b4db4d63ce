package examples

import (
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/leaderrun/leaderrun/test/servers"
)

// toldJobs are the jobs of the crontab and what they are told, as words and stdin.
var toldJobs = map[string]string{
	"report":   `<--full>`,
	"sync-all": ``,
	"backup":   `<--name> <db-20[0-9][0-9]-[01][0-9]-[0-3][0-9]>`,
	"post":     `<--to> <team> The numbers are due. -- ops`,
}

// What leaderrun takes for the schedule is when cron starts the line: otherwise most runs would be for a tick that is done.
func TestCrontabIsRight(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.start(w.env, "", bin+"/leaderrun", "lint", absolute(t, "crontab/crontab")).expect(0, "")
}

// onceEach looks for a tick that ran twice. A test that takes its time may see the next one, too.
func onceEach(t *testing.T, log string) (runs []string) {
	t.Helper()
	runs = regexp.MustCompile(`(?m)^run \S+ \S+`).FindAllString(log, -1)
	slices.Sort(runs)
	if len(runs) != len(slices.Compact(slices.Clone(runs))) {
		t.Errorf("a tick ran twice: %q", runs)
	}
	return runs
}

// Debian's cron runs the crontab for three users, who stand for three hosts, each line every minute instead of at its
// time. The jobs are over at once. Each tick runs once, and nobody gets mail.
func TestCrontabUnderCron(t *testing.T) {
	t.Parallel()
	servers.SkipShort(t)
	servers.Require(t, "redis")
	crontab := text(t, "crontab/crontab")
	for _, schedule := range regexp.MustCompile(`--schedule "([^"]+)"`).FindAllStringSubmatch(crontab, -1) {
		crontab = strings.ReplaceAll(crontab, schedule[1], "* * * * *")
	}
	w := newWorld(t)
	if err := os.Chmod(w.dir, 0o777); err != nil { //nolint:gosec // the hosts write there
		t.Fatal(err)
	}
	url := "redis://" + servers.Redis(t, servers.RedisOptions{}).Addr()
	w.write("backend", url+"\n")
	w.write("log", "")
	// A young server is waited for, and cron mails what is said of that.
	if out, err := exec.CommandContext(t.Context(), bin+"/leaderrun", "--backend", url, "run", "--wait", "5m", "before", "true").CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	for name, mode := range map[string]os.FileMode{"backend": 0o644, "log": 0o666} { // who could write the first would be believed
		if err := os.Chmod(w.path(name), mode); err != nil { //nolint:gosec // despite the umask
			t.Fatal(err)
		}
	}
	for name := range toldJobs {
		w.tool(name, `told=$(for word; do printf ' <%s>' "$word"; done; sed 's/^/ /' | tr -d '\n')`,
			`echo "run $LEADERRUN_JOB $LEADERRUN_TICK $(basename $0)$told$LEADERRUN_BACKEND_FILE" >>$DIR/log`)
	}
	mails := servers.Cron(t, w.dir, w.relocate(crontab), 3, time.Minute)
	// At the second tick of a job every host has come for its first one.
	ticks := func() map[string]int {
		n := map[string]int{}
		for _, run := range onceEach(t, w.read("log")) {
			n[strings.Fields(run)[1]]++
		}
		return n
	}
	for begun := time.Now(); ; time.Sleep(time.Second) { // between two looks
		n := ticks()
		if len(n) == len(toldJobs) && slices.Min(slices.Collect(maps.Values(n))) > 1 {
			break
		}
		if time.Since(begun) > 5*time.Minute {
			t.Fatalf("waited in vain for two runs of each job: %v", n)
		}
	}
	for line := range strings.Lines(w.read("log")) {
		name, told, _ := strings.Cut(strings.Join(strings.Fields(line)[3:], " "), " ")
		if !regexp.MustCompile("^" + toldJobs[name] + "$").MatchString(told) {
			t.Errorf("%s was told %q", name, told)
		}
	}
	if text := w.read(filepath.Base(mails)); text != "" {
		t.Errorf("cron sent mail:\n%s", text)
	}
}

// relocate puts what a host has in /usr and /etc into the folder of the world.
func (w *world) relocate(s string) string {
	return strings.NewReplacer(
		"/usr/bin/leaderrun", bin+"/leaderrun", "/usr/local/bin", w.path("tools"), "/etc/leaderrun/backend", w.path("backend"),
		"/etc/leaderrun/jobs.yaml", w.path("jobs.yaml"),
	).Replace(s)
}
