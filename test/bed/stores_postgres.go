package bed

import (
	"errors"
	"net/url"
	"syscall"
	"testing"
	"time"

	"github.com/leaderrun/leaderrun/test/hosts"
	"github.com/leaderrun/leaderrun/test/servers"
)

// postgresLines keep a server small. What a power cut leaves half open takes up connections for hours.
var postgresLines = []string{"max_connections = 80", "max_wal_size = 32MB", "checkpoint_timeout = 30s"}

func startPostgres(t testing.TB, n *hosts.Network) *Running {
	t.Helper()
	d, c := newDisk(t, "192m"), newClock(t)
	at := n.At("s")
	at.Dir, at.Env = d.dir, c.Environment()
	s := servers.Postgres(t, servers.PostgresOptions{At: at, Lines: postgresLines, Init: []string{"--wal-segsize", "1"}})
	x := siteOf(n, s)
	a := postgresAdmin(func(testing.TB) *servers.PostgresServer { return s })
	d.strain = func() error { return fillLog(s) }
	r := x.running(postgresURL(s), postgresQuery)
	r.Quarantine = usualTTL
	restored := x.restored()
	restored.Excused = false // it is told by the server's start
	r.Faults = join(x.faultsOfOne(usualTTL), []Fault{x.diskLost(false), restored, x.outOfFiles(), x.shutDown(theServer)},
		a.faults(), []Fault{a.crowded(x), a.locked(x)}, pastLease(usualTTL, a.locked(x)), c.faults(x),
		pastLease(usualTTL, d.full(x)...))
	return r
}

// startPostgresReplicas starts a primary with two standbys, one of which has to confirm each commit.
func startPostgresReplicas(t testing.TB, n *hosts.Network) *Running {
	t.Helper()
	set := servers.PostgresReplicas(t, 1, onThree(n, func(at servers.At) servers.PostgresOptions {
		return servers.PostgresOptions{At: at, Lines: postgresLines}
	})...)
	x := siteOfMany(n, set.Members, set.Leader, set.Whole, 0)
	r := x.running(postgresURL(set.Members[0]), postgresQuery)
	r.Quarantine = usualTTL
	r.Faults = join(x.faultsOfMany(usualTTL), postgresAdmin(set.Leader).faults(), []Fault{x.shutDown(theLeader)},
		x.failovers(set))
	return r
}

var postgresQuery = "/postgres?sslmode=disable&longest-ttl=" + usualTTL.String()

// postgresURL is how the URL of a server begins, up to its host.
func postgresURL(s *servers.PostgresServer) string {
	return "postgres://" + url.UserPassword("postgres", s.Password).String() + "@"
}

// fillLog writes until the log has no room for more, or until there is no doubt that it has.
func fillLog(s *servers.PostgresServer) error {
	for range 100 {
		_, err := s.Try("SELECT pg_logical_emit_message(true, 'filler', repeat('x', 1 << 20))")
		if err != nil {
			return nil //nolint:nilerr // that is what was asked for
		}
	}
	return errors.New("the log has no end")
}

// shutDown is a server that is told to end its connections and itself, and returns with its data.
func (x *site) shutDown(who target) Fault {
	f := x.hit(who, "shut down", func(b *Bed, hit []int) (func() error, error) {
		return func() error {
			for _, i := range hit {
				servers.Eventually(b.T, "the server ends", x.servers[i].Ended)
			}
			return nil
		}, x.signal(hit, syscall.SIGINT)
	})
	f.Peers = false
	return f
}

// failovers are faults of the primary during which somebody promotes a standby. The old primary takes itself for what it
// was until it is made a standby.
func (x *site) failovers(set *servers.PostgresSet) []Fault {
	alone := *x
	alone.agree = nil // nobody follows the old primary any more
	faults := []Fault{
		alone.stopped(theLeader), alone.killed(theLeader), alone.dropped(theLeader), alone.cutOff(),
		alone.fault(Fault{Name: "leader in its place", Peers: true}, func(*Bed) (func() error, error) { return nil, nil }),
	}
	for i, f := range faults {
		faults[i].Name += ", a standby promoted"
		faults[i].Strike = func(b *Bed, v Victim) (func() error, error) {
			old := set.Leader(b.T)
			heal, err := f.Strike(b, v)
			if err != nil {
				return nil, err
			}
			set.Failover(b.T)
			return func() error {
				if err := heal(); err != nil {
					return err
				}
				time.Sleep(usualTTL / 2) // in which hosts meet two primaries
				set.Rejoin(b.T, old)
				return x.whole(b.T)
			}, nil
		}
	}
	return faults
}
