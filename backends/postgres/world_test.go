package postgres

import (
	"context"
	"testing"

	"github.com/leaderrun/leaderrun/backends/postgres/wire"
	"github.com/leaderrun/leaderrun/test/servers"
	"github.com/leaderrun/leaderrun/test/suite"
)

// world is a server with an operator and two hosts.
type world struct {
	suite.Steps
	operator operator
	d, other *driver
	server   *servers.PostgresServer
	url      string
}

// newWorld takes a database of a server that tests share, and makes the test parallel.
func newWorld(t *testing.T) *world {
	t.Helper()
	t.Parallel()
	return worldOf(t, servers.SharedPostgres(t), "")
}

// newOwnWorld is newWorld for a test that stops its server or starts it again, or that is about how long it has been there.
func newOwnWorld(t *testing.T) *world {
	t.Helper()
	t.Parallel()
	return worldOf(t, servers.Postgres(t, servers.PostgresOptions{}), "")
}

// worldOf is a server that nobody takes for a new one.
func worldOf(t *testing.T, s *servers.PostgresServer, url string) *world {
	t.Helper()
	if url == "" {
		url = s.URL()
	}
	w := &world{Steps: suite.On(t), operator: operator{open(t, s.URL()), s}, d: open(t, url), other: open(t, url), server: s, url: url}
	w.operator.trust(t)
	return w
}

// lock takes the lock of a job's row, as a person does who began a transaction and went for lunch.
func (w *world) lock(job string) (unlock func()) {
	w.Helper()
	unlock, err := w.server.Session("BEGIN; SELECT FROM leaderrun WHERE job =" + literal(keyOf(job)) + " FOR UPDATE")
	if err != nil {
		w.Fatal(err)
	}
	return unlock
}

// waiting waits until so many processes of the database wait for a lock.
func (w *world) waiting(n string) {
	w.Helper()
	servers.Eventually(w, n+" wait for a lock", func() bool {
		return w.server.Do(w, "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'") == n
	})
}

// between lets a test act before and after each request of a driver, which is "read", "write", "mark" (a write of it) or something else.
type between struct {
	client
	sql    *statements
	before func(request string)
	after  func(request string) error // an error: the reply is lost
}

func intercept(d *driver, before func(string), after func(string) error) {
	d.store.client = &between{client: d.store.client, sql: &d.store.sql, before: before, after: after}
}

func (b *between) Ask(ctx context.Context, batch []wire.Statement, check func(wire.Reply) error) (wire.Reply, error) {
	request := "else"
	switch last := batch[len(batch)-1]; last.SQL {
	case b.sql.read:
		request = "read"
	case b.sql.insert, b.sql.update:
		request = "write"
		if last.Args[theKey].Text == markKey {
			request = "mark"
		}
	}
	if b.before != nil {
		b.before(request)
	}
	reply, err := b.client.Ask(ctx, batch, check)
	if b.after != nil {
		if lost := b.after(request); lost != nil {
			return wire.Reply{}, lost
		}
	}
	return reply, err
}
