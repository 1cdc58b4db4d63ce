package release

import (
	"strings"
	"testing"

	"github.com/leaderrun/leaderrun/test/servers"
)

// Installed, upgraded, removed and purged by dpkg.
func TestDeb(t *testing.T) {
	t.Parallel()
	deb := artefact(t, "*.deb")
	h := newHost(t, "debian")
	h.put(deb)
	// What came before: the same, by a lower number.
	h.do(`dpkg-deb -R leaderrun_*.deb older
		sed -i 's/^Version: .*/Version: 1.2.2/' older/DEBIAN/control
		dpkg-deb -Znone -b older older.deb`)

	h.do("dpkg -i older.deb")
	if got := h.do("dpkg-query -W -f '${Version} ${Status}' leaderrun"); got != "1.2.2 install ok installed" {
		t.Errorf("dpkg says %q", got)
	}
	h.do("dpkg --verify leaderrun")
	if got := h.do("leaderrun version"); !strings.Contains(got, " v"+version+" ") {
		t.Errorf("it says %q", got)
	}
	if got := h.do("stat -c '%U %G %a' /var/lib/leaderrun; getent passwd leaderrun | cut -d : -f 6,7"); got != "leaderrun leaderrun 750\n/var/lib/leaderrun:/usr/sbin/nologin\n" {
		t.Errorf("the user of the jobs: %q", got)
	}
	if got := h.do("cat /var/lib/dpkg/info/leaderrun.conffiles; stat -c %a /etc/leaderrun.yaml"); got != "/etc/leaderrun.yaml\n644\n" {
		t.Errorf("conffiles: %q", got)
	}
	if got := h.do("find /etc/systemd /etc/rc?.d /etc/init.d -name '*leaderrun*'"); got != "" {
		t.Errorf("something is started by itself: %q", got)
	}

	h.do("echo 'kill_after: 7s' >>/etc/leaderrun.yaml; echo of-a-job >/var/lib/leaderrun/file")
	h.do("dpkg -i leaderrun_*.deb </dev/null")
	if got := h.do("dpkg-query -W -f '${Version}' leaderrun; tail -n 1 /etc/leaderrun.yaml"); got != version+"kill_after: 7s\n" {
		t.Errorf("after the upgrade: %q", got)
	}

	h.do("dpkg -r leaderrun")
	if got := h.do("ls -d /usr/bin/leaderrun /etc/leaderrun.yaml /var/lib/leaderrun/file /usr/lib/systemd/system/leaderrun* 2>/dev/null || true"); got != "/etc/leaderrun.yaml\n/var/lib/leaderrun/file\n" {
		t.Errorf("after it was removed: %q", got)
	}
	h.do("dpkg -P leaderrun")
	if got := h.do("find /etc /usr /var -name '*leaderrun*'"); got != "" {
		t.Errorf("left after it was purged: %q", got)
	}
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
	if got := h.do("rpm -q --configfiles leaderrun"); got != "/etc/leaderrun.yaml\n" {
		t.Errorf("configuration: %q", got)
	}
	h.do("echo 'kill_after: 7s' >>/etc/leaderrun.yaml; rpm --force-debian -e leaderrun")
	if got := h.do("tail -n 1 /etc/leaderrun.yaml.rpmsave"); got != "kill_after: 7s\n" {
		t.Errorf("the configuration that was changed: %q", got)
	}
	h.refuses("test -e /usr/bin/leaderrun")
}
