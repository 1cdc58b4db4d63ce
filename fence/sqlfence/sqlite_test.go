//go:build cgo

package sqlfence_test

import (
	"context"
	"database/sql"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/leaderrun/leaderrun/fence"
	"github.com/leaderrun/leaderrun/fence/fencetest"
	"github.com/leaderrun/leaderrun/fence/sqlfence"
	"github.com/leaderrun/leaderrun/test/servers"
)

// sqliteBed is a file with this journal mode.
func sqliteBed(t *testing.T, journal string) (b *bed, path string) {
	t.Helper()
	servers.Require(t, "sqlite3")
	dir := t.TempDir()
	path = filepath.Join(dir, "test")
	b = &bed{dialect: sqlfence.SQLite}
	b.open = func(t testing.TB, gate *fencetest.Gate) *sql.DB {
		t.Helper()
		return openSQLite(t, path, journal, gate)
	}
	b.run = func(t testing.TB, script string, env ...string) (int, string) {
		t.Helper()
		return runScript(t, dir, script, env...)
	}
	b.exec(t, b.open(t, nil), "CREATE TABLE first (n INT)") // the journal mode is part of the file
	b.install(t, "sqlite3 -bail test")
	return b, path
}

func openSQLite(t testing.TB, path, journal string, gate *fencetest.Gate) *sql.DB {
	t.Helper()
	db := sql.OpenDB(&gatedSQLite{dsn: "file:" + path + "?_busy_timeout=60000&_sync=0&_journal_mode=" + journal, gate: gate})
	t.Cleanup(func() { _ = db.Close() })
	return db
}

func TestSQLite(t *testing.T) { //nolint:tparallel // what is below shares a server, or a file
	t.Parallel()
	insert := func(ctx context.Context, e execer, r fence.Run) error {
		_, err := e.ExecContext(ctx, `INSERT INTO leaderrun_fence (resource, token) VALUES ('called', ?)`, r.Token)
		return err
	}
	var subjects []fencetest.Subject
	for _, journal := range []string{"WAL", "DELETE"} {
		one, _ := sqliteBed(t, journal) // a file of its own for each: whoever writes locks it all
		other, _ := sqliteBed(t, journal)
		subjects = append(subjects, one.subject(t, "package", nil), other.subject(t, "called", insert))
		t.Run(journal, func(t *testing.T) {
			b, path := sqliteBed(t, journal)
			b.suite(t)
			t.Run("what makes no sense is refused", func(t *testing.T) { sqliteNonsense(t, b) })
			t.Run("a file that cannot be used", func(t *testing.T) { sqliteRights(t, b, path) })
			t.Run("a database that stays locked is not stale", func(t *testing.T) { sqliteLocked(t, b, path) })
			t.Run("there is one fence", func(t *testing.T) { sqliteOne(t, b) })
			t.Run("half an installation is none", func(t *testing.T) { sqliteHalf(t, b) })
			t.Run("what the comments warn of", func(t *testing.T) { sqliteCareless(t, b) })
		})
	}
	t.Run("interleavings", func(t *testing.T) { interleavings(t, subjects...) })
}

func sqliteNonsense(t *testing.T, b *bed) {
	t.Helper()
	db := b.open(t, nil)
	b.exec(t, db, `INSERT INTO leaderrun_fence (resource, token) VALUES ('nonsense', 42)`)
	for _, values := range []string{
		`leaderrun_fence (resource, token) VALUES (NULL, 1)`, `leaderrun_fence (resource, token) VALUES ('', 1)`,
		`leaderrun_fence (resource, token) VALUES ('nonsense', NULL)`, `leaderrun_fence (resource, token) VALUES ('nonsense', 'x')`,
		`leaderrun_fence (resource, token) VALUES ('nonsense', '43x')`, `leaderrun_fence (resource, token) VALUES ('nonsense', 43.5)`,
		`leaderrun_fence (resource, token) VALUES ('other', 0)`, `leaderrun_fence (resource, token) VALUES ('nonsense', '41')`,
		`leaderrun_fence (resource, token) VALUES ('nonsense', 9223372036854775807)`,
		`leaderrun_fence (resource, token) VALUES (X'6E6F', 1)`, `leaderrun_fence (resource, token) VALUES (X'', 1)`,
		`leaderrun_done (job, tick, token) VALUES (X'78', 'x', 1)`, `leaderrun_done (job, tick, token) VALUES ('x', X'78', 1)`,
		`leaderrun_done (job, tick, token) VALUES ('x', '', 1)`, `leaderrun_done (job, tick, token) VALUES ('', 'x', 1)`,
		`leaderrun_done (job, tick, token) VALUES ('x', NULL, 1)`, `leaderrun_done (job, tick, token) VALUES ('x', 'y', '')`,
	} {
		inserts := []string{"INSERT INTO ", "INSERT OR REPLACE INTO "}
		if strings.HasPrefix(values, "leaderrun_fence") {
			inserts = append(inserts, "INSERT OR IGNORE INTO ", "INSERT OR FAIL INTO ")
		}
		for _, insert := range inserts {
			if _, err := db.ExecContext(t.Context(), insert+values); err == nil {
				t.Errorf("%s%s passes", insert, values)
			}
		}
	}
	var token int
	if err := db.QueryRow(`SELECT token FROM leaderrun_fence WHERE resource = 'nonsense'`).Scan(&token); err != nil || token != 42 {
		t.Errorf("the token is %d; %v", token, err)
	}
}

