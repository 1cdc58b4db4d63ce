package release

import (
	"os"
	"strings"
	"testing"

	"github.com/leaderrun/leaderrun/test/servers"
)

// Installed, upgraded, removed and purged by dpkg. Root's records of `file:`, and a user's, are there before and after.
func TestDeb(t *testing.T) {
	t.Parallel()
	deb := artefact(t, "*.deb")
	h := newHost(t, "debian")
	h.put(deb)
	// What came before, by a lower number: the units had the folder where root has its records.
	h.do(`dpkg-deb -R leaderrun_*.deb older
		sed -i 's/^Version: .*/Version: 1.2.2/' older/DEBIAN/control
		sed -i /give-back/d older/DEBIAN/postinst
		sed -i s/leaderrun-jobs/leaderrun/ older/usr/lib/sysusers.d/leaderrun.conf older/usr/lib/tmpfiles.d/leaderrun.conf
		dpkg-deb -Znone -b older older.deb
		install older/usr/bin/leaderrun /usr/local/bin/leaderrun
		useradd --create-home ann`)
	first := firstCommand(t)
	runs := func(when, tick string) {
		t.Helper()
		for _, as := range []string{"", "runuser -u ann -- env HOME=/home/ann "} {
			if got := h.do("cd /; PATH=$PATH:/usr/local/bin\n" + as + strings.Replace(first, firstTick, tick, 1)); got != "the report of 02:00\n" {
				t.Errorf("%s, %s: %q", when, as, got)
			}
			if got := h.do("cd /; PATH=$PATH:/usr/local/bin\n" + as + first); got != "" && tick != firstTick {
				t.Errorf("%s, %s, what has run before: %q", when, as, got)
			}
		}
	}
	runs("before", firstTick)

	h.do("dpkg -i older.deb")
	if got := h.do("dpkg-query -W -f '${Version} ${Status}' leaderrun"); got != "1.2.2 install ok installed" {
		t.Errorf("dpkg says %q", got)
	}
	h.do("dpkg --verify leaderrun")
	if got := h.do("leaderrun version"); !strings.Contains(got, " v"+version+" ") {
		t.Errorf("it says %q", got)
	}
	if got := h.do("cat /var/lib/dpkg/info/leaderrun.conffiles; stat -c %a /etc/leaderrun.yaml"); got != "/etc/leaderrun.yaml\n644\n" {
		t.Errorf("conffiles: %q", got)
	}
	if got := h.do("find /etc/systemd /etc/rc?.d /etc/init.d -name '*leaderrun*'"); got != "" {
		t.Errorf("something is started by itself: %q", got)
	}

	// Jobs of a unit have written, and run. What root has there is root's.
	h.do(`echo 'kill_after: 7s' >>/etc/leaderrun.yaml
		cd /var/lib/leaderrun; echo of-root >of-root; mkdir of-roots; ln -s /etc/passwd root-link
		runuser -u leaderrun -- sh -c 'echo of-a-job >file; mkdir folder; echo deep >folder/file; ln -s /root link; ln -s -- /etc/shadow -dash'
		runuser -u leaderrun -- leaderrun run --backend file: --tick 2026-01-05T02:00:00Z job -- echo ran
		runuser -u leaderrun -- sh -c 'echo $$ >/tmp/pid; exec sleep 1000' >/dev/null 2>&1 &
		until test -s /tmp/pid; do :; done`)
	if out := h.do("dpkg -i leaderrun_*.deb </dev/null 2>&1"); !strings.Contains(out, "leaderrun is currently used by process") {
		t.Errorf("nothing of a unit that runs: %s", out)
	}
	if got := h.do("dpkg-query -W -f '${Version}' leaderrun; tail -n 1 /etc/leaderrun.yaml"); got != version+"kill_after: 7s\n" {
		t.Errorf("after the upgrade: %q", got)
	}
	owned := func(what, dir, want string) {
		t.Helper()
		if got := h.do("cd " + dir + "; find . -maxdepth 1 ! -name '*.lock' ! -name '*.tree' ! -name '*.beat' -printf '%f %u %m\n' | sort"); got != want {
			t.Errorf("%s, %s:\n%swant\n%s", what, dir, got, want)
		}
	}
	const roots = "of-root root 644\nof-roots root 755\nreport.json root 600\nroot-link root 777\n"
	owned("while a job runs", "/var/lib/leaderrun", "-dash leaderrun 777\n. leaderrun 750\nfile leaderrun 644\nfolder leaderrun 755\njob.json leaderrun 600\nlink leaderrun 777\n"+roots)
	moved := func(what string) {
		t.Helper()
		owned(what, "/var/lib/leaderrun", ". root 700\n"+roots)
		owned(what, "/var/lib/leaderrun-jobs", "-dash leaderrun 777\n. leaderrun 750\n.local leaderrun 755\nfile leaderrun 644\nfolder leaderrun 755\njob.json leaderrun 600\nlink leaderrun 777\n")
		if got := h.do("getent passwd leaderrun | cut -d : -f 6,7; stat -c '%U %a' /etc/passwd /root"); got != "/var/lib/leaderrun-jobs:/usr/sbin/nologin\nroot 644\nroot 700\n" {
			t.Errorf("%s: %q", what, got)
		}
		if got := h.do("cd /; runuser -u leaderrun -- env HOME=/var/lib/leaderrun-jobs leaderrun run --backend file: --tick 2026-01-05T02:00:00Z job -- echo ran"); got != "" {
			t.Errorf("%s the units' records are forgotten: %q", what, got)
		}
	}
	unit := h.read("/usr/lib/systemd/system/leaderrun@.service")
	_, before, _ := strings.Cut(unit, "ExecStartPre=+-")
	before, _, _ = strings.Cut(before, "\n")
	h.do("kill $(cat /tmp/pid); while test -e /proc/$(cat /tmp/pid); do :; done; " + before)
	moved("when a unit starts again")
	runs("after the upgrade", "2026-01-06T02:00:00Z")

	h.do("cd /var/lib; chown leaderrun leaderrun; rm -r leaderrun-jobs/.local; mv leaderrun-jobs/* leaderrun; chmod 750 leaderrun; cd; dpkg -i leaderrun_*.deb </dev/null")
	moved("where nothing runs")
	runs("installed again", "2026-01-07T02:00:00Z")

	h.do("dpkg -r leaderrun")
	if got := h.do("ls -d /usr/bin/leaderrun /etc/leaderrun.yaml /var/lib/leaderrun-jobs/file /usr/lib/systemd/system/leaderrun* 2>/dev/null || true"); got != "/etc/leaderrun.yaml\n/var/lib/leaderrun-jobs/file\n" {
		t.Errorf("after it was removed: %q", got)
	}
	h.do("dpkg -P leaderrun")
	runs("purged", "2026-01-08T02:00:00Z")
	if got := h.do("find /etc /usr /var -name '*leaderrun*' ! -path '/usr/local/*'"); got != "/var/lib/leaderrun\n" {
		t.Errorf("left after it was purged: %q", got)
	}
}

