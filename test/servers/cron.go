package servers

import (
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"os/user"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"
)

// cronUsers are of every Linux.
var cronUsers = []string{"daemon", "nobody", "games", "bin", "sys"}

// Cron runs a cron daemon of its own until the test ends, with a crontab for each of n users, in a mount namespace where
// the machine's own crontabs and mailer are covered. It returns the file in dir that its mails go to; all users must be
// allowed to write there. It needs root. A minute of cron's clock lasts as long as minute says; what cron starts has the machine's clock.
func Cron(t testing.TB, dir, crontab string, n int, minute time.Duration) (mails string) {
	t.Helper()
	RequireRoot(t, "cron", "crontabs of several users")
	words := "cron -f"
	if minute != time.Minute {
		clock := NewClock(t)
		clock.MustMove(t)
		words = fmt.Sprintf("env FAKETIME='+0 x%d' LD_PRELOAD=%s cron -f", time.Minute/minute, clock.preload)
	}
	mails = filepath.Join(dir, "mails")
	spool, empty := filepath.Join(dir, "crontabs"), filepath.Join(dir, "empty")
	mailer := filepath.Join(dir, "sendmail")
	if err := os.WriteFile(mailer, []byte("#!/bin/sh\ncat >>"+mails+"\n"), 0o755); err != nil { //nolint:gosec // a program
		t.Fatal(err)
	}
	for _, path := range []string{spool, empty} {
		if err := os.Mkdir(path, 0o700); err != nil {
			t.Fatal(err)
		}
	}
	for _, name := range cronUsers[:n] {
		u, err := user.Lookup(name)
		if err != nil {
			Lack(t, "cron", err.Error())
		}
		uid, _ := strconv.Atoi(u.Uid)
		path := filepath.Join(spool, name)
		if err := os.WriteFile(path, []byte(crontab), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := os.Chown(path, uid, -1); err != nil {
			t.Fatal(err)
		}
	}
	// Everything that cron reads is covered by what is written here, for this one process tree only.
	startCron(t, dir, spool, empty, "touch /usr/sbin/sendmail 2>/dev/null || true\n"+
		"mount --bind "+mailer+" $(readlink -f /usr/sbin/sendmail)", "exec "+words)
	return mails
}

// startCron starts cron with these directories in the place of the machine's.
func startCron(t testing.TB, dir, spool, system, more, cron string) *Process {
	t.Helper()
	return Start(t, dir, "unshare", "--mount", "--propagation", "private", "sh", "-c", strings.Join([]string{
		"set -e", "mkdir -p /var/spool/cron/crontabs /etc/cron.d",
		"mount --bind " + spool + " /var/spool/cron/crontabs",
		"mount --bind " + system + " /etc/cron.d",
		"if [ -e /etc/crontab ]; then mount --bind /dev/null /etc/crontab; fi",
		more,
		"mount -t tmpfs none /run", // its pid file: another cron may be running
		cron,
	}, "\n"))
}

const (
	cronsAtOnce = 24
	cronLead    = 5 * time.Second // from its start to the minute that it is to see
	lastLine    = "last"          // of what a cron has started
)

// CronAt has a cron of its own live through each of these minutes, in UTC, with the system crontabs that are named for it. Each of these
// sets SHELL to DIR/NAME, which is made here: for each command it writes NAME and the first word of the command down. CronSaw returns
// them. dir must be one of OpenDir.
func CronAt(t testing.TB, dir string, tabs map[string]string, minutes map[time.Time][]string) {
	t.Helper()
	RequireRoot(t, "cron", "crontabs of the system")
	clock := NewClock(t)
	clock.MustMove(t)
	spool, saw := filepath.Join(dir, "spool"), filepath.Join(dir, "saw")
	write := func(path, text string, mode os.FileMode) {
		t.Helper()
		if err := os.WriteFile(path, []byte(text), mode); err != nil {
			t.Fatal(err)
		}
		if err := os.Chmod(path, mode); err != nil { // despite the umask
			t.Fatal(err)
		}
	}
	mkdir := func(path string) {
		t.Helper()
		if err := os.Mkdir(path, 0o755); err != nil { //nolint:gosec // cron reads there as others
			t.Fatal(err)
		}
	}
	mkdir(spool)
	mkdir(saw)
	recorder := "#!/bin/sh\nprintf '%s:%s\\n' \"${0##*/}\" \"${2%% *}\" >>" + saw + "/log\n"
	for name := range tabs {
		write(filepath.Join(dir, name), recorder, 0o755)
	}
	// cron starts users' crontabs last. What this one has written is there when all others were started.
	write(filepath.Join(dir, lastLine), recorder, 0o755)
	write(filepath.Join(spool, "root"), "SHELL="+filepath.Join(dir, lastLine)+"\n* * * * * line\n", 0o600)
	for batch := range slices.Chunk(slices.Collect(maps.Keys(minutes)), cronsAtOnce) {
		crons := map[time.Time]*Process{}
		for _, at := range batch {
			system := sawAt(dir, at) + "-cron.d"
			mkdir(sawAt(dir, at))
			mkdir(system)
			for _, name := range minutes[at] {
				write(filepath.Join(system, name), tabs[name], 0o644)
			}
			start := at.Add(-cronLead).Format("2006-01-02 15:04:05")
			crons[at] = startCron(t, dir, spool, system, "mount --bind "+sawAt(dir, at)+" "+saw,
				"touch /run/crond.reboot\nexec env TZ=UTC FAKETIME='@"+start+"' FAKETIME_DONT_FAKE_MONOTONIC=1 DONT_FAKE_MONOTONIC=1 LD_PRELOAD="+clock.preload+" cron -f")
		}
		for _, at := range batch {
			p := crons[at]
			Eventually(t, "cron has run what is due at "+at.String(), func() bool {
				return strings.Contains(CronSaw(t, dir, at), lastLine) && len(Children(p.PID())) == 0
			})
			p.Kill()
		}
	}
	for at := range minutes {
		log := filepath.Join(sawAt(dir, at), "log")
		write(log, strings.ReplaceAll(CronSaw(t, dir, at), lastLine+":line\n", ""), 0o644)
	}
}

func sawAt(dir string, at time.Time) string { return filepath.Join(dir, fmt.Sprint("saw-", at.Unix())) }

// CronSaw returns NAME:WORD of each command that the cron of CronAt has started at a minute, a line each.
func CronSaw(t testing.TB, dir string, at time.Time) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(sawAt(dir, at), "log"))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		t.Fatal(err)
	}
	return string(text)
}
