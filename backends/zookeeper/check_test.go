package zookeeper

import (
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/leaderrun/leaderrun/backends"
	"github.com/leaderrun/leaderrun/internal/checkup"
	"github.com/leaderrun/leaderrun/test/servers"
)

// grades checks that findings have a grade each; none: there is no such finding.
func grades(t *testing.T, found []backends.Finding, want map[string]backends.Grade) {
	t.Helper()
	got := map[string]backends.Grade{}
	for _, f := range found {
		got[f.What] = f.Grade
	}
	for what, grade := range want {
		if got[what] != grade {
			t.Errorf("%s: %q, want %q: %+v", what, got[what], grade, found)
		}
	}
}

func TestExamine(t *testing.T) {
	w := newWorld(t)
	found := w.d.Examine(t.Context(), 15*time.Second)
	grades(t, found, map[string]backends.Grade{
		checkup.Reachable: backends.Fine, "ensemble": backends.Warning, "role": backends.Fine, "sessions": backends.Fine,
		checkup.Rights: backends.Fine, "acl": "",
	})
	if _, err := w.server.Get("/leaderrun"); err == nil {
		t.Error("it made a node")
	}
	w.Finish(w.d, w.Acquire(w.d, newClaim("job")))
	found = w.d.Examine(t.Context(), 100*time.Millisecond)
	grades(t, found, map[string]backends.Grade{"sessions": backends.Warning, checkup.Rights: backends.Fine, "acl": backends.Warning})

	at := strings.Replace(w.server.URL(), "://", "://u:"+url.PathEscape(secret)+"@", 1) + "/closed"
	mine := open(t, at)
	w.Finish(mine, w.Acquire(mine, newClaim("job")))
	grades(t, mine.Examine(t.Context(), 15*time.Second), map[string]backends.Grade{checkup.Rights: backends.Fine, "acl": backends.Fine})
	for _, stranger := range []string{w.server.URL() + "/closed", strings.Replace(at, "u:", "x:", 1)} {
		d := open(t, stranger)
		grades(t, d.Examine(t.Context(), 15*time.Second), map[string]backends.Grade{checkup.Rights: backends.Bad})
		_, err := d.Acquire(t.Context(), newClaim("job"))
		if !backends.IsPermanent(err) || strings.Contains(err.Error(), "hunter2") {
			t.Errorf("Acquire: %v", err)
		}
	}
}

// TestExamineTwoEnsembles: servers that know nothing of each other would both give the lease.
func TestExamineTwoEnsembles(t *testing.T) {
	servers.SkipShort(t)
	w := newWorld(t)
	stranger := servers.ZooKeeper(t, servers.ZooKeeperOptions{})
	d := open(t, w.server.URL()+","+stranger.Addr())
	grades(t, d.Examine(t.Context(), 5*time.Second), map[string]backends.Grade{checkup.Reachable: backends.Fine, "ensemble": backends.Bad})
}
