package servers

import (
	"os"
	"os/user"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
)

// cronUsers are of every Linux.
var cronUsers = []string{"daemon", "nobody", "games", "bin", "sys"}

// Cron runs a cron daemon of its own until the test ends, with a crontab for each of n users, in a mount namespace where
// the machine's own crontabs and mailer are covered. It returns the file in dir that its mails go to; all users must be
// allowed to write there. It needs root.
func Cron(t testing.TB, dir, crontab string, n int) (mails string) {
	t.Helper()
	RequireRoot(t, "cron", "crontabs of several users")
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
			lack(t, "cron", err.Error())
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
	Start(t, dir, "unshare", "--mount", "--propagation", "private", "sh", "-c", strings.Join(cover, "\n"))
	return mails
}
