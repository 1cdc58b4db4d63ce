package acceptance

import (
	"fmt"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/leaderrun/leaderrun/internal/testserver"
)

// A real cron daemon with the crontabs of three users, who stand for three hosts: each has the same line on
// one Redis. One run at a time, and no mail from anybody.
func TestCrontabsOfThreeHosts(t *testing.T) {
	t.Parallel()
	testserver.Require(t, "cron")
	if os.Geteuid() != 0 {
		t.Skip("crontabs of several users need root")
	}
	r := testserver.Redis(t, testserver.RedisOptions{})
	b := newBed(t, redisURL(r))
	if err := os.Chmod(b.dir, 0o777); err != nil { //nolint:gosec // every host writes to one log
		t.Fatal(err)
	}
	// The job outlasts a minute, so that the next minute finds it running.
	b.role = roleWitness
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	witness := filepath.Join(b.dir, "witness")
	copyFile(t, self, witness)
	line := fmt.Sprintf("* * * * * %s run --backend %s --ttl %s --wait 0 job -- %s %s %s 75000\n",
		binary, strings.ReplaceAll(b.backend, "%", `\%`), ttl, witness, b.role, b.log)
	mails := startCron(t, b.dir, line, 3)
	if err := os.WriteFile(b.log, nil, 0o666); err != nil { //nolint:gosec // every host writes to it
		t.Fatal(err)
	}
	if err := os.Chmod(b.log, 0o666); err != nil { //nolint:gosec // despite the umask
		t.Fatal(err)
	}
	// Two runs have begun: the second at a minute after the end of the first.
	begun := time.Now()
	for len(readLog(t, b.log)) < 2 {
		if time.Since(begun) > 5*time.Minute {
			t.Fatal("waited in vain for the second run")
		}
		time.Sleep(time.Second) // between two looks
	}
	verdict(t, b.log)
	if text, err := os.ReadFile(mails); err == nil && len(text) > 0 {
		t.Errorf("cron sent mail:\n%s", text)
	}
}

// startCron runs a cron daemon of its own, with a crontab for each of n users, in a mount namespace where
// the machine's own crontabs and mailer are covered. It returns the file that its mails go to.
func startCron(t *testing.T, dir, crontab string, n int) (mails string) {
	t.Helper()
	mails = filepath.Join(dir, "mails")
	spool := filepath.Join(dir, "crontabs")
	mailer := filepath.Join(dir, "sendmail")
	script := "#!/bin/sh\ncat >>" + mails + "\n"
	for path, text := range map[string]string{mailer: script, filepath.Join(dir, "environment"): ""} {
		if err := os.WriteFile(path, []byte(text), 0o755); err != nil { //nolint:gosec // a program
			t.Fatal(err)
		}
	}
	if err := os.Mkdir(spool, 0o700); err != nil {
		t.Fatal(err)
	}
	names := []string{"daemon", "nobody", "games", "bin", "sys"}
	for _, name := range names[:n] {
		u, err := user.Lookup(name)
		if err != nil {
			t.Skipf("user %s: %v", name, err)
		}
		uid, _ := strconv.Atoi(u.Uid)
		path := filepath.Join(spool, name)
		text := "SHELL=/bin/sh\nMAILTO=root\n" + crontab
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := os.Chown(path, uid, -1); err != nil {
			t.Fatal(err)
		}
	}
	empty := filepath.Join(dir, "empty")
	if err := os.Mkdir(empty, 0o755); err != nil { //nolint:gosec // cron looks into it
		t.Fatal(err)
	}
	// Everything that cron reads is covered by what this test wrote, for this one process tree only.
	cover := []string{
		"set -e", "mkdir -p /var/spool/cron/crontabs /etc/cron.d",
		"mount --bind " + spool + " /var/spool/cron/crontabs",
		"mount --bind " + empty + " /etc/cron.d",
		"if [ -e /etc/crontab ]; then mount --bind /dev/null /etc/crontab; fi",
		"touch /usr/sbin/sendmail 2>/dev/null || true",
		"mount --bind " + mailer + " $(readlink -f /usr/sbin/sendmail)",
		"mount -t tmpfs none /run", // its pid file: another cron may be running
		"exec cron -f",
	}
	testserver.Start(t, dir, "unshare", "--mount", "--propagation", "private", "sh", "-c", strings.Join(cover, "\n"))
	return mails
}

func copyFile(t *testing.T, from, to string) {
	t.Helper()
	if out, err := exec.Command("install", "-m", "755", from, to).CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
}
