package release

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"testing"

	"github.com/leaderrun/leaderrun/test/servers"
)

// host is a Debian without leaderrun: the files of this machine below a layer of its own, in which everything that is written
// stays. It has its own processes' names, mounts and /run, no crontabs, and no records of what leaderrun has run on this machine.
// Nothing of it is left when the test ends.
type host struct {
	t   *testing.T
	pid string // of who keeps its namespaces
}

// begin makes the layer, and says when it is there.
const begin = `set -e
hostname "$2"
cd "$1"
mount -t tmpfs -o size=2g none layer
mkdir layer/upper layer/work layer/root
mount -t overlay overlay -o lowerdir=/,upperdir=layer/upper,workdir=layer/work layer/root
cd layer/root
mount --rbind /proc proc
mount --rbind /dev dev
mount -t tmpfs none run
mount -t tmpfs -o mode=1777 none tmp
rm -rf etc/dpkg/dpkg.cfg.d etc/cron.d/* etc/cron.hourly/* etc/crontab var/spool/cron/crontabs/* etc/leaderrun etc/leaderrun.yaml var/lib/leaderrun*
printf '#!/bin/sh\ncat >>/var/tmp/mails\n' >usr/sbin/sendmail
chmod 755 usr/sbin/sendmail
touch "$1/ready"
exec sleep infinity`

// newHost makes a host, behind words that start a program in its network.
func newHost(t *testing.T, name string, where ...string) *host {
	t.Helper()
	servers.SkipShort(t)
	servers.RequireRoot(t, "dpkg", "roots of their own")
	dir := servers.Dir(t)
	if err := os.Mkdir(filepath.Join(dir, "layer"), 0o755); err != nil { //nolint:gosec // no secret
		t.Fatal(err)
	}
	words := append(slices.Clone(where), "unshare", "--mount", "--uts", "--propagation", "private", "sh", "-c", begin, "sh", dir, name)
	p := servers.Start(t, dir, words[0], words[1:]...)
	servers.Eventually(t, "a root", func() bool {
		_, err := os.Stat(filepath.Join(dir, "ready"))
		if err != nil && p.Ended() {
			t.Fatalf("no root can be made: %s", p.Log())
		}
		return err == nil
	})
	h := &host{t: t, pid: strconv.Itoa(p.PID())}
	if code, out := h.try("command -v leaderrun || id leaderrun"); code == 0 {
		t.Fatalf("this machine has leaderrun, so that nothing can be seen of its installation: %s", out)
	}
	return h
}

// words are what starts a program on the host.
func (h *host) words(words ...string) []string {
	enter := []string{
		"nsenter", "--target", h.pid, "--mount", "--net", "--uts", "env", "-i", "PATH=/usr/sbin:/usr/bin:/sbin:/bin", "HOME=/root", "LC_ALL=C.UTF-8",
		"TERM=dumb", "chroot", "/proc/" + h.pid + "/cwd",
	}
	return append(enter, words...)
}

// try runs a script as root on the host, in a folder of its own.
func (h *host) try(script string) (code int, output string) {
	h.t.Helper()
	words := h.words("bash", "-ec", "cd /root\n"+script)
	cmd := exec.Command(words[0], words[1:]...)
	out, err := cmd.CombinedOutput()
	if cmd.ProcessState == nil {
		h.t.Fatal(err)
	}
	return cmd.ProcessState.ExitCode(), string(out)
}

// do is try for a script that must succeed.
func (h *host) do(script string) string {
	h.t.Helper()
	code, out := h.try(script)
	if code != 0 {
		h.t.Fatalf("exit code %d of\n%s\n%s", code, script, out)
	}
	return out
}

// refuses is try for a script that must fail.
func (h *host) refuses(script string) string {
	h.t.Helper()
	code, out := h.try(script)
	if code == 0 {
		h.t.Errorf("no failure of\n%s\n%s", script, out)
	}
	return out
}

// put copies a file to /root on the host.
func (h *host) put(path string) {
	h.t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		h.t.Fatal(err)
	}
	h.write("/root/"+filepath.Base(path), text)
}

func (h *host) write(path string, text []byte) {
	h.t.Helper()
	if err := os.WriteFile(fmt.Sprintf("/proc/%s/cwd%s", h.pid, path), text, 0o644); err != nil { //nolint:gosec // no secret
		h.t.Fatal(err)
	}
}

// read returns what a file holds; one that is not there holds nothing.
func (h *host) read(path string) string {
	h.t.Helper()
	text, err := os.ReadFile(fmt.Sprintf("/proc/%s/cwd%s", h.pid, path))
	if err != nil && !os.IsNotExist(err) {
		h.t.Fatal(err)
	}
	return string(text)
}
