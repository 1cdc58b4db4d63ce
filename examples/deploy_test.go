package examples

import (
	"fmt"
	"strings"
	"testing"

	"github.com/leaderrun/leaderrun/test/servers"
)

// Two hosts deploy at once: both may start the release only after the migration, which ran alone and did
// something once.
func TestDeploy(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.tool("shop-migrate",
		`mkdir $DIR/migrating || { echo "two migrations at once" >>$DIR/log; exit 1; }`,
		`if test -e $DIR/version-2; then echo "nothing to do" >>$DIR/log; else echo "migrating" >>$DIR/log;`,
		`while ! test -e $DIR/go; do sleep 0.01; done; touch $DIR/version-2; fi`,
		`rmdir $DIR/migrating`)
	script := absolute(t, "deploy/migrate.sh")
	deploy := script + `; code=$?; test -e $DIR/version-2 && echo "release started"; exit $code`

	one := w.start(w.env, "", "sh", "-c", deploy)
	w.until("log", "migrating")
	two := w.start(w.with("LEADERRUN_LOG_LEVEL=info"), "", "sh", "-c", deploy)
	two.says("standing by behind ")
	// A third one has no patience.
	w.start(w.with("MIGRATE_WAIT=100ms"), "", script).
		expect(76, "migrate: another host is still at it (leaderrun status migrate-shop); nothing was changed\n")
	w.write("go", "")
	one.expect(0, "release started\n")
	if code, output := two.wait(); code != 0 || !strings.HasSuffix(output, "release started\n") {
		t.Errorf("the second host: code %d, %s", code, output)
	}
	if got := w.read("log"); got != "migrating\nnothing to do\n" {
		t.Errorf("the log has %q", got)
	}
}

func TestDeployFailures(t *testing.T) {
	t.Parallel()
	closed := fmt.Sprintf("redis://127.0.0.1:%d", servers.FreePort(t))
	for _, c := range []struct {
		name, migrate string
		env           []string
		code          int
		says          string
	}{
		{"migration", "exit 3", nil, 3, "migrate: it failed with code 3\n"},
		{"signal", "kill -9 $$", nil, 137, "migrate: it failed with code 137\n"},
		{"usage", "", []string{"MIGRATE_WAIT=soon"}, 64, "migrate: leaderrun could not run it, see above\n"},
		{"configuration", "", []string{"LEADERRUN_TTL=1s"}, 78, "migrate: leaderrun could not run it, see above\n"},
		{
			"unreachable", "",
			[]string{"MIGRATE_WAIT=100ms"},
			69,
			"migrate: nobody can say whether another host migrates right now; nothing was changed\n",
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			w.tool("shop-migrate", c.migrate)
			if c.name == "unreachable" {
				w.write("backend", closed)
			}
			code, output := w.start(w.with(c.env...), "", absolute(t, "deploy/migrate.sh")).wait()
			if code != c.code || !strings.HasSuffix(output, c.says) {
				t.Errorf("code %d, want %d, and it says %q", code, c.code, output)
			}
		})
	}
}
