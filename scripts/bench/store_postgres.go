package main

import (
	"fmt"
	"path/filepath"
	"syscall"
)

// startPostgres starts a PostgreSQL as initdb makes it: it syncs to disk, and asks nobody on this host for a password.
func startPostgres(s *server) error {
	// It takes its processes and its piece of shared memory with it; one that is killed leaves the latter for ever.
	s.ending = syscall.SIGQUIT
	if err := s.unprivileged("postgres", "nobody"); err != nil {
		return err
	}
	data := filepath.Join(s.dir, "data")
	initdb, err := s.command("initdb", "--pgdata", data, "--username", "postgres", "--encoding", "UTF8", "--no-locale")
	if err != nil {
		return err
	}
	if err := initdb.Run(); err != nil {
		return fmt.Errorf("initdb: %w", err)
	}
	if err := s.launch("postgres", "-D", data, "-h", "127.0.0.1", "-p", port(s.addr), "-k", ""); err != nil { // no socket
		return err
	}
	s.url = s.database() + "&longest-ttl=15s"
	return await(func() error {
		ask, err := s.command("psql", "--no-psqlrc", "--quiet", s.database(), "--command", "SELECT 1")
		if err != nil {
			return err
		}
		return ask.Run()
	})
}

// database is the one that all use, for psql. The password is never asked for.
func (s *server) database() string {
	return "postgres://postgres:none@" + s.addr + "/postgres?sslmode=disable"
}

// The lines of shell that people write, with an advisory lock in place of a lease: a session of psql holds it until the
// command has ended. psql is $0, the server $1, and the command is the rest.
const (
	// A lock that is taken leaves the command out.
	psqlTries = `psql=$0 server=$1; shift; exec "$psql" -qX "$server" <<END
SELECT pg_try_advisory_lock(hashtext('%s')) AS mine \gset
\if :mine
\! exec $*
\endif
END`
	psqlWaits = `psql=$0 server=$1; shift; exec "$psql" -qX -o /dev/null "$server" \
-c "SELECT pg_advisory_lock(hashtext('%s'))" -c "\! exec $*"`
)

func psqlWay(s *server) (way, error) {
	psql, err := program("psql")
	line := func(shape, job string) []string {
		return []string{"sh", "-c", fmt.Sprintf(shape, job), psql, s.database()}
	}
	return way{
		run:   line(psqlTries, "bench"),
		queue: func(job string) []string { return line(psqlWaits, job) },
	}, err
}
