package zookeeper

import (
	"testing"
	"time"

	"github.com/leaderrun/leaderrun/backends"
	"github.com/leaderrun/leaderrun/backends/zookeeper/wire"
	"github.com/leaderrun/leaderrun/test/servers"
	"github.com/leaderrun/leaderrun/test/suite"
)

const (
	// longest is the longest session of the servers here: no lease of it runs out during a test.
	longest = 2 * time.Minute
	secret  = "hunter2 /?@:%"
)

// driver is the engine over a store that a test can reach.
type driver struct {
	*backends.Engine
	store *store
}

func newDriver(url string) (*driver, error) {
	s, err := newStore(url)
	if err != nil {
		return nil, err
	}
	return &driver{Engine: backends.NewEngine(s), store: s}, nil
}

func open(t testing.TB, url string) *driver {
	t.Helper()
	return suite.Open(t, newDriver, url)
}

// newClaim returns a claim of a new holder, with a lease that does not run out.
func newClaim(job string) backends.Claim { return suite.NewClaim(job, time.Minute) }

// world is a server with an operator and two hosts.
type world struct {
	suite.Steps
	operator *driver
	d, other *driver
	server   *servers.ZooKeeperServer
}

func newWorld(t *testing.T) *world {
	t.Helper()
	t.Parallel()
	s := servers.ZooKeeper(t, servers.ZooKeeperOptions{MaxSessionTimeout: longest})
	return &world{Steps: suite.On(t), operator: open(t, s.URL()), d: open(t, s.URL()), other: open(t, s.URL()), server: s}
}

// runs checks that so many runs of a job have a token.
func (w *world) runs(job string, want int) {
	w.Helper()
	r := stateOf(w, w.operator, job).record
	if len(r.Runs) != want {
		w.Errorf("%d runs, want %d: %+v", len(r.Runs), want, r.Runs)
	}
}

// nodes are the paths of a job's nodes.
func (w *world) nodes(job string) keys { return w.d.store.cfg.keys(job) }

// expired waits until the lease of a job is gone, because its session is.
func (w *world) expired(job string) {
	w.Helper()
	servers.Eventually(w, "the session ends", func() bool { return !stateOf(w, w.operator, job).held })
}

// sessionOf returns the session that a grant's lease goes with, before the run is over.
func sessionOf(g backends.Grant) *session {
	return of(backends.CacheOf(g).Last()).session
}

// cut breaks the connection of a session.
func cut(s *session) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.conn.Close()
}

// briefly does something with a session that holds nothing.
func (d *driver) briefly(f func(s *session) error) error {
	s := d.store.newIdle(briefly)
	defer s.close()
	return f(s)
}

// stateOf is what the nodes of a job hold.
func stateOf(t testing.TB, d *driver, job string) (now *state) {
	t.Helper()
	if err := d.briefly(func(s *session) (err error) { now, err = s.read(t.Context(), job); return err }); err != nil {
		t.Fatal(err)
	}
	return now
}

// operate does what only a person does.
func operate(t testing.TB, d *driver, ops ...wire.Op) {
	t.Helper()
	if err := operates(t, d, ops...); err != nil {
		t.Fatal(err)
	}
}

// operates is operate for what may fail.
func operates(t testing.TB, d *driver, ops ...wire.Op) error {
	t.Helper()
	call := wire.NewCall(wire.Multi(ops...))
	if err := d.briefly(func(s *session) error { return s.do(t.Context(), call) }); err != nil {
		return err
	}
	return call.Err
}

// ask writes a request to stop into a record that may change at any time.
func edit(t testing.TB, d *driver, job string, change func(r *backends.Record)) {
	t.Helper()
	err := d.briefly(func(s *session) error {
		old, err := s.read(t.Context(), job)
		for done := false; err == nil && !done; {
			w := backends.Write{Record: old.record}
			change(&w.Record)
			old, done, err = s.swap(t.Context(), job, old, w)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
}
