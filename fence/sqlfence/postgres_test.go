package sqlfence_test

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/stdlib"

	"github.com/leaderrun/leaderrun/fence"
	"github.com/leaderrun/leaderrun/fence/fencetest"
	"github.com/leaderrun/leaderrun/fence/sqlfence"
	"github.com/leaderrun/leaderrun/test/servers"
)

// postgresBed is a database on a server of its own.
func postgresBed(t *testing.T) (*bed, *servers.PostgresServer) {
	t.Helper()
	s := servers.Postgres(t, servers.PostgresOptions{})
	b := &bed{dialect: sqlfence.PostgreSQL, strict: "40001"}
	b.open = func(t testing.TB, gate *fencetest.Gate) *sql.DB {
		t.Helper()
		return openPostgres(t, s, func(c *pgx.ConnConfig) { c.DialFunc = gate.Dialer() })
	}
	b.run = func(t testing.TB, script string, env ...string) (int, string) {
		t.Helper()
		return runScript(t, t.TempDir(), script, append(env, "PGHOST="+s.Socket(), fmt.Sprintf("PGPORT=%d", s.Port), "PGUSER=postgres")...)
	}
	monitor := openPostgres(t, s, nil)
	b.exec(t, openPostgres(t, s, func(c *pgx.ConnConfig) { c.Database = "postgres" }), "CREATE DATABASE test")
	b.waits = func(t testing.TB) bool {
		t.Helper()
		var n int
		if err := monitor.QueryRow(`SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock'`).Scan(&n); err != nil {
			t.Fatal(err)
		}
		return n > 0
	}
	b.install(t, "PGOPTIONS='-c client_min_messages=warning' psql -X -q -v ON_ERROR_STOP=1 -d test")
	return b, s
}

func openPostgres(t testing.TB, s *servers.PostgresServer, change func(*pgx.ConnConfig)) *sql.DB {
	t.Helper()
	c, err := pgx.ParseConfig(s.URL())
	if err != nil {
		t.Fatal(err)
	}
	c.Host, c.Database = s.Socket(), "test" // there the password, which takes its time, is not asked for
	if change != nil {
		change(c)
	}
	db := stdlib.OpenDB(*c)
	t.Cleanup(func() { _ = db.Close() })
	return db
}

// runScript runs a script of a shell in a folder, with nothing of the developer's settings.
func runScript(t testing.TB, dir, script string, env ...string) (int, string) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "bash", "-c", script)
	cmd.Dir, cmd.Env = dir, append([]string{"PATH=" + os.Getenv("PATH"), "HOME=" + dir, "LEADERRUN_JOB=monthly-invoices"}, env...)
	out, err := cmd.CombinedOutput()
	if cmd.ProcessState == nil {
		t.Fatal(err)
	}
	return cmd.ProcessState.ExitCode(), string(out)
}

func TestPostgreSQL(t *testing.T) { //nolint:tparallel // what is below shares a server, or a file
	t.Parallel()
	b, s := postgresBed(t)
	b.suite(t)
	t.Run("the commit is not confirmed", func(t *testing.T) {
		b.unconfirmed(t, func(t testing.TB, f *faultyDialer) *sql.DB {
			t.Helper()
			return openPostgres(t, s, func(c *pgx.ConnConfig) { c.DialFunc = f.dial })
		})
	})
	t.Run("a commit that is refused is known to be", func(t *testing.T) { postgresRefusedCommit(t, b) })
	t.Run("the functions find their tables", func(t *testing.T) { postgresSearchPath(t, b) })
	t.Run("the functions refuse what is missing", func(t *testing.T) { postgresNull(t, b) })
	t.Run("a user without rights", func(t *testing.T) { postgresRights(t, b, s) })
	t.Run("what the comments warn of", func(t *testing.T) { postgresCareless(t, b) })
	t.Run("an error that is swallowed is no success", func(t *testing.T) { postgresSwallowed(t, b) })
	t.Run("a second fence is not installed", func(t *testing.T) { postgresSecond(t, b, s) })
	t.Run("half an installation is none", func(t *testing.T) { postgresHalf(t, b) })
	t.Run("a client that stands still holds its locks for a while only", func(t *testing.T) {
		b.idle(t, "'60s'", "'100ms'",
			`test 0 = "$(psql -Xqtc "SELECT count(*) FROM pg_stat_activity WHERE state = 'idle in transaction'" | tr -d ' \n')"`, "idle-in-transaction timeout")
	})
	t.Run("interleavings", func(t *testing.T) {
		interleavings(t, b.subject(t, "package", nil), b.subject(t, "called", func(ctx context.Context, e execer, r fence.Run) error {
			_, err := e.ExecContext(ctx, `SELECT leaderrun_fence('called', $1)`, r.Token)
			return err
		}))
	})
}

