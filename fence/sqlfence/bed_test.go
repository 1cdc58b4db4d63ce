package sqlfence_test

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/leaderrun/leaderrun/fence"
	"github.com/leaderrun/leaderrun/fence/fencetest"
	"github.com/leaderrun/leaderrun/fence/sqlfence"
)

// bed is a real database with the printed schema.
type bed struct {
	dialect sqlfence.Dialect
	// open returns a pool of its own; every step of its connections passes the gate, which may be nil.
	open func(t testing.TB, gate *fencetest.Gate) *sql.DB
	// run runs a script of a shell with the settings that the database's client needs. It returns the exit code and what
	// the script wrote.
	run func(t testing.TB, script string, env ...string) (int, string)
	// strict is the SQLSTATE with which REPEATABLE READ ends instead of a wait; "": it waits.
	strict string
	// waits says whether a transaction waits for a lock now; nil: the database does not tell.
	waits func(t testing.TB) bool
}

// install runs the printed schema in the database's client.
func (b *bed) install(t testing.TB, client string) {
	t.Helper()
	script := client + " <<'SCHEMA'\n" + sqlfence.Schema(b.dialect, "") + "\nSCHEMA"
	for range 2 { // a newer version comes over an older one
		if code, said := b.run(t, script); code != 0 || said != "" {
			t.Fatalf("install: exit code %d: %s", code, said)
		}
	}
	db := b.open(t, nil)
	b.exec(t, db, `CREATE TABLE account (id INT PRIMARY KEY, balance INT NOT NULL)`)
	b.exec(t, db, `CREATE TABLE part (subject VARCHAR(40), half INT, value VARCHAR(80) NOT NULL, PRIMARY KEY (subject, half))`)
}

func (b *bed) exec(t testing.TB, db *sql.DB, query string, args ...any) {
	t.Helper()
	if _, err := db.ExecContext(t.Context(), b.query(query), args...); err != nil {
		t.Fatalf("%s: %v", query, err)
	}
}

// query writes a statement as the dialect does.
func (b *bed) query(text string) string {
	if b.dialect != sqlfence.PostgreSQL {
		return text
	}
	for n := 1; strings.Contains(text, "?"); n++ {
		text = strings.Replace(text, "?", "$"+strconv.Itoa(n), 1)
	}
	return text
}

// account makes an account with 1000 and returns what asks for its balance.
func (b *bed) account(t testing.TB, id int) func() int {
	t.Helper()
	db := b.open(t, nil)
	b.exec(t, db, `INSERT INTO account VALUES (?, 1000)`, id)
	return func() (balance int) {
		t.Helper()
		if err := db.QueryRowContext(t.Context(), b.query(`SELECT balance FROM account WHERE id = ?`), id).Scan(&balance); err != nil {
			t.Fatal(err)
		}
		return balance
	}
}

// pay is an effect: one hundred less.
func (b *bed) pay(id int) func(*sql.Tx) error {
	return func(tx *sql.Tx) error {
		_, err := tx.Exec(b.query(`UPDATE account SET balance = balance - 100 WHERE id = ?`), id)
		return err
	}
}

func (b *bed) resource(t testing.TB, db *sql.DB, name string) *sqlfence.Resource {
	t.Helper()
	r, err := sqlfence.New(db, b.dialect, name)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// raised is a run that has raised the fence.
func (b *bed) raised(t testing.TB, db *sql.DB, name string, r fence.Run) *sqlfence.Writer {
	t.Helper()
	w, err := b.resource(t, db, name).Raise(t.Context(), r)
	if err != nil {
		t.Fatalf("token %d: %v", r.Token, err)
	}
	return w
}

// interleavings runs the suite of all resources on each subject. They wait more than they work, and do so beside each other.
func interleavings(t *testing.T, subjects ...fencetest.Subject) {
	t.Helper()
	var all sync.WaitGroup
	for _, s := range subjects {
		all.Go(func() { fencetest.Run(t, s) })
	}
	all.Wait()
}

// subject is a value in two rows, so that half a write can be seen. call is how the fence is called; nil: by the package.
func (b *bed) subject(t testing.TB, name string, call func(context.Context, execer, fence.Run) error) fencetest.Subject {
	t.Helper()
	reader := b.open(t, nil)
	b.exec(t, reader, `INSERT INTO part VALUES (?, 1, ''), (?, 2, '')`, name, name)
	return fencetest.Subject{
		Read: func(t testing.TB) string {
			t.Helper()
			var first, second string
			err := reader.QueryRowContext(t.Context(), b.query(`SELECT a.value, b.value FROM part a JOIN part b ON a.subject = b.subject
WHERE a.half = 1 AND b.half = 2 AND a.subject = ?`), name).Scan(&first, &second)
			if err != nil {
				t.Fatal(err)
			}
			return first + second
		},
		Writer: func(t testing.TB, r fence.Run, gate *fencetest.Gate) fencetest.Writer {
			db := b.open(t, gate)
			halves := func(ctx context.Context, tx *sql.Tx, value string) error {
				query := b.query(`UPDATE part SET value = ? WHERE subject = ? AND half = ?`)
				_, first := tx.ExecContext(ctx, query, value[:len(value)/2], name, 1)
				_, second := tx.ExecContext(ctx, query, value[len(value)/2:], name, 2)
				return errors.Join(first, second)
			}
			if call != nil {
				return b.caller(db, r, halves, call)
			}
			var w *sqlfence.Writer
			return fencetest.Writer{
				Raise: func(ctx context.Context) (err error) {
					w, err = b.resource(t, db, name).Raise(ctx, r)
					return err
				},
				Write: func(ctx context.Context, value string) error {
					return w.Tx(ctx, nil, func(tx *sql.Tx) error { return halves(ctx, tx, value) })
				},
				Close: func() { _ = db.Close() },
			}
		},
	}
}

// execer is a transaction or a pool.
type execer interface {
	ExecContext(ctx context.Context, query string, args ...any) (sql.Result, error)
	QueryRowContext(ctx context.Context, query string, args ...any) *sql.Row
}

// caller is a run that calls what the printed schema has.
func (b *bed) caller(
	db *sql.DB, r fence.Run, write func(context.Context, *sql.Tx, string) error, call func(context.Context, execer, fence.Run) error,
) fencetest.Writer {
	refused := func(err error) error {
		if err != nil && strings.Contains(err.Error(), "is stale") {
			return &fence.StaleError{Resource: "called", Token: r.Token}
		}
		return err
	}
	return fencetest.Writer{
		Raise: func(ctx context.Context) error { return refused(call(ctx, db, r)) },
		Write: func(ctx context.Context, value string) error {
			tx, err := db.BeginTx(ctx, nil)
			if err != nil {
				return err
			}
			defer func() { _ = tx.Rollback() }()
			if err := call(ctx, tx, r); err != nil {
				return refused(err)
			}
			if err := write(ctx, tx, value); err != nil {
				return err
			}
			return tx.Commit()
		},
		Close: func() { _ = db.Close() },
	}
}

func token(n int) string { return fmt.Sprintf("LEADERRUN_TOKEN=%d", n) }
