package sqlfence_test

import (
	"context"
	"database/sql"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/go-sql-driver/mysql"

	"github.com/leaderrun/leaderrun/fence"
	"github.com/leaderrun/leaderrun/fence/fencetest"
	"github.com/leaderrun/leaderrun/fence/sqlfence"
	"github.com/leaderrun/leaderrun/test/servers"
)

// mysqlBed is a database on a server of its own. The server has a binary log, as every one with a replica: it restricts who
// may make functions.
func mysqlBed(t *testing.T) (*bed, *servers.MariaDBServer) {
	t.Helper()
	s := servers.MariaDB(t, servers.MariaDBOptions{Args: []string{"--log-bin=log"}})
	b := &bed{dialect: sqlfence.MySQL}
	b.open = func(t testing.TB, gate *fencetest.Gate) *sql.DB {
		t.Helper()
		dial := gate.Dialer()
		return openMySQL(t, s, func(c *mysql.Config) {
			c.DialFunc = dial
			c.ClientFoundRows = gate == nil // it changes what is told of an insert: the fence does not depend on it
		})
	}
	b.run = func(t testing.TB, script string, env ...string) (int, string) {
		t.Helper()
		dir := t.TempDir()
		options := fmt.Sprintf("[client]\nhost=127.0.0.1\nprotocol=tcp\nport=%d\nuser=leaderrun\npassword=%s\n", s.Port, s.Password)
		if err := os.WriteFile(filepath.Join(dir, ".my.cnf"), []byte(options), 0o600); err != nil {
			t.Fatal(err)
		}
		return runScript(t, dir, script, env...)
	}
	monitor := openMySQL(t, s, nil)
	b.waits = func(t testing.TB) bool {
		t.Helper()
		var name string
		var n int
		// Not information_schema.INNODB_TRX, which stays as it is for as long as it is asked.
		if err := monitor.QueryRow(`SHOW GLOBAL STATUS LIKE 'Innodb_row_lock_current_waits'`).Scan(&name, &n); err != nil {
			t.Fatal(err)
		}
		return n > 0
	}
	b.install(t, "mariadb test")
	return b, s
}

func openMySQL(t testing.TB, s *servers.MariaDBServer, change func(*mysql.Config)) *sql.DB {
	t.Helper()
	config := s.Config()
	if change != nil {
		change(config)
	}
	c, err := mysql.NewConnector(config)
	if err != nil {
		t.Fatal(err)
	}
	db := sql.OpenDB(c)
	t.Cleanup(func() { _ = db.Close() })
	return db
}

func TestMySQL(t *testing.T) { //nolint:tparallel // what is below shares a server, or a file
	t.Parallel()
	b, s := mysqlBed(t)
	b.suite(t)
	t.Run("the commit is not confirmed", func(t *testing.T) {
		b.unconfirmed(t, func(t testing.TB, f *faultyDialer) *sql.DB {
			t.Helper()
			return openMySQL(t, s, func(c *mysql.Config) { c.DialFunc = f.dial })
		})
	})
	t.Run("the functions refuse what makes no sense", func(t *testing.T) { mysqlNonsense(t, b) })
	t.Run("a user without rights", func(t *testing.T) { mysqlRights(t, b, s) })
	t.Run("what the comments warn of", func(t *testing.T) { mysqlCareless(t, b) })
	t.Run("a statement is repeated after a deadlock", func(t *testing.T) { mysqlDeadlock(t, b, s) })
	t.Run("a connection is given back as it was", func(t *testing.T) { mysqlAutocommit(t, b, s) })
	t.Run("every check changes its row", func(t *testing.T) { mysqlRowEvents(t, b, s) })
	t.Run("the first transactions of two jobs do not wait", func(t *testing.T) { mysqlGaps(t, b, s) })
	t.Run("a client that stands still holds its locks for a while only", func(t *testing.T) {
		b.idle(t, "SESSION wait_timeout = 60", "SESSION wait_timeout = 1",
			`test 0 = "$(mariadb -BNe 'SELECT COUNT(*) FROM information_schema.innodb_trx')"`, "gone away")
	})
	t.Run("interleavings", func(t *testing.T) {
		interleavings(t, b.subject(t, "package", nil), b.subject(t, "called", func(ctx context.Context, e execer, r fence.Run) error {
			var token int64
			return e.QueryRowContext(ctx, `SELECT leaderrun_fence('called', ?)`, r.Token).Scan(&token)
		}))
	})
}

func mysqlNonsense(t *testing.T, b *bed) {
	t.Helper()
	c, err := b.open(t, nil).Conn(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = c.Close() }()
	// Where the mode is not strict, what is too long is cut off, and two names become one.
	if _, err := c.ExecContext(t.Context(), "SET sql_mode = ''"); err != nil {
		t.Fatal(err)
	}
	long := strings.Repeat("x", 301)
	for _, call := range []string{
		`leaderrun_fence(NULL, 1)`, `leaderrun_fence('x', NULL)`, `leaderrun_fence('', 1)`, `leaderrun_fence('x', 0)`,
		`leaderrun_fence('x', '')`, `leaderrun_fence('` + long + `', 1)`, `leaderrun_fence('` + strings.Repeat("x", 2000) + `', 1)`,
		`leaderrun_once(NULL, 'x', 1)`, `leaderrun_once('x', NULL, 1)`, `leaderrun_once('x', 'y', NULL)`, `leaderrun_once('', 'y', 1)`,
		`leaderrun_once('x', '', 1)`, `leaderrun_once('x', '` + long + `', 1)`, `leaderrun_once('` + long + `', 'y', 1)`,
	} {
		var n int64
		if err := c.QueryRowContext(t.Context(), "SELECT "+call).Scan(&n); err == nil {
			t.Errorf("%.60s passes", call)
		}
	}
	name := strings.Repeat("ü", 127)
	b.raised(t, b.open(t, nil), name, fence.Run{Token: 1763683200456})
	var n int64
	err = c.QueryRowContext(t.Context(), `SELECT leaderrun_fence(?, 1763683200123)`, name).Scan(&n)
	if err == nil || !strings.Contains(err.Error(), "token 1763683200123 is stale: a run with token 1763683200456 has raised the fence") {
		t.Errorf("a long name: %v", err)
	}
}

