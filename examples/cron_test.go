package examples

import (
	"regexp"
	"strings"
	"testing"
	"time"

	"go.yaml.in/yaml/v3"
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
	for key, want := range map[string]string{
		"Type": "notify", "KillMode": "mixed", "Delegate": "yes", "Restart": "always",
		"RuntimeDirectory": "leaderrun", // what is in /tmp goes after ten days
	} {
		if got := setting(t, unit, key); got != want {
			t.Errorf("%s=%s, want %s", key, got, want)
		}
	}
	if reload := settings(unit, "ExecReload"); len(reload) != 2 || !strings.HasSuffix(reload[1], " -HUP $MAINPID") {
		t.Errorf("a reload is %q", reload)
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
