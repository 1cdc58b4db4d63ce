package acceptance

import (
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/leaderrun/leaderrun/runner"
	"github.com/leaderrun/leaderrun/test/servers"
)

// A real cron daemon with the crontabs of three users, who stand for three hosts: each has the same line on
// one Redis. One run at a time, and no mail from anybody.
func TestCrontabsOfThreeHosts(t *testing.T) {
	t.Parallel()
	servers.SkipShort(t)
	servers.RequireRoot(t, "cron", "crontabs of several users")
	r := servers.Redis(t, servers.RedisOptions{})
	b := newBed(t, redisURL(r, runner.DefaultTTL))
	if err := os.Chmod(b.dir, 0o777); err != nil { //nolint:gosec // every host writes into it
		t.Fatal(err)
	}
	// The job outlasts a minute, so that the next minute finds it running.
	b.mild = true
	crontab := fmt.Sprintf("SHELL=/bin/sh\nMAILTO=root\n* * * * * %s run --backend %s --wait 0 job -- %s\n",
		binary, strings.ReplaceAll(b.backend, "%", `\%`), strings.Join(b.witness(75*time.Second), " "))
	mails := servers.Cron(t, b.dir, crontab, 3)
	// Two runs have begun: the second at a minute after the end of the first.
	begun := time.Now()
	for len(b.runs()) < 2 {
		if time.Since(begun) > 5*time.Minute {
			t.Fatal("waited in vain for the second run")
		}
		time.Sleep(time.Second) // between two looks
	}
	b.verdict()
	if text, err := os.ReadFile(mails); err == nil && len(text) > 0 {
		t.Errorf("cron sent mail:\n%s", text)
	}
}
