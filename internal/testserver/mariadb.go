package testserver

import (
	"context"
	"database/sql"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/go-sql-driver/mysql"
)

// MariaDBOptions say how a MariaDB server differs from an empty one on a port of its own. It does not sync to disk: a crash
// of the machine is no part of what a test can show, one of the server is.
type MariaDBOptions struct {
	Password string   // of the user leaderrun, who may do everything
	Args     []string // more flags
}

// MariaDBServer is one running MariaDB server. Its database test is empty.
type MariaDBServer struct {
	*Process
	Port int
	dir  string
	opts MariaDBOptions
}

// MariaDB starts a MariaDB server.
func MariaDB(t testing.TB, o MariaDBOptions) *MariaDBServer {
	t.Helper()
	Require(t, "mariadb")
	s := &MariaDBServer{Port: FreePort(t), dir: Dir(t), opts: o}
	s.initialize(t)
	t.Cleanup(func() {
		if s.Process != nil {
			s.Kill()
		}
	})
	s.start(t)
	return s
}

// initialize makes the folder with the data.
func (s *MariaDBServer) initialize(t testing.TB) {
	t.Helper()
	p := Start(t, s.dir, program(t, "mariadb-install-db"), append(s.common(), "--auth-root-authentication-method=normal",
		"--skip-test-db", "--skip-name-resolve")...)
	p.succeed(t, "mariadb-install-db")
	writeFile(t, s.dir, "init.sql", fmt.Sprintf(`CREATE DATABASE IF NOT EXISTS test;
CREATE USER IF NOT EXISTS leaderrun@'%%' IDENTIFIED BY '%s';
GRANT ALL ON *.* TO leaderrun@'%%' WITH GRANT OPTION;
`, s.opts.Password))
}

// common are the flags of every program of the server: what is configured on this machine is no part of the tests.
func (s *MariaDBServer) common() []string {
	args := []string{"--no-defaults", "--datadir=" + s.Data()}
	if os.Geteuid() == 0 { // it refuses root that is not meant
		args = append(args, "--user=root")
	}
	return args
}

func (s *MariaDBServer) start(t testing.TB) {
	t.Helper()
	args := append(s.common(), "--bind-address=127.0.0.1", fmt.Sprintf("--port=%d", s.Port), "--skip-name-resolve",
		"--socket="+filepath.Join(s.dir, "socket"), "--pid-file="+filepath.Join(s.dir, "pid"),
		"--init-file="+filepath.Join(s.dir, "init.sql"), "--innodb-flush-log-at-trx-commit=2",
		"--innodb-buffer-pool-size=16M", "--innodb-log-file-size=8M")
	s.Process = launch(t, s.dir, program(t, "mariadbd"), append(args, s.opts.Args...)...)
	s.ready(t, "mariadbd", s.Answers)
}

// Answers asks the server whether it serves its clients.
func (s *MariaDBServer) Answers() error {
	ctx, cancel := context.WithTimeout(context.Background(), statusTimeout)
	defer cancel()
	c, err := mysql.NewConnector(s.Config())
	if err != nil {
		return err
	}
	db := sql.OpenDB(c)
	defer func() { _ = db.Close() }()
	return db.PingContext(ctx)
}

// Config returns how the database test is reached by the user who may do everything.
func (s *MariaDBServer) Config() *mysql.Config {
	c := mysql.NewConfig()
	c.User, c.Passwd, c.Net, c.Addr, c.DBName = "leaderrun", s.opts.Password, "tcp", s.Addr(), "test"
	c.Logger = &mysql.NopLogger{}
	return c
}

// Data returns the folder with its data.
func (s *MariaDBServer) Data() string { return filepath.Join(s.dir, "data") }

// Addr returns host and port.
func (s *MariaDBServer) Addr() string { return loopback(s.Port) }

// Restart kills the server and starts it again, with its data or without.
func (s *MariaDBServer) Restart(t testing.TB, keepData bool) {
	t.Helper()
	s.Kill()
	if !keepData {
		if err := os.RemoveAll(s.Data()); err != nil {
			t.Fatal(err)
		}
		s.initialize(t)
	}
	s.start(t)
}