const firstTick = "2026-01-05T02:00:00Z"

// firstCommand is the first one of README, which needs no server, as it is with the program installed.
func firstCommand(t *testing.T) string {
	t.Helper()
	page, err := os.ReadFile("../../README.md")
	if err != nil {
		t.Fatal(err)
	}
	_, command, found := strings.Cut(string(page), "\n```console\n$ go run . ")
	command, _, _ = strings.Cut(command, "\n")
	if !found || !strings.Contains(command, firstTick) {
		t.Fatalf("README begins with %q, and no tick of %s", command, firstTick)
	}
	return "leaderrun " + command
}

// Every line of the configuration that stands there as a comment is right without the #.
func TestConfigurationIsCommented(t *testing.T) {
	t.Parallel()
	h := newHost(t, "configured")
	h.put(artefact(t, "*.deb"))
	h.do("dpkg -i leaderrun_*.deb; rm -f one.yaml")
	tried := 0
	for line := range strings.Lines(h.read("/etc/leaderrun.yaml")) {
		if setting, ok := strings.CutPrefix(line, "#"); ok && !strings.HasPrefix(setting, " ") {
			tried++
			h.write("/root/one.yaml", []byte(setting))
			h.do("leaderrun next --config one.yaml --count 1 '0 2 * * *'")
		} else if !ok && strings.TrimSpace(line) != "" {
			t.Errorf("not a comment: %q", line)
		}
	}
	if tried < 5 {
		t.Errorf("%d lines", tried)
	}
}

// Installed, checked and removed by rpm.
func TestRPM(t *testing.T) {
	t.Parallel()
	servers.SkipShort(t)
	servers.Require(t, "rpm")
	rpm := artefact(t, "*.rpm")
	h := newHost(t, "redhat")
	h.put(rpm)
	h.do("mkdir -p /var/lib/rpm; rpm --initdb; rpm --force-debian --nodeps -i leaderrun_*.rpm")
	if got := h.do("rpm -q --qf '%{VERSION}-%{RELEASE} %{LICENSE}' leaderrun"); got != version+"-1 Apache-2.0" {
		t.Errorf("rpm says %q", got)
	}
	h.do("rpm -V leaderrun; leaderrun version; getent passwd leaderrun")
	if got := h.do("cd /; " + firstCommand(t) + "; stat -c %U /var/lib/leaderrun /var/lib/leaderrun-jobs"); got != "the report of 02:00\nroot\nleaderrun\n" {
		t.Errorf("root's first run: %q", got)
	}
	if got := h.do("rpm -q --configfiles leaderrun"); got != "/etc/leaderrun.yaml\n" {
		t.Errorf("configuration: %q", got)
	}
	h.do("echo 'kill_after: 7s' >>/etc/leaderrun.yaml; rpm --force-debian -e leaderrun")
	if got := h.do("tail -n 1 /etc/leaderrun.yaml.rpmsave"); got != "kill_after: 7s\n" {
		t.Errorf("the configuration that was changed: %q", got)
	}
	h.refuses("test -e /usr/bin/leaderrun")
}
