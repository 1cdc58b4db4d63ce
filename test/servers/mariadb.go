package servers

import (
	"context"
	"crypto/rand"
	"database/sql"
	"fmt"
	"path/filepath"
	"testing"

	"github.com/go-sql-driver/mysql"
)

// MariaDBOptions say how a MariaDB server differs from an empty one on a port of its own. It does not sync to disk: a crash
// of the machine is no part of what a test can show, one of the server is.
type MariaDBOptions struct {
	Args []string // more flags
}

// MariaDBServer is one running MariaDB server. Its database test is empty.
type MariaDBServer struct {
	*server
	Password string // of the user leaderrun, who may do everything
	opts     MariaDBOptions
}

// MariaDB starts a MariaDB server.
func MariaDB(t testing.TB, o MariaDBOptions) *MariaDBServer {
	t.Helper()
	s := &MariaDBServer{Password: rand.Text(), opts: o}
	s.server = newServer(t, "mariadb", At{}, nil, s)
	s.start(t)
	return s
}

func (s *MariaDBServer) initialize(t testing.TB) {
	t.Helper()
	give(t, s.dir, s.as)
	s.finish(t, "mariadb-install-db", append(s.common(), "--auth-root-authentication-method=socket", "--skip-test-db", "--skip-name-resolve")...)
	writeFile(t, s.dir, "init.sql", fmt.Sprintf(`CREATE DATABASE IF NOT EXISTS test;
CREATE USER IF NOT EXISTS leaderrun@'%%' IDENTIFIED BY '%s';
GRANT ALL ON *.* TO leaderrun@'%%' WITH GRANT OPTION;
`, s.Password))
	give(t, s.dir, s.as)
}

// common are the flags of every program of the server: what is configured on this machine is no part of the tests.
func (s *MariaDBServer) common() []string {
	return []string{"--no-defaults", "--datadir=" + s.Data(), "--tmpdir=" + s.dir}
}

func (s *MariaDBServer) command(testing.TB) []string {
	args := append(s.common(), "--bind-address=127.0.0.1", fmt.Sprintf("--port=%d", s.Port), "--skip-name-resolve",
		"--socket="+filepath.Join(s.dir, "socket"), "--pid-file="+filepath.Join(s.dir, "pid"),
		"--init-file="+filepath.Join(s.dir, "init.sql"), "--innodb-flush-log-at-trx-commit=2",
		"--innodb-buffer-pool-size=16M", "--innodb-log-file-size=8M")
	return append(args, s.opts.Args...)
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
	c.User, c.Passwd, c.Net, c.Addr, c.DBName = "leaderrun", s.Password, "tcp", s.Addr(), "test"
	c.Logger = &mysql.NopLogger{}
	return c
}
