package sqlfence

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"slices"

	"github.com/leaderrun/leaderrun/fence"
)

// Dialect is what a database speaks.
type Dialect string

// The dialects. MariaDB speaks MySQL.
const (
	PostgreSQL Dialect = "postgres"
	MySQL      Dialect = "mysql"
	SQLite     Dialect = "sqlite"
)

// Dialects returns all dialects.
func Dialects() []Dialect { return []Dialect{PostgreSQL, MySQL, SQLite} }

// ParseDialect returns the dialect of a name.
func ParseDialect(name string) (Dialect, error) {
	if !slices.Contains(Dialects(), Dialect(name)) {
		return "", fmt.Errorf("%.40q is none of %s, %s (MariaDB too), %s", name, PostgreSQL, MySQL, SQLite)
	}
	return Dialect(name), nil
}

// raiseOptions are those of a transaction that only raises the fence. In PostgreSQL one that waits for an earlier run would
// fail in a stricter mode, which may be the server's default.
func (d Dialect) raiseOptions() *sql.TxOptions {
	if d == PostgreSQL {
		return &sql.TxOptions{Isolation: sql.LevelReadCommitted}
	}
	return nil
}

// raise keeps the token if none is higher, locks the row and returns the highest token seen. Its first statement writes: it
// waits for the lock before the transaction has read anything.
func (d Dialect) raise(ctx context.Context, tx *sql.Tx, resource string, token int64) (highest int64, err error) {
	switch d {
	case PostgreSQL:
		return raisePostgreSQL(ctx, tx, resource, token)
	case MySQL:
		return raiseMySQL(ctx, tx, resource, token)
	}
	return raiseSQLite(ctx, tx, resource, token)
}

// raisePostgreSQL writes the row also where the token is the same. A transaction in REPEATABLE READ that waits for it does
// not see what this one commits; it fails because the row was written, and not only locked.
func raisePostgreSQL(ctx context.Context, tx *sql.Tx, resource string, token int64) (int64, error) {
	kept, err := rows(tx.ExecContext(ctx, `INSERT INTO leaderrun_fence AS f (resource, token) VALUES ($1, $2)
ON CONFLICT (resource) DO UPDATE SET token = excluded.token WHERE f.token <= excluded.token`, resource, token))
	if err != nil || kept > 0 {
		return token, err
	}
	return number(ctx, tx, `SELECT token FROM leaderrun_fence WHERE resource = $1`, resource)
}

// raiseMySQL does not ask how many rows there were: that depends on an option of the driver.
func raiseMySQL(ctx context.Context, tx *sql.Tx, resource string, token int64) (int64, error) {
	_, err := tx.ExecContext(ctx, `INSERT INTO leaderrun_fence (resource, token) VALUES (?, ?)
ON DUPLICATE KEY UPDATE token = GREATEST(token, ?)`, resource, token, token)
	if err != nil {
		return 0, err
	}
	return number(ctx, tx, `SELECT token FROM leaderrun_fence WHERE resource = ? FOR UPDATE`, resource)
}

// raiseSQLite begins with an update: that locks the database, whether or not there is a row, and no trigger is in its way.
func raiseSQLite(ctx context.Context, tx *sql.Tx, resource string, token int64) (int64, error) {
	kept, err := rows(tx.ExecContext(ctx,
		`UPDATE leaderrun_fence SET token = ? WHERE resource = ? AND token <= ?`, token, resource, token))
	if err != nil || kept > 0 {
		return token, err
	}
	highest, err := number(ctx, tx, `SELECT token FROM leaderrun_fence WHERE resource = ?`, resource)
	if !errors.Is(err, sql.ErrNoRows) {
		return highest, err
	}
	_, err = tx.ExecContext(ctx, `INSERT INTO leaderrun_fence (resource, token) VALUES (?, ?)`, resource, token)
	return token, err
}

// mark makes the row of what the run does once. It says no if it is there.
func (d Dialect) mark(ctx context.Context, tx *sql.Tx, r fence.Run) (first bool, err error) {
	if d == MySQL {
		return markMySQL(ctx, tx, r)
	}
	values := "(?, ?, ?)"
	if d == PostgreSQL {
		values = "($1, $2, $3)"
	}
	made, err := rows(tx.ExecContext(ctx, `INSERT INTO leaderrun_done (job, tick, token) VALUES `+values+
		` ON CONFLICT (job, tick) DO NOTHING`, r.Job, r.Occasion(), r.Token))
	return made > 0, err
}

// markMySQL has no way to insert that fails for nothing but a row that is there, whatever the driver. It asks first, and
// locks what it asks for.
func markMySQL(ctx context.Context, tx *sql.Tx, r fence.Run) (first bool, err error) {
	_, err = number(ctx, tx, `SELECT token FROM leaderrun_done WHERE job = ? AND tick = ? FOR UPDATE`, r.Job, r.Occasion())
	if !errors.Is(err, sql.ErrNoRows) {
		return false, err
	}
	_, err = tx.ExecContext(ctx, `INSERT INTO leaderrun_done (job, tick, token) VALUES (?, ?, ?)`, r.Job, r.Occasion(), r.Token)
	return err == nil, err
}

func rows(result sql.Result, err error) (int64, error) {
	if err != nil {
		return 0, err
	}
	return result.RowsAffected()
}

func number(ctx context.Context, tx *sql.Tx, query string, args ...any) (n int64, err error) {
	err = tx.QueryRowContext(ctx, query, args...).Scan(&n)
	return n, err
}
