package examples

import (
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/leaderrun/leaderrun/test/servers"
)

// cronLine is a line of a crontab as cron reads it, crontab(5).
type cronLine struct {
	fields  []string
	command string
	stdin   string
}

// parseCrontab returns the variables and the lines of a user's crontab.
func parseCrontab(t *testing.T, text string) (env []string, lines []cronLine) {
	t.Helper()
	variable := regexp.MustCompile(`^([A-Za-z_][A-Za-z0-9_]*)\s*=\s*(.*)$`)
	for line := range strings.Lines(text) {
		line = strings.TrimSpace(line)
		if line == "" || strings.HasPrefix(line, "#") {
			continue
		}
		if m := variable.FindStringSubmatch(line); m != nil {
			env = append(env, m[1]+"="+m[2])
			continue
		}
		fields := regexp.MustCompile(`^(\S+)\s+(\S+)\s+(\S+)\s+(\S+)\s+(\S+)\s+(.*)$`).FindStringSubmatch(line)
		if fields == nil {
			t.Fatalf("not a line of a crontab: %q", line)
		}
		for _, f := range fields[1:6] {
			if !regexp.MustCompile(`^(\*|[0-9]+)(/[0-9]+)?$`).MatchString(f) {
				t.Errorf("not a field of a crontab: %q in %q", f, line)
			}
		}
		l := cronLine{fields: fields[1:6]}
		l.command, l.stdin = splitPercent(fields[6])
		lines = append(lines, l)
	}
	return env, lines
}

// splitPercent ends a command at the first bare %; each further one is a new line of stdin.
func splitPercent(s string) (command, stdin string) {
	const escaped = "\x00"
	s = strings.ReplaceAll(s, `\%`, escaped)
	command, stdin, _ = strings.Cut(s, "%")
	stdin = strings.ReplaceAll(stdin, "%", "\n")
	if stdin != "" {
		stdin += "\n"
	}
	return strings.ReplaceAll(command, escaped, "%"), strings.ReplaceAll(stdin, escaped, "%")
}

// toldJobs are the jobs of the crontab and what they are told.
var toldJobs = map[string]string{
	"report":   `<--full>`,
	"sync-all": ``,
	"backup":   `<--name> <db-20[0-9][0-9]-[01][0-9]-[0-3][0-9]>`,
	"post":     `<--to> <team>The numbers are due\.\n-- ops`,
}

// jobOf returns the program of a line.
func jobOf(t *testing.T, line cronLine) string {
	t.Helper()
	m := regexp.MustCompile(`/usr/local/bin/([a-z-]+)`).FindStringSubmatch(line.command)
	if m == nil {
		t.Fatalf("no job in %q", line.command)
	}
	return m[1]
}

// What leaderrun takes for the schedule is when cron starts the line: otherwise most runs would be for a tick that is
// done.
func TestCrontabSchedules(t *testing.T) {
	t.Parallel()
	_, lines := parseCrontab(t, text(t, "crontab/crontab"))
	if len(lines) != len(toldJobs) {
		t.Fatalf("%d lines, want %d", len(lines), len(toldJobs))
	}
	for _, line := range lines {
		if want := `--schedule "` + strings.Join(line.fields, " ") + `" `; !strings.Contains(line.command, want) {
			t.Errorf("no %s in %q", want, line.command)
		}
		if !strings.HasPrefix(line.command, "/usr/bin/leaderrun run ") {
			t.Errorf("no absolute path: %q", line.command)
		}
	}
}

// Three hosts run each line of the crontab as cron would, two at the same time, one after the job is done: it runs
// once, and nobody says a word.
func TestCrontab(t *testing.T) {
	t.Parallel()
	env, lines := parseCrontab(t, text(t, "crontab/crontab"))
	for _, line := range lines {
		name := jobOf(t, line)
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			// The job writes down what it is told, and goes on until it is let go.
			w.tool(name, `{ for word; do printf '<%s> ' "$word"; done | sed 's/ $//'; cat; echo; echo "run $LEADERRUN_JOB $LEADERRUN_TICK $LEADERRUN_BACKEND_FILE"; } >>$DIR/log`,
				`while ! test -e $DIR/go; do sleep 0.01; done`)
			env := append([]string{"LOGNAME=somebody", "HOME=" + w.path("home")}, w.relocateAll(env)...)
			cron := func() *host { return w.start(env, line.stdin, "/bin/sh", "-c", w.relocate(line.command)) }
			one := cron()
			w.until("log", "run ")
			two := cron()
			if !strings.Contains(line.command, "--on-lost rerun") { // who may have to run it again stands by
				two.expect(0, "")
			}
			w.write("go", "")
			one.expect(0, "")
			two.expect(0, "")
			cron().expect(0, "") // its clock is behind
			got := w.read("log")
			if !regexp.MustCompile(`^(` + toldJobs[name] + `\s*run [a-z-]+ [0-9TZ:-]+ \n)+$`).MatchString(got) {
				t.Errorf("the log has %q, want a run of %q", got, toldJobs[name])
			}
			onceEach(t, got)
		})
	}
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
	_, lines := parseCrontab(t, crontab)
	w := newWorld(t)
	if err := os.Chmod(w.dir, 0o777); err != nil { //nolint:gosec // the hosts write there
		t.Fatal(err)
	}
	w.write("backend", "redis://"+servers.Redis(t, servers.RedisOptions{}).Addr()+"\n")
	w.write("log", "")
	for name, mode := range map[string]os.FileMode{"backend": 0o644, "log": 0o666} { // who could write the first would be believed
		if err := os.Chmod(w.path(name), mode); err != nil { //nolint:gosec // despite the umask
			t.Fatal(err)
		}
	}
	for _, line := range lines {
		w.tool(jobOf(t, line), `echo "run $LEADERRUN_JOB $LEADERRUN_TICK" >>$DIR/log`)
		crontab = strings.ReplaceAll(crontab, strings.Join(line.fields, " "), "* * * * *")
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
		if len(n) == len(lines) && slices.Min(slices.Collect(maps.Values(n))) > 1 {
			break
		}
		if time.Since(begun) > 5*time.Minute {
			t.Fatalf("waited in vain for two runs of each job: %v", n)
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

func (w *world) relocateAll(words []string) []string {
	out := make([]string, len(words))
	for i, s := range words {
		out[i] = w.relocate(s)
	}
	return out
}
