package sqlfence

import (
	"context"
	"database/sql"
	"fmt"
	"slices"

	"github.com/leaderrun/leaderrun/fence"
)

// Dialect is what a database speaks.
type Dialect string

// The dialects. MariaDB speaks MySQL. Clusters in which several servers take writes (Galera, group replication) are not
// tried.
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

// engine is what each database does in a way of its own.
type engine interface {
	// begin begins a transaction. end is called after it was committed, or rolled back.
	begin(ctx context.Context, db *sql.DB, options *sql.TxOptions) (tx *sql.Tx, end func(committed bool), err error)

	// raise keeps the token if none is higher, locks the row and returns the highest token seen. Its first statement writes:
	// it waits for the lock before the transaction has read anything.
	raise(ctx context.Context, tx *sql.Tx, resource string, token int64) (highest int64, err error)

	// raiseOptions are those of a transaction that only raises the fence.
	raiseOptions() *sql.TxOptions

	// mark makes the row of what the run does once. It says no if it is there.
	mark(ctx context.Context, tx *sql.Tx, r fence.Run) (first bool, err error)

	// noSavepoint is how the database says that a transaction is not the one with the savepoint.
	noSavepoint() symptom

	// faults are what somebody has to mend.
	faults() []fault

	// frame is what the schema is printed between.
	frame() (before, after string)

	// literal writes a text, for a statement that any client sends.
	literal(text string) string
}

func (d Dialect) engine() engine {
	switch d {
	case PostgreSQL:
		return postgreSQL{}
	case MySQL:
		return mySQL{}
	}
	return sqLite{}
}

// plainBegin is begin where a transaction needs nothing around it.
type plainBegin struct{}

func (plainBegin) begin(ctx context.Context, db *sql.DB, options *sql.TxOptions) (*sql.Tx, func(bool), error) {
	tx, err := db.BeginTx(ctx, options)
	return tx, func(bool) {}, err
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
