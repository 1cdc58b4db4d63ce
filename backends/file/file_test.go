package file

import (
	"encoding/json"
	"os"
	"slices"
	"syscall"
	"testing"
	"time"

	"github.com/leaderrun/leaderrun/backends"
	"github.com/leaderrun/leaderrun/internal/filesystem"
	"github.com/leaderrun/leaderrun/internal/flock"
	"github.com/leaderrun/leaderrun/test/suite"
)

const noServer = "there is no server"

func TestConformance(t *testing.T) {
	dir := t.TempDir()
	suite.Run(t, suite.Harness{
		Open: func(t testing.TB) backends.Backend { return openDir(t, dir) },
		TTL:  500 * time.Millisecond,
		Expire: func(t testing.TB, g backends.Grant) {
			for _, f := range slices.Concat(g.Hold, g.Inherit) {
				if err := f.Close(); err != nil {
					t.Fatal(err)
				}
			}
		},
		DeleteLease:  func(t testing.TB, job string) { removeLocks(t, pathsIn(dir, job)) },
		DeleteRecord: func(t testing.TB, job string) { remove(t, pathsIn(dir, job).record) },
		Change: func(t testing.TB, job string, change func(r *backends.Record)) {
			p := pathsIn(dir, job)
			r := readRecord(t, p)
			change(&r)
			if err := p.replace(r, false); err != nil {
				t.Fatal(err)
			}
		},
		Stall: func(t testing.TB) func() { return stall(t, dir) },
		Lacks: map[string]string{
			"Between": "a request has the job's lock from its Read to its Swap",
			"Empty":   "with lock and record gone nothing tells of a run", "Restart": noServer, "RestartEmpty": noServer,
		},
	})
}

// driver is an engine, and the store below it.
type driver struct {
	*backends.Engine
	store *store
}

func newDriver(dir string) (*driver, error) {
	s, err := open(dir, ourselves, filesystem.Network)
	if err != nil {
		return nil, err
	}
	return &driver{backends.NewEngine(s), s}, nil
}

func openDir(t testing.TB, dir string) *driver {
	t.Helper()
	d, err := newDriver(dir)
	if err != nil {
		t.Fatal(err)
	}
	return d
}

func removeLocks(t testing.TB, p paths) {
	t.Helper()
	remove(t, p.lock)
	remove(t, p.tree)
}

// unlockAsGuardian is what the guardian of a run does once its tree is dead.
func unlockAsGuardian(t *testing.T, g backends.Grant) {
	t.Helper()
	for _, f := range slices.Concat(g.Inherit, g.Hold) {
		if err := flock.Ask(f, syscall.LOCK_UN); err != nil {
			t.Fatal(err)
		}
	}
}

// leaseOf is what this process has of a grant.
func leaseOf(t *testing.T, g backends.Grant) *lease {
	t.Helper()
	s := of(backends.CacheOf(g).Last())
	if s == nil || s.granted == nil {
		t.Fatalf("nothing is known of the grant: %+v", s)
	}
	return s.granted
}

func pathsIn(dir, job string) paths { return (&store{dir: dir}).paths(job) }

func remove(t testing.TB, path string) {
	t.Helper()
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
}

// readRecord reads a record as it is in its file.
func readRecord(t testing.TB, p paths) backends.Record {
	t.Helper()
	text, err := os.ReadFile(p.record)
	if err != nil {
		t.Fatal(err)
	}
	var r backends.Record
	if err := json.Unmarshal(text, &r); err != nil {
		t.Fatal(err)
	}
	return r
}

// stall takes the turn of every job there is, as a process does that was stopped in the middle of a step.
func stall(t testing.TB, dir string) (resume func()) {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	var turns []*os.File
	for _, entry := range entries {
		path := dir + "/" + entry.Name()
		if len(path) < len(beatSuffix) || path[len(path)-len(beatSuffix):] != beatSuffix {
			continue
		}
		f, err := ourselves.waitLock(t.Context(), path, 0)
		if err != nil {
			t.Fatal(err)
		}
		turns = append(turns, f)
	}
	return func() {
		for _, f := range turns {
			_ = flock.Ask(f, syscall.LOCK_UN)
			_ = f.Close()
		}
		turns = nil
	}
}
