package bed

import (
	"testing"

	"github.com/leaderrun/leaderrun/test/servers"
)

// postgresAdmin does what people do to a PostgreSQL: to the primary that it returns.
type postgresAdmin func(t testing.TB) *servers.PostgresServer

// ofHolder is the row of a lease while somebody has it.
func ofHolder(lease string) string {
	return " WHERE job = '" + inPath(lease) + "' AND holder IS NOT NULL RETURNING job"
}

func (a postgresAdmin) faults() []Fault {
	return []Fault{
		emptied(true, func(t testing.TB) error { return a.do(t, "TRUNCATE leaderrun") }),
		// Without its row nobody knows that the job was ever run.
		forgetting(a.changed("row deleted", "DELETE FROM leaderrun")),
		// An operator says that the holder is dead, and is wrong.
		excused(a.changed("lease ended by hand", "UPDATE leaderrun SET until = clock_timestamp() - interval '1 hour'")),
		a.changed("holder taken out", "UPDATE leaderrun SET holder = NULL, token = NULL"),
		a.changed("holder replaced", "UPDATE leaderrun SET holder = 'an operator'"),
		a.terminated(),
	}
}

func (a postgresAdmin) do(t testing.TB, query string) error {
	t.Helper()
	_, err := a(t).Try(query)
	return err
}

// changed is a statement about the row of a lease.
func (a postgresAdmin) changed(name, query string) Fault {
	return once(name, func(t testing.TB, lease string) error {
		text, err := a(t).Try(query + ofHolder(lease))
		if err == nil && text == "" {
			err = errNoLease
		}
		return err
	})
}

// terminated ends all connections. What was asked on them may have been done or not.
func (a postgresAdmin) terminated() Fault {
	return Fault{
		Name: "connections terminated", OnServer: true, Once: true, Peers: true,
		Strike: func(b *Bed, _ Victim) (func() error, error) {
			return nil, a.do(b.T, "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE backend_type = 'client backend' AND pid <> pg_backend_pid()")
		},
	}
}

// crowded is a server that has as many connections as it takes. Whoever has one keeps it.
func (a postgresAdmin) crowded(x *site) Fault {
	return x.fault(Fault{Name: "no connections left", Peers: true}, func(b *Bed) (func() error, error) {
		leave, err := a(b.T).Crowd()
		return after(leave), err
	})
}

// locked is a table that somebody locks as a whole, as VACUUM FULL and some ALTER TABLE do.
func (a postgresAdmin) locked(x *site) Fault {
	return x.fault(Fault{Name: "table locked"}, func(b *Bed) (func() error, error) {
		unlock, err := a(b.T).Session("BEGIN; SET LOCAL lock_timeout = '10s'; LOCK TABLE leaderrun IN ACCESS EXCLUSIVE MODE")
		return after(unlock), err
	})
}

// after is what ends a fault by an end that cannot fail; nil: nothing has begun.
func after(end func()) func() error {
	if end == nil {
		return nil
	}
	return func() error { end(); return nil }
}