func postgresRefusedCommit(t *testing.T, b *bed) {
	t.Helper()
	db := b.open(t, nil)
	b.exec(t, db, `CREATE TABLE late (n INT UNIQUE DEFERRABLE INITIALLY DEFERRED)`)
	err := b.raised(t, db, "late", fence.Run{Token: 1}).Tx(t.Context(), nil, func(tx *sql.Tx) error {
		_, err := tx.Exec(`INSERT INTO late VALUES (1), (1)`)
		return err
	})
	_, unknown := errors.AsType[*sqlfence.UnknownError](err)
	if err == nil || unknown || !strings.Contains(err.Error(), "23505") {
		t.Errorf("got %v", err)
	}
}

// postgresSearchPath: a schema of the caller's or a temporary table must not become another fence.
func postgresSearchPath(t *testing.T, b *bed) {
	t.Helper()
	db := b.open(t, nil)
	c, err := db.Conn(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = c.Close() }()
	do := func(query string) error {
		_, err := c.ExecContext(t.Context(), query)
		return err
	}
	for _, query := range []string{
		`SELECT leaderrun_fence('path', 42)`,
		`CREATE SCHEMA mine`,
		`CREATE TABLE mine.leaderrun_fence (LIKE public.leaderrun_fence INCLUDING ALL)`,
		`CREATE TEMPORARY TABLE leaderrun_fence (LIKE public.leaderrun_fence INCLUDING ALL)`,
		`SET search_path = mine`,
	} {
		if err := do(query); err != nil {
			t.Fatalf("%s: %v", query, err)
		}
	}
	if err := do(`SELECT public.leaderrun_fence('path', 41)`); err == nil {
		t.Error("another table is taken for the fence")
	}
	if err := do(`SELECT public.leaderrun_once('path', 'tick', 41)`); err != nil {
		t.Error(err)
	}
}

func postgresNull(t *testing.T, b *bed) {
	t.Helper()
	db := b.open(t, nil)
	for _, query := range []string{
		`SELECT leaderrun_fence(NULL, 1)`, `SELECT leaderrun_fence('x', NULL)`, `SELECT leaderrun_fence('', 1)`,
		`SELECT leaderrun_fence('x', 0)`, `SELECT leaderrun_once(NULL, 'x', 1)`, `SELECT leaderrun_once('x', NULL, 1)`,
		`SELECT leaderrun_once('x', 'y', NULL)`, `SELECT leaderrun_once('', 'y', 1)`, `SELECT leaderrun_once('x', '', 1)`,
	} {
		if _, err := db.ExecContext(t.Context(), query); err == nil {
			t.Errorf("%s passes", query)
		}
	}
}

