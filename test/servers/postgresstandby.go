package servers

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
)

// PostgresSet is a PostgreSQL server with standbys that stream from it. Nobody fails over but the test.
type PostgresSet struct {
	Members []*PostgresServer

	confirm int // how many standbys confirm each commit
	mutex   sync.Mutex
	primary *PostgresServer
}

// PostgresReplicas starts a primary, the first of the members, and its standbys. As many of them as confirm says must have
// each commit on their disk before it is one; with 0 none.
func PostgresReplicas(t testing.TB, confirm int, members ...PostgresOptions) *PostgresSet {
	t.Helper()
	SkipShort(t)
	set := &PostgresSet{confirm: confirm}
	for _, o := range members {
		set.Members = append(set.Members, newPostgres(t, o))
	}
	tellAll(t, len(set.Members), func(i int) (string, *Process) { return set.name(set.Members[i]), set.Members[i].Process })
	first := set.Members[0]
	set.primary = first
	for _, m := range set.Members {
		m.Password = first.Password // which is part of the data
	}
	set.plan(first, nil, 0) // it could not even be asked before there are standbys
	first.start(t)
	for _, m := range set.Members[1:] {
		set.clone(t, m)
	}
	set.lead(t, first)
	set.Agreed(t)
	return set
}

// name is what a member is called by the others.
func (s *PostgresSet) name(m *PostgresServer) string {
	return fmt.Sprintf("m%d", slices.Index(s.Members, m))
}

// plan says for the configuration of a member whom it follows, nobody if it leads, and how many of the others confirm what it
// commits when it leads.
func (s *PostgresSet) plan(m, follows *PostgresServer, confirm int) {
	conn, sync := "", ""
	if follows != nil {
		conn = fmt.Sprintf("host=%s port=%d user=postgres password=%s application_name=%s connect_timeout=2 sslmode=prefer",
			follows.place.host(), follows.Port, follows.Password, s.name(m))
	}
	if confirm > 0 {
		var others []string
		for _, o := range s.Members {
			if o != m {
				others = append(others, s.name(o))
			}
		}
		sync = fmt.Sprintf("ANY %d (%s)", confirm, strings.Join(others, ", "))
	}
	m.role = []string{
		"primary_conninfo = '" + conn + "'", "synchronous_standby_names = '" + sync + "'", "wal_keep_size = 256MB",
		// A member that is cut off is noticed, and asked again, within seconds.
		"wal_sender_timeout = 2s", "wal_receiver_timeout = 2s", "wal_retrieve_retry_interval = 100ms",
	}
}

// clone makes a member a standby of the primary, with the primary's data.
func (s *PostgresSet) clone(t testing.TB, m *PostgresServer) {
	t.Helper()
	primary := s.Leader(t)
	m.Kill()
	m.wipe(t)
	m.own(t)
	// By the socket, which leads there from every host. A copy may pause for longer than a standby may.
	m.finish(t, "pg_basebackup", "-d", "options='-c wal_sender_timeout=2min'", "-D", m.Data(), "-h", primary.Socket(),
		"-p", fmt.Sprint(primary.Port), "-U", "postgres", "--checkpoint", "fast", "--no-sync")
	s.plan(m, primary, s.confirm)
	m.configure(t)
	m.write(t, "standby.signal", "")
	m.start(t)
}

// lead has the primary wait for its standbys from now on.
func (s *PostgresSet) lead(t testing.TB, m *PostgresServer) {
	t.Helper()
	s.mutex.Lock()
	s.primary = m
	s.mutex.Unlock()
	s.plan(m, nil, min(s.confirm, len(s.Members)-1))
	m.reload(t)
}

// reload has a server read its configuration again.
func (s *PostgresServer) reload(t testing.TB) {
	t.Helper()
	s.configure(t)
	if err := s.Signal(syscall.SIGHUP); err != nil {
		t.Fatal(err)
	}
}

// URL returns the address of the database postgres that names all members.
func (s *PostgresSet) URL() string {
	var hosts []string
	for _, m := range s.Members {
		hosts = append(hosts, m.Addr())
	}
	return s.Members[0].URLAt(strings.Join(hosts, ","))
}