func mysqlRights(t *testing.T, b *bed, s *servers.MariaDBServer) {
	t.Helper()
	secret := " IDENTIFIED BY '" + s.Password + "'"
	for _, query := range []string{
		"CREATE USER poor@'%'" + secret, "GRANT USAGE ON test.* TO poor@'%'", "CREATE USER maker@'%'" + secret, "CREATE DATABASE made",
		"GRANT ALL ON made.* TO maker@'%'", "GRANT SELECT ON test.* TO poor@'%'",
	} {
		b.exec(t, b.open(t, nil), query)
	}
	as := func(user, database string) func(*mysql.Config) {
		return func(c *mysql.Config) { c.User, c.DBName = user, database }
	}
	for _, c := range []struct {
		change func(*mysql.Config)
		kind   fence.SetupKind
		hint   string
	}{
		{as("poor", "test"), fence.Credentials, "leaderrun_fence"},
		{as("poor", "made"), fence.Credentials, "leaderrun_fence"},
		{as("stranger", "test"), fence.Credentials, "user"},
		{as("maker", "made"), fence.Configuration, "--dialect mysql"},
		{func(c *mysql.Config) { c.DBName = "nowhere" }, fence.Configuration, "database"},
		{func(c *mysql.Config) { c.DBName = "" }, fence.Configuration, "database"},
		{func(c *mysql.Config) { c.Params = map[string]string{"tx_read_only": "1"} }, fence.Configuration, "primary"},
	} {
		_, err := b.resource(t, openMySQL(t, s, c.change), "rights").Raise(t.Context(), fence.Run{Token: 1})
		b.wantSetup(t, err, c.kind, c.hint)
	}

	// Who may not make functions has the tables, and the package needs no more.
	maker := openMySQL(t, s, as("maker", "made"))
	if err := sqlfence.Install(t.Context(), maker, sqlfence.MySQL); err != nil {
		t.Fatal(err)
	}
	b.raised(t, maker, "rights", fence.Run{Token: 1})
	script := "mariadb -u maker made <<'SCHEMA'\n" + sqlfence.Schema(sqlfence.MySQL, "") + "\nSCHEMA"
	b.wantEnd(t, script, 1, "SUPER")
	b.exec(t, b.open(t, nil), "SET GLOBAL log_bin_trust_function_creators = 1")
	b.wantEnd(t, script, 0, "")

	// The printed rights are enough, and to install the schema again takes none of them away.
	b.exec(t, b.open(t, nil), "CREATE USER worker@'%'"+secret)
	b.exec(t, maker, "CREATE TABLE account (id INT PRIMARY KEY, balance INT NOT NULL)")
	b.exec(t, b.open(t, nil), "GRANT UPDATE, SELECT ON made.account TO worker@'%'")
	for line := range strings.Lines(sqlfence.Schema(sqlfence.MySQL, "")) {
		if grant, ok := strings.CutPrefix(line, "--   GRANT "); ok {
			b.exec(t, b.open(t, nil), strings.NewReplacer("DATABASE", "made", "worker;", "worker@'%'").Replace("GRANT "+grant))
		}
	}
	b.wantEnd(t, script, 0, "")
	b.wantEnd(t, b.example(t, 1, "mysql ", "mysql -u worker ", " test ", " made "), 0, "", token(1), "LEADERRUN_TICK="+tick)
	worker := b.raised(t, openMySQL(t, s, as("worker", "made")), "rights", fence.Run{Token: 1, Job: "rights", Tick: tick})
	if first, err := worker.Once(t.Context(), func(*sql.Tx) error { return nil }); !first || err != nil {
		t.Errorf("with the printed rights: %v, %v", first, err)
	}
}

// mysqlCareless: the mariadb client goes on after an error where my.cnf has force.
func mysqlCareless(t *testing.T, b *bed) {
	t.Helper()
	balance := b.account(t, 9)
	b.raised(t, b.open(t, nil), "careless", fence.Run{Token: 42})
	names := []string{"'invoices'", "'careless'", "id = 7", "id = 9"}
	b.wantEnd(t, b.example(t, 0, append(names, "SET @fence =", "SELECT")...), 1, "is stale", token(41))
	if got := balance(); got != 1000 {
		t.Errorf("SELECT: the balance is %d", got)
	}
	const force = `printf '[mysql]\nforce\n' >>.my.cnf; `
	b.wantEnd(t, force+b.example(t, 0, names...), 1, "is stale", token(41))
	if got := balance(); got != 1000 {
		t.Errorf("the printed script goes on where my.cnf has force: the balance is %d", got)
	}
}
