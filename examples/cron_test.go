package examples

import (
	"fmt"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"

	"go.yaml.in/yaml/v3"

	"github.com/leaderrun/leaderrun/test/servers"
)

// settings returns the values of a key of a unit, in order.
func settings(unit, key string) (values []string) {
	for line := range strings.Lines(unit) {
		if value, ok := strings.CutPrefix(strings.TrimSpace(line), key+"="); ok {
			values = append(values, value)
		}
	}
	return values
}

func TestCronUnitIsValid(t *testing.T) {
	t.Parallel()
	unit := packagedUnit(t, "leaderrun.service")
	if got := setting(t, unit, "RuntimeDirectory"); got != "leaderrun" { // what is in /tmp goes after ten days
		t.Errorf("sockets are in %q", got)
	}
	verifyUnit(t, unit)
}

func TestCronFileIsRight(t *testing.T) {
	t.Parallel()
	w := newCronWorld(t, text(t, "cron/jobs.yaml"))
	code, output := w.shell(strings.Fields(w.relocate(settings(packagedUnit(t, "leaderrun.service"), "ExecReload")[0]))...)
	if code != 0 || strings.Contains(output, "leaderrun: ") {
		t.Errorf("code %d: %s", code, output)
	}
	for _, job := range []string{"nightly-report", "sync", "invoices", "backup"} {
		if !regexp.MustCompile(`(?m)^` + job + `: .*\n( {2}20.*\n){2}`).MatchString(output) {
			t.Errorf("no ticks of %s in %s", job, output)
		}
	}
}

// systemd must not lose its patience before the longest job has ended.
func TestCronUnitWaitsForEveryJob(t *testing.T) {
	t.Parallel()
	patience, err := time.ParseDuration(setting(t, packagedUnit(t, "leaderrun.service"), "TimeoutStopSec"))
	if err != nil {
		t.Fatal(err)
	}
	type job struct {
		Timeout    time.Duration
		KillAfter  time.Duration `yaml:"kill_after"`
		Retries    int
		RetryDelay time.Duration `yaml:"retry_delay"`
	}
	var file struct {
		Defaults job
		Jobs     map[string]yaml.Node
	}
	if err := yaml.Unmarshal([]byte(text(t, "cron/jobs.yaml")), &file); err != nil {
		t.Fatal(err)
	}
	for name, node := range file.Jobs {
		j := file.Defaults
		if err := node.Decode(&j); err != nil {
			t.Fatal(err)
		}
		longest := (j.Timeout+j.KillAfter)*time.Duration(j.Retries+1) + j.RetryDelay*time.Duration(j.Retries)
		if j.Timeout == 0 || longest >= patience {
			t.Errorf("%s may take %v, and TimeoutStopSec is %v", name, longest, patience)
		}
	}
}

// newCronWorld is a world with a job file and its commands, which write down their ticks.
func newCronWorld(t *testing.T, jobs string) *world {
	t.Helper()
	w := newWorld(t)
	w.write("jobs.yaml", w.relocate(strings.ReplaceAll(jobs, "/srv/backup", w.dir)))
	for _, name := range []string{"report", "sync-all", "invoices", "dump"} {
		w.tool(name, `echo "run $LEADERRUN_JOB $LEADERRUN_TICK" >>$DIR/log`)
	}
	return w
}

// often gives every job of a file a tick a second.
func often(jobs string) string {
	jobs = regexp.MustCompile(`(?m)^    jitter: .*\n`).ReplaceAllString(jobs, "")
	return regexp.MustCompile(`(?m)^    (schedule|every): .*$`).ReplaceAllString(jobs, "    every: 1s")
}

// Two hosts run the daemon with one file: each tick runs once. A reload brings in a new job, a wrong file changes nothing,
// and a stop drains.
func TestCronDaemons(t *testing.T) {
	t.Parallel()
	servers.SkipShort(t)
	unit := packagedUnit(t, "leaderrun.service")
	for key, want := range map[string]string{"Type": "notify", "KillMode": "mixed", "Delegate": "yes", "Restart": "always"} {
		if got := setting(t, unit, key); got != want {
			t.Errorf("%s=%s, want %s", key, got, want)
		}
	}
	jobs := often(text(t, "cron/jobs.yaml"))
	w := newCronWorld(t, jobs)
	var daemons []*manager
	for _, name := range []string{"one", "two"} {
		own := strings.ReplaceAll(unit, "localhost:9465", fmt.Sprintf("localhost:%d", servers.FreePort(t)))
		m := w.service(name, own)
		m.hears("READY=1\n")
		daemons = append(daemons, m)
	}
	runs := func(job string) int { return strings.Count(w.read("log"), "run "+job+" ") }
	for _, job := range []string{"nightly-report", "sync", "invoices", "backup"} {
		servers.Eventually(t, "three ticks of "+job, func() bool { return runs(job) >= 3 })
	}

	// systemctl reload, with a mistake and without
	reload := settings(unit, "ExecReload")
	if len(reload) != 2 || !strings.HasSuffix(reload[1], " -HUP $MAINPID") {
		t.Fatalf("a reload is %q", reload)
	}
	w.write("jobs.yaml", "jobs: nonsense\n")
	if code, output := w.shell(strings.Fields(w.relocate(reload[0]))...); code != 78 {
		t.Errorf("a wrong file: code %d, want 78: %s", code, output)
	}
	if err := daemons[0].cmd.Process.Signal(syscall.SIGHUP); err != nil { // by hand, without the check
		t.Fatal(err)
	}
	daemons[0].says("the jobs stay as they were")
	before := runs("sync")
	servers.Eventually(t, "the jobs stay as they were", func() bool { return runs("sync") > before })
	w.write("jobs.yaml", w.relocate(jobs+"\n  new-job:\n    every: 1s\n    command: [/usr/local/bin/report]\n"))
	if code, output := w.shell(strings.Fields(w.relocate(reload[0]))...); code != 0 {
		t.Errorf("a new file: code %d: %s", code, output)
	}
	for _, m := range daemons {
		if err := m.cmd.Process.Signal(syscall.SIGHUP); err != nil {
			t.Fatal(err)
		}
		m.hears("RELOADING=1\n")
	}
	servers.Eventually(t, "the new job runs", func() bool { return runs("new-job") > 0 })

	// systemctl stop
	for _, m := range daemons {
		if err := m.cmd.Process.Signal(syscall.SIGTERM); err != nil {
			t.Fatal(err)
		}
		m.hears("STOPPING=1\n")
		if code, output := m.wait(); code != 0 {
			t.Errorf("it ends with %d: %s", code, output)
		}
	}
	onceEach(t, w.read("log"))
}
