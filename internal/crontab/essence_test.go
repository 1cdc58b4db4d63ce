package crontab

import (
	"strings"
	"testing"
)

// What a host has bare, and another one wrapped, is one job; what differs in a word is another.
func TestEssence(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ a, b string }{
		{"/opt/report --full", "leaderrun run --schedule '0 2 * * *' report -- /opt/report --full"},
		{"/opt/report --full", "flock -n /tmp/l /opt/report --full >/dev/null 2>&1"},
		{"/opt/report --full", `flock -n /tmp/l -c "/opt/report --full"`},
		{"/opt/report --full", "LEADERRUN_TTL=30s leaderrun run --shell report '/opt/report --full >>/var/log/r'"},
		{"/opt/report --full", "leaderrun run r -- sh -c 'nice timeout 5m /opt/report --full'"},
		{"cd /srv && make all | tee x", "leaderrun run --shell make 'cd /srv && make all | tee x'"},
		{"cd /srv && make all", "bash -lc 'cd /srv && make all'"},
		{"cd /srv && make all", "cd /srv && leaderrun run make -- make all"},
		{"su - app -c 'x --y'", `su - app -c "leaderrun run x -- x --y"`},
		{"consul lock P 'x --y'", "x --y"},
		{"sudo -u app x", "leaderrun run x -- sudo -u app x"},
	} {
		if a, b := Read("", c.a).Essence(), Read("", c.b).Essence(); a != b {
			t.Errorf("%s is %q, and %s is %q", c.a, a, c.b, b)
		}
	}
	for _, c := range []struct{ a, b string }{
		{"x --a", "x --b"},
		{"su a -c x", "su b -c x"},
		{"A=1 x", "A=2 x"},
		{"sudo -u a x", "sudo -u b x"},
		{"a; b", "a"},
		{"php a.php", "php b.php"},
		{"bash /a", "bash /b"},
		{"env A=1 x", "x"},
		{"runuser -u a -- x", "runuser -u b -- x"},
	} {
		if both := Read("", c.a).Essence(); both == Read("", c.b).Essence() {
			t.Errorf("%s and %s are both %q", c.a, c.b, both)
		}
	}
}

func TestLocks(t *testing.T) {
	t.Parallel()
	for script, want := range map[string]string{
		"flock -n /var/run/db.lock x":                "db.lock",
		"cd /x && flock -w 5 db.lock -c 'x'":         "db.lock",
		"sh -c 'exec 9>/run/db.lock; flock -n 9; x'": "db.lock",
		"(flock -n 9; x) 9>>/run/db.lock":            "db.lock",
		"lockrun --lockfile=/run/db.lock -- x":       "db.lock",
		"setlock -nx /run/db.lock x":                 "db.lock",
		"consul lock -n 1 locks/db x":                "db",
		"etcdctl lock db x":                          "db",
		"etcdctl get db":                             "",
		"timeout 5 x":                                "",
	} {
		if _, names := Read("", script).Locks(); strings.Join(names, " ") != want {
			t.Errorf("%s: got %q, want %q", script, names, want)
		}
	}
}