// sqliteOne: a temporary table of the same name is not the fence.
func sqliteOne(t *testing.T, b *bed) {
	t.Helper()
	balance := b.account(t, 17)
	db := b.open(t, nil)
	db.SetMaxOpenConns(1)
	run := fence.Run{Token: 42, Job: "one", Tick: tick}
	if first, err := b.raised(t, db, "invoices", run).Once(t.Context(), b.pay(17)); !first || err != nil {
		t.Fatal(first, err)
	}
	for _, name := range []string{"fence", "done"} {
		b.exec(t, db, "CREATE TEMPORARY TABLE leaderrun_"+name+" AS SELECT * FROM leaderrun_"+name+" WHERE 0")
	}
	if _, err := b.resource(t, db, "invoices").Raise(t.Context(), fence.Run{Token: 41}); err == nil {
		t.Error("a temporary table is taken for the fence")
	}
	if first, err := b.raised(t, db, "invoices", run).Once(t.Context(), b.pay(17)); first || err != nil {
		t.Errorf("a temporary table is taken for what is done: %v, %v", first, err)
	}
	temporary := "for t in fence done; do echo \"CREATE TEMPORARY TABLE leaderrun_$t AS SELECT * FROM leaderrun_$t WHERE 0;\"; done >temporary; "
	script := b.example(t, 1, "id = 7", "id = 17", ".bail on\n", ".bail on\n.read temporary\n")
	b.wantEnd(t, temporary+script, 1, "is stale", token(41), "LEADERRUN_TICK="+tick)
	b.wantEnd(t, temporary+script, 0, "", token(42), "LEADERRUN_JOB=one", "LEADERRUN_TICK="+tick)
	if got := balance(); got != 900 {
		t.Errorf("the balance is %d", got)
	}
}

// sqliteHalf: without its trigger the table takes what replaces a higher token.
func sqliteHalf(t *testing.T, b *bed) {
	t.Helper()
	half, _, found := strings.Cut(sqlfence.Schema(b.dialect, ""), "CREATE TRIGGER")
	if !found {
		t.Fatal("the schema cannot be cut there")
	}
	b.wantEnd(t, "sqlite3 -bail test <<'SCHEMA'\n"+half+"\nSCHEMA", 0, "")
	b.raised(t, b.open(t, nil), "half", fence.Run{Token: 42})
	if _, err := b.open(t, nil).Exec(`INSERT OR REPLACE INTO leaderrun_fence VALUES ('half', 41)`); err == nil {
		t.Error("a stale token replaces a higher one")
	}
}

func sqliteRights(t *testing.T, b *bed, path string) {
	t.Helper()
	raise := func(path, more string) error {
		db := sql.OpenDB(&gatedSQLite{dsn: "file:" + path + more})
		defer func() { _ = db.Close() }()
		_, err := b.resource(t, db, "rights").Raise(t.Context(), fence.Run{Token: 1})
		return err
	}
	text := filepath.Join(t.TempDir(), "text")
	if err := os.WriteFile(text, []byte(strings.Repeat("no database\n", 100)), 0o600); err != nil {
		t.Fatal(err)
	}
	b.wantSetup(t, raise(path, "?mode=ro"), fence.Credentials, "write")
	b.wantSetup(t, raise(text, ""), fence.Configuration, "path")
	b.wantSetup(t, raise(filepath.Join(path, "below"), ""), fence.Configuration, "path")
	b.wantSetup(t, raise(filepath.Join(t.TempDir(), "new"), ""), fence.Configuration, "--dialect sqlite")
}

func sqliteLocked(t *testing.T, b *bed, path string) {
	t.Helper()
	err := b.raised(t, b.open(t, nil), "locked", fence.Run{Token: 1}).Tx(t.Context(), nil, func(*sql.Tx) error {
		db := sql.OpenDB(&gatedSQLite{dsn: "file:" + path + "?_busy_timeout=1"})
		defer func() { _ = db.Close() }()
		_, err := b.resource(t, db, "locked").Raise(t.Context(), fence.Run{Token: 2})
		return err
	})
	_, stale := errors.AsType[*fence.StaleError](err)
	_, setup := errors.AsType[*fence.SetupError](err)
	if err == nil || stale || setup || !strings.Contains(err.Error(), "locked") {
		t.Errorf("got %v", err)
	}
}

// sqliteCareless: sqlite3 goes on after an error, unless it is told not to.
func sqliteCareless(t *testing.T, b *bed) {
	t.Helper()
	balance := b.account(t, 9)
	b.raised(t, b.open(t, nil), "careless", fence.Run{Token: 42})
	replace := []string{"'invoices'", "'careless'", "id = 7", "id = 9"}
	b.wantEnd(t, b.example(t, 0, append(replace, "sqlite3 -bail ", "sqlite3 ")...), 1, "is stale", token(41))
	b.wantEnd(t, b.example(t, 0, append(replace, ".bail on\n", "")...), 1, "is stale", token(41))
	if got := balance(); got != 1000 {
		t.Errorf("the balance is %d", got)
	}
}