func postgresRights(t *testing.T, b *bed, s *servers.PostgresServer) {
	t.Helper()
	b.exec(t, b.open(t, nil), `CREATE ROLE poor LOGIN PASSWORD '`+s.Password+`'`)
	for _, c := range []struct {
		change func(*pgx.ConnConfig)
		kind   fence.SetupKind
		hint   string
	}{
		{func(c *pgx.ConnConfig) { c.User = "poor" }, fence.Credentials, "leaderrun_fence"},
		{func(c *pgx.ConnConfig) { c.User = "nobody knows" }, fence.Credentials, "user"},
		{func(c *pgx.ConnConfig) { c.Database = "nowhere" }, fence.Configuration, "database"},
		{func(c *pgx.ConnConfig) { c.RuntimeParams["default_transaction_read_only"] = "on" }, fence.Configuration, "primary"},
	} {
		_, err := b.resource(t, openPostgres(t, s, c.change), "rights").Raise(t.Context(), fence.Run{Token: 1})
		b.wantSetup(t, err, c.kind, c.hint)
	}
	r, err := sqlfence.New(b.open(t, nil), sqlfence.MySQL, "rights")
	if err != nil {
		t.Fatal(err)
	}
	_, err = r.Raise(t.Context(), fence.Run{Token: 1})
	b.wantSetup(t, err, fence.Configuration, "MySQL")
}

// postgresSwallowed: PostgreSQL refuses what comes after an error, and answers COMMIT by rolling back.
func postgresSwallowed(t *testing.T, b *bed) {
	t.Helper()
	balance := b.account(t, 16)
	err := b.raised(t, b.open(t, nil), "swallowed", fence.Run{Token: 1}).Tx(t.Context(), nil, func(tx *sql.Tx) error {
		err := b.pay(16)(tx)
		_, _ = tx.Exec("SELECT 1/0")
		return err
	})
	_, unknown := errors.AsType[*sqlfence.UnknownError](err)
	if err == nil || unknown || !strings.Contains(err.Error(), "25P02") || balance() != 1000 {
		t.Errorf("got %v; the balance is %d", err, balance())
	}
}

// postgresSecond: a role whose own schema comes first has another current schema than who has installed the fence.
func postgresSecond(t *testing.T, b *bed, s *servers.PostgresServer) {
	t.Helper()
	b.exec(t, b.open(t, nil), "CREATE SCHEMA own")
	of := func(path string) *sql.DB {
		return openPostgres(t, s, func(c *pgx.ConnConfig) { c.RuntimeParams["search_path"] = path })
	}
	script := "PGOPTIONS='-c search_path=own,public' psql -X -q -v ON_ERROR_STOP=1 -d test <<'SCHEMA'\n" +
		sqlfence.Schema(b.dialect, "") + "\nSCHEMA"
	b.wantEnd(t, script, 3, "public has leaderrun_fence already")
	b.wantSetup(t, sqlfence.Install(t.Context(), of("own, public"), b.dialect), fence.Configuration, "search path")
	for range 2 { // where the path does not lead to another one, it is the only one
		if err := sqlfence.Install(t.Context(), of("own"), b.dialect); err != nil {
			t.Error(err)
		}
	}
}

// postgresHalf: a function that was replaced has no search path until it is given one.
func postgresHalf(t *testing.T, b *bed) {
	t.Helper()
	half, _, found := strings.Cut(sqlfence.Schema(b.dialect, ""), "-- They find the tables")
	if !found {
		t.Fatal("the schema cannot be cut there")
	}
	b.wantEnd(t, "PGOPTIONS='-c client_min_messages=warning' psql -X -q -d test <<'SCHEMA'\n"+half+"\nSCHEMA", 0, "")
	var pinned int
	err := b.open(t, nil).QueryRow(`SELECT count(*) FROM pg_proc
WHERE proname IN ('leaderrun_fence', 'leaderrun_once') AND proconfig = '{"search_path=public, pg_temp"}'`).Scan(&pinned)
	if err != nil || pinned != 2 {
		t.Errorf("%d functions have their search path; %v", pinned, err)
	}
}

// postgresCareless: ON_ERROR_STOP alone is about the exit code.
func postgresCareless(t *testing.T, b *bed) {
	t.Helper()
	balance := b.account(t, 9)
	b.raised(t, b.open(t, nil), "careless", fence.Run{Token: 42})
	script := b.example(t, 0, "-v ON_ERROR_STOP=1", "", "'invoices'", "'careless'", "id = 7", "id = 9")
	b.wantEnd(t, script, 0, "is stale", token(41))
	if got := balance(); got != 1000 {
		t.Errorf("the balance is %d", got)
	}
}
