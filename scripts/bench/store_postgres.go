package main

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
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
	err = s.launch("postgres", "-D", data, "-h", "127.0.0.1", "-p", port(s.addr), "-k", "", // no socket
		// Statements to count, and more than 100 connections.
		"-c", "shared_preload_libraries=pg_stat_statements", "-c", "max_connections=2500")
	if err != nil {
		return err
	}
	s.url = s.database() + "&longest-ttl=15s"
	if err := await(func() error { return s.tell("CREATE EXTENSION IF NOT EXISTS pg_stat_statements") }); err != nil {
		return err
	}
	s.counter, err = s.openTeller()
	return err
}

// database is the one that all use, for psql. The password is never asked for.
func (s *server) database() string {
	return "postgres://postgres:none@" + s.addr + "/postgres?sslmode=disable"
}

// psql is what asks the server.
func (s *server) psql(args ...string) (*exec.Cmd, error) {
	return s.command("psql", append([]string{"--no-psqlrc", "--quiet", "--tuples-only", "--no-align", s.database()}, args...)...)
}

// tell has the server do one thing.
func (s *server) tell(statement string) error {
	cmd, err := s.psql("--command", statement)
	if err != nil {
		return err
	}
	return cmd.Run()
}

// postgresCounter is a psql that asks the server what others do.
type postgresCounter struct {
	ask    io.Writer
	answer *bufio.Scanner
}

// openTeller starts what asks the server until it ends.
func (s *server) openTeller() (*postgresCounter, error) {
	cmd, err := s.psql("--set", "ON_ERROR_STOP=1")
	if err != nil {
		return nil, err
	}
	ask, err := cmd.StdinPipe()
	if err != nil {
		return nil, err
	}
	cmd.Stdout = nil
	answer, err := cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	s.processes = append(s.processes, cmd)
	return &postgresCounter{ask: ask, answer: bufio.NewScanner(answer)}, nil
}

// number asks for one.
func (c *postgresCounter) number(query string) (int, error) {
	if _, err := io.WriteString(c.ask, query+";\n"); err != nil {
		return 0, err
	}
	if !c.answer.Scan() {
		return 0, errors.Join(fmt.Errorf("psql has ended after %s", query), c.answer.Err())
	}
	return strconv.Atoi(strings.TrimSpace(c.answer.Text()))
}

// requests are statements, but for what only prepares others, and for what is asked here. The counters of transactions
// would be late: a connection tells of them when it has been idle for up to 10 s.
func (c *postgresCounter) requests() (int, error) {
	return c.number(`SELECT coalesce(sum(calls), 0) FROM pg_stat_statements ` +
		`WHERE query !~* '^(begin|start|set|commit|rollback|select set_config)\y' AND query !~ 'pg_stat_'`)
}

// told counts who waits for an advisory lock, and the connections that a standby of leaderrun has to be told by.
func (c *postgresCounter) told() (int, error) {
	return c.number(`SELECT count(*) FROM pg_stat_activity WHERE wait_event = 'advisory' OR application_name = 'leaderrun watch'`)
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
