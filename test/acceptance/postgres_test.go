package acceptance

import (
	"testing"

	"github.com/leaderrun/leaderrun/test/servers"
)

const longestHere = "&longest-ttl="

var postgresFaults = []fault[*servers.PostgresServer]{
	{
		name: "holder taken out", code: 75,
		strike: func(b *bed, s *servers.PostgresServer, _ *wrapper) {
			changeRow(b, s, "UPDATE leaderrun SET holder = NULL, token = NULL")
		},
	},
	{
		name: "holder replaced", code: 75,
		strike: func(b *bed, s *servers.PostgresServer, _ *wrapper) {
			changeRow(b, s, "UPDATE leaderrun SET holder = 'an operator'")
		},
	},
	{
		name: "server stopped", code: 75,
		strike: func(b *bed, s *servers.PostgresServer, _ *wrapper) { s.Stop(b.t) },
		mend: func(b *bed, s *servers.PostgresServer, w *wrapper) {
			w.wait()
			s.Cont(b.t)
		},
	},
	{
		name: "server killed, and later back with its data", code: 75,
		strike: func(_ *bed, s *servers.PostgresServer, _ *wrapper) { s.Kill() },
		mend: func(b *bed, s *servers.PostgresServer, w *wrapper) {
			w.wait()
			s.Restart(b.t, true)
		},
	},
	{
		name: "server restarted empty", code: 75,
		strike: func(b *bed, s *servers.PostgresServer, _ *wrapper) { s.Restart(b.t, false) },
	},
}

// changeRow changes the row of the job, whose lease somebody has.
func changeRow(b *bed, s *servers.PostgresServer, update string) {
	b.t.Helper()
	if got := s.Do(b.t, update+" WHERE job = 'job' AND holder IS NOT NULL RETURNING job"); got != "job" {
		b.t.Fatalf("%s has changed nothing", update)
	}
}

func TestFaultsOnPostgres(t *testing.T) {
	t.Parallel()
	servers.SkipShort(t)
	for _, f := range postgresFaults {
		t.Run(f.name, func(t *testing.T) {
			t.Parallel()
			s := servers.Postgres(t, servers.PostgresOptions{})
			strike(newBed(t, s.URL()+longestHere+ttl.String()), s, f)
		})
	}
}

// What takes a run's connections away, or keeps others from coming, costs it nothing as long as the server serves somebody again
// within the lease.
func TestRunOutlivesItsConnections(t *testing.T) {
	t.Parallel()
	servers.SkipShort(t)
	const ours = "backend_type = 'client backend' AND pid <> pg_backend_pid()"
	for name, strike := range map[string]func(t *testing.T, s *servers.PostgresServer){
		"terminated": func(t *testing.T, s *servers.PostgresServer) {
			t.Helper()
			if got := s.Do(t, "SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity WHERE "+ours); got == "0" {
				t.Error("there were none")
			}
		},
		"server restarted": func(t *testing.T, s *servers.PostgresServer) {
			t.Helper()
			s.Restart(t, true)
		},
		"nobody else is let in": func(t *testing.T, s *servers.PostgresServer) {
			t.Helper()
			leave, err := s.Crowd()
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(leave)
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := servers.Postgres(t, servers.PostgresOptions{Lines: []string{"max_connections = 20"}})
			b := newBed(t, s.URL()+longestHere+longTTL.String())
			b.ttl = longTTL
			w := b.holder()
			old := b.last()
			strike(t, s)
			b.survives(w, old.token)
		})
	}
}

// A run behind PgBouncer survives that it is restarted, and is dead in time if it stays away.
func TestPgBouncerKilled(t *testing.T) {
	t.Parallel()
	servers.SkipShort(t)
	servers.Require(t, "pgbouncer")
	server := servers.Postgres(t, servers.PostgresOptions{})
	pool := servers.PgBouncer(t, server, servers.PgBouncerOptions{})
	b := newBed(t, pool.URL()+longestHere+longTTL.String())
	b.ttl = longTTL
	w := b.holder()
	old := b.last()
	pool.Restart(t)
	b.survives(w, old.token)
	w.end()

	strike(newBed(t, pool.URL()+"&prefix=other"+longestHere+ttl.String()), pool, fault[*servers.PgBouncerServer]{
		code:   75,
		strike: func(_ *bed, p *servers.PgBouncerServer, _ *wrapper) { p.Kill() },
		mend: func(b *bed, p *servers.PgBouncerServer, w *wrapper) {
			w.wait()
			p.Restart(b.t)
		},
	})
}

// With a standby that confirms each commit a run survives a failover, also where the old primary goes on.
func TestFailoverToASynchronousStandby(t *testing.T) {
	t.Parallel()
	servers.SkipShort(t)
	for name, strike := range map[string]func(t *testing.T, old *servers.PostgresServer){
		"killed":       func(_ *testing.T, old *servers.PostgresServer) { old.Kill() },
		"stopped":      func(t *testing.T, old *servers.PostgresServer) { t.Helper(); old.Stop(t) },
		"in its place": func(*testing.T, *servers.PostgresServer) {},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			set := servers.PostgresReplicas(t, 1, make([]servers.PostgresOptions, 3)...)
			old := set.Leader(t)
			b := newBed(t, set.URL()+longestHere+longTTL.String())
			b.ttl = longTTL
			w := b.holder()
			run := b.last()
			b.newcomers()
			strike(t, old)
			set.Failover(t)
			b.survives(w, run.token)
			set.Rejoin(t, old)
			b.survives(w, run.token)
		})
	}
}

// A standby that lags is promoted, and has never heard of the lease. Nobody starts before the run is dead.
func TestFailoverThatForgetsTheLease(t *testing.T) {
	t.Parallel()
	servers.SkipShort(t)
	set := servers.PostgresReplicas(t, 0, make([]servers.PostgresOptions, 2)...)
	old, standby := set.Members[0], set.Members[1]
	probe := newBed(t, set.URL()+longestHere+ttl.String())
	if a := probe.run(nil, "true"); a.code != 0 { // the table
		t.Fatal(a)
	}
	set.Agreed(t)
	servers.Eventually(t, "the standby has the table", func() bool {
		_, err := standby.Try("SELECT * FROM leaderrun")
		return err == nil
	})
	set.Detach(t, standby)
	strike(newBed(t, set.URL()+longestHere+ttl.String()), set, fault[*servers.PostgresSet]{
		code: 75,
		strike: func(b *bed, set *servers.PostgresSet, _ *wrapper) {
			old.Kill()
			set.Promote(b.t, standby)
			if got := standby.Do(b.t, "SELECT count(*) FROM leaderrun WHERE holder IS NOT NULL"); got != "0" {
				b.t.Errorf("the standby knows of %s leases, want none", got)
			}
		},
	})
}
