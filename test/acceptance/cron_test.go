package acceptance

import (
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/leaderrun/leaderrun/test/servers"
)

// A real cron daemon with the crontabs of three users, who stand for three hosts: each has the same line on
// one Redis. One run at a time, and no mail from anybody.
func TestCrontabsOfThreeHosts(t *testing.T) {
	t.Parallel()
	servers.SkipShort(t)
	servers.RequireRoot(t, "cron", "crontabs of several users")
	r := servers.Redis(t, servers.RedisOptions{})
	b := newBed(t, redisURL(r, ttl))
	if err := os.Chmod(b.dir, 0o777); err != nil { //nolint:gosec // every host writes into it
		t.Fatal(err)
	}
	b.run(nil, "true").is(t, "whoever waits until the server is no new one", 0)
	const minute = 6 * time.Second
	// The job outlasts a minute, so that the next minute finds it running.
	b.mild = true
	crontab := fmt.Sprintf("SHELL=/bin/sh\nMAILTO=root\n* * * * * %s run --backend %s --ttl %v --wait 0 job -- %s\n",
		binary, strings.ReplaceAll(b.backend, "%", `\%`), ttl, strings.Join(b.witness(minute*5/4), " "))
	mails := servers.Cron(t, b.dir, crontab, 3, minute)
	// Two runs have begun: the second at a minute after the end of the first.
	servers.Eventually(t, "the second run has begun", func() bool { return len(b.runs()) >= 2 })
	b.verdict()
	if text, err := os.ReadFile(mails); err == nil && len(text) > 0 {
		t.Errorf("cron sent mail:\n%s", text)
	}
}