// Leader returns the member that was last made the primary.
func (s *PostgresSet) Leader(testing.TB) *PostgresServer {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	return s.primary
}

// Standbys returns the others.
func (s *PostgresSet) Standbys(t testing.TB) []*PostgresServer {
	t.Helper()
	leader := s.Leader(t)
	return slices.DeleteFunc(slices.Clone(s.Members), func(m *PostgresServer) bool { return m == leader })
}

// Whole asks whether all other members stream from the primary, and as many as should confirm its commits.
func (s *PostgresSet) Whole() error {
	const ask = `SELECT pg_is_in_recovery() || ' ' || count(*) FILTER (WHERE state = 'streaming') || ' ' ||
		count(*) FILTER (WHERE sync_state IN ('sync', 'quorum')) FROM pg_stat_replication`
	text, err := s.Leader(nil).ask(statusTimeout, ask)
	if err != nil {
		return err
	}
	var recovers string
	var streaming, confirming int
	if _, err := fmt.Sscan(text, &recovers, &streaming, &confirming); err != nil {
		return err
	}
	switch {
	case recovers != "false":
		return errors.New("the primary is a standby")
	case streaming != len(s.Members)-1:
		return fmt.Errorf("%d standbys stream", streaming)
	case s.confirm > 0 && confirming != streaming:
		return fmt.Errorf("%d standbys are asked to confirm", confirming)
	}
	return nil
}

// Agreed waits until the set is whole, and returns the primary.
func (s *PostgresSet) Agreed(t testing.TB) *PostgresServer {
	t.Helper()
	Eventually(t, "all standbys stream from the primary", func() bool { return s.Whole() == nil })
	return s.Leader(t)
}

// Detach has a standby follow nobody. What the primary commits from now on is not there.
func (s *PostgresSet) Detach(t testing.TB, m *PostgresServer) {
	t.Helper()
	s.plan(m, nil, s.confirm)
	m.reload(t)
	Eventually(t, "the standby streams no more", func() bool {
		n, err := m.ask(statusTimeout, "SELECT count(*) FROM pg_stat_wal_receiver")
		return err == nil && n == "0"
	})
}

// Attach has a standby follow the primary again.
func (s *PostgresSet) Attach(t testing.TB, m *PostgresServer) {
	t.Helper()
	s.plan(m, s.Leader(t), s.confirm)
	m.reload(t)
}

// Failover makes the standby that knows most the primary, as a manager does who can reach all standbys: none of them confirms
// anything to the old primary any more. That one may be gone, or go on, and has to be told by Rejoin.
func (s *PostgresSet) Failover(t testing.TB) *PostgresServer {
	t.Helper()
	standbys := s.Standbys(t)
	for _, m := range standbys {
		s.Detach(t, m)
	}
	best, most := standbys[0], int64(-1)
	for _, m := range standbys {
		// What it received and has not applied yet, it applies before it leads.
		const known = `SELECT (coalesce(greatest(pg_last_wal_receive_lsn(), pg_last_wal_replay_lsn()), '0/0') - '0/0')::bigint`
		var n int64
		if _, err := fmt.Sscan(m.Do(t, known), &n); err != nil {
			t.Fatal(err)
		}
		if n > most {
			best, most = m, n
		}
	}
	s.Promote(t, best)
	for _, m := range standbys {
		if m != best {
			s.Attach(t, m)
		}
	}
	return best
}

// Promote makes a standby the primary, whatever it knows. It waits for the others to confirm if enough of them are left beside
// the old primary; else it commits alone until that one is back.
func (s *PostgresSet) Promote(t testing.TB, m *PostgresServer) {
	t.Helper()
	s.plan(m, nil, min(s.confirm, len(s.Members)-2))
	m.reload(t)
	m.Do(t, "SELECT pg_promote(true, 60)")
	s.mutex.Lock()
	defer s.mutex.Unlock()
	s.primary = m
}

// Rejoin makes a member that has led, or knows what no other does, a standby of the primary, and waits until the set is whole.
func (s *PostgresSet) Rejoin(t testing.TB, m *PostgresServer) {
	t.Helper()
	s.clone(t, m)
	s.lead(t, s.Leader(t))
	s.Agreed(t)
}
