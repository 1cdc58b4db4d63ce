package examples

import (
	"regexp"
	"strings"
	"testing"
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

// Two hosts run each line of the crontab as cron would, at the same time: one runs the job, and neither says
// a word.
func TestCrontab(t *testing.T) {
	t.Parallel()
	env, lines := parseCrontab(t, text(t, "crontab/crontab"))
	want := map[string]string{ // what the jobs are told
		"report":   `<--full>`,
		"sync-all": ``,
		"backup":   `<--name> <db-20[0-9][0-9]-[01][0-9]-[0-3][0-9]>`,
		"post":     `<--to> <team>The numbers are due\.\n-- ops`,
		"invoices": ``,
	}
	if len(lines) != len(want) {
		t.Fatalf("%d lines, want %d", len(lines), len(want))
	}
	for _, line := range lines {
		if !strings.HasPrefix(line.command, "/usr/bin/leaderrun run ") {
			t.Errorf("no absolute path: %q", line.command)
		}
		name := regexp.MustCompile(`/usr/local/bin/([a-z-]+)`).FindStringSubmatch(line.command)
		if name == nil {
			t.Fatalf("no job in %q", line.command)
		}
		t.Run(name[1], func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			// The job writes down what it is told, and goes on until it is let go.
			w.tool(name[1], `{ for word; do printf '<%s> ' "$word"; done | sed 's/ $//'; cat; echo; echo "run $LEADERRUN_JOB $LEADERRUN_BACKEND_FILE"; } >>$DIR/log`,
				`while ! test -e $DIR/go; do sleep 0.01; done`)
			env := append([]string{"LOGNAME=somebody", "HOME=" + w.path("home")}, w.relocateAll(env)...)
			one := w.start(env, line.stdin, "/bin/sh", "-c", w.relocate(line.command))
			w.until("log", "run ")
			two := w.start(env, line.stdin, "/bin/sh", "-c", w.relocate(line.command))
			two.expect(0, "")
			w.write("go", "")
			if name[1] == "invoices" {
				return // the next test
			}
			one.expect(0, "")
			got := w.read("log")
			if !regexp.MustCompile(`^` + want[name[1]] + `\s*run [a-z-]+ \n$`).MatchString(got) {
				t.Errorf("the log has %q, want one run of %q", got, want[name[1]])
			}
		})
	}
}

// A job that is done before the clock of another host says so keeps the lease: that host finds it running. Its
// exit code is the job's.
func TestCrontabShortJob(t *testing.T) {
	t.Parallel()
	env, lines := parseCrontab(t, text(t, "crontab/crontab"))
	w := newWorld(t)
	w.tool("invoices", "echo run >>$DIR/log", "exit 7")
	w.tool("sleep", `echo "$@" >$DIR/slept`, "while ! test -e $DIR/go; do /bin/sleep 0.01; done")
	env = append([]string{"LOGNAME=somebody", "HOME=" + w.path("home")}, w.relocateAll(env)...)
	command := w.relocate(lines[len(lines)-1].command)
	one := w.start(env, "", "/bin/sh", "-c", command)
	w.until("slept", "30")
	two := w.start(env, "", "/bin/sh", "-c", command)
	two.expect(0, "")
	w.write("go", "")
	one.expect(7, "")
	if got := w.read("log"); got != "run\n" {
		t.Errorf("the log has %q, want one run", got)
	}
}

// relocate puts what a host has in /usr and /etc into the folder of the world.
func (w *world) relocate(s string) string {
	return strings.NewReplacer(
		"/usr/bin/leaderrun", bin+"/leaderrun", "/usr/local/bin", w.path("tools"), "/etc/leaderrun/backend", w.path("backend"),
	).Replace(s)
}

func (w *world) relocateAll(words []string) []string {
	out := make([]string, len(words))
	for i, s := range words {
		out[i] = w.relocate(s)
	}
	return out
}
