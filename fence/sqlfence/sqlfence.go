// Package sqlfence fences tables of a SQL database: a transaction of a run that was overtaken is refused before it writes.
//
// The database keeps the highest token of each resource in a row of a table (see Schema). The first statement of every
// transaction compares it, raises it and locks the row until the end of the transaction: two runs never write at the same
// time, and one that comes later sees what the one before it committed.
//
// It works on the caller's *sql.DB, with PostgreSQL, MySQL or MariaDB (InnoDB) and SQLite, and links no driver. What it
// knows of errors it reads from the SQLSTATE that the driver gives, or from the text.
package sqlfence

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"strings"
	"unicode/utf8"

	"github.com/leaderrun/leaderrun/fence"
)

// The longest names that the tables hold, in bytes. The key of --once is at most 255 long.
const (
	longestName     = 255
	longestOccasion = 300
)

var _ fence.Resource[*Writer] = (*Resource)(nil)

// Resource is what of a database is protected under one name. Several may be in one database.
type Resource struct {
	db      *sql.DB
	dialect Dialect
	name    string
}

// New returns a resource in a database. It does not connect. The pool stays the caller's, who closes it.
//
// SQLite: the driver should wait for a locked database (a busy timeout).
func New(db *sql.DB, d Dialect, name string) (*Resource, error) {
	if _, err := ParseDialect(string(d)); err != nil {
		return nil, err
	}
	if err := nameFits("the resource", name, longestName); err != nil {
		return nil, err
	}
	return &Resource{db: db, dialect: d, name: name}, nil
}

func nameFits(what, name string, longest int) error {
	switch {
	case name == "":
		return fmt.Errorf("%s has no name", what)
	case len(name) > longest:
		return fmt.Errorf("%s: the name is longer than %d bytes", what, longest)
	case !utf8.ValidString(name) || strings.ContainsRune(name, 0):
		return fmt.Errorf("%s: the name %q is no text", what, name)
	}
	return nil
}

// Raise makes the database refuse every run before run from now on, in a transaction of its own. It waits for one of an
// earlier run that has the row.
func (r *Resource) Raise(ctx context.Context, run fence.Run) (*Writer, error) {
	if run.Token < 1 {
		return nil, fmt.Errorf("%s: %d is not the token of a run", r.name, run.Token)
	}
	w := &Writer{resource: r, run: run}
	if err := w.Tx(ctx, r.dialect.raiseOptions(), func(*sql.Tx) error { return nil }); err != nil {
		return nil, err
	}
	return w, nil
}

// Writer is what a run writes with. It may be used by several goroutines at once; their transactions follow one another.
type Writer struct {
	resource *Resource
	run      fence.Run
}

// Tx runs do in a transaction whose first statement is the check of the fence, and commits. options may be nil.
//
// The error of do is returned as it is, and nothing is written. So is it with a *fence.StaleError and a *fence.SetupError.
// An *UnknownError says that the transaction may have been committed, and may not. REPEATABLE READ and SERIALIZABLE may end
// with the database's serialization failure instead of a wait (SQLSTATE 40001): nothing is written, and to try again is safe.
//
// What commits on the spot (in MySQL: CREATE, ALTER, TRUNCATE) ends the protection; do must not call it, nor Commit.
func (w *Writer) Tx(ctx context.Context, options *sql.TxOptions, do func(*sql.Tx) error) error {
	tx, err := w.resource.db.BeginTx(ctx, options)
	if err != nil {
		return w.resource.explain("begin", err)
	}
	defer func() { _ = tx.Rollback() }() // after a commit it does nothing
	if err := w.Check(ctx, tx); err != nil {
		return err
	}
	if err := do(tx); err != nil {
		return err
	}
	if err := tx.Commit(); err != nil {
		return w.resource.uncommitted(err)
	}
	return nil
}

// Check checks the fence in a transaction that the caller has begun, and keeps the row locked until its end. After an error
// the caller rolls back.
//
// It must be the first statement of the transaction. What was read before it may be older than what the run before this one
// committed last, because MySQL and SQLite, and PostgreSQL in REPEATABLE READ, show a transaction what there was at its first
// read; and rows that were locked before it may be what an earlier run waits for while it has the fence.
func (w *Writer) Check(ctx context.Context, tx *sql.Tx) error {
	highest, err := w.resource.dialect.raise(ctx, tx, w.resource.name, w.run.Token)
	if err != nil {
		return w.resource.explain("check the fence", err)
	}
	if highest > w.run.Token {
		return &fence.StaleError{Resource: w.resource.name, Token: w.run.Token, Highest: highest}
	}
	return nil
}

// Once is Tx for what is done once for each tick, or key of --once, of the run's job: also when the run is repeated after a
// crash, by a run with a higher token. That it is done is a row in the same transaction. first is false if it was done before;
// do is not called then. The database knows the job and the tick, whatever the resource: for two effects in one database,
// put both into one transaction.
func (w *Writer) Once(ctx context.Context, do func(*sql.Tx) error) (first bool, err error) {
	if err := w.hasOccasion(); err != nil {
		return false, err
	}
	err = w.Tx(ctx, nil, func(tx *sql.Tx) error {
		if first, err = w.First(ctx, tx); err != nil || !first {
			return err
		}
		return do(tx)
	})
	return first && err == nil, err
}

// First is Once for a transaction that the caller has begun, after Check: whether it is the first one for the tick or key.
func (w *Writer) First(ctx context.Context, tx *sql.Tx) (bool, error) {
	if err := w.hasOccasion(); err != nil {
		return false, err
	}
	first, err := w.resource.dialect.mark(ctx, tx, w.run)
	if err != nil {
		return false, w.resource.explain("mark "+w.run.Occasion(), err)
	}
	return first, nil
}

// hasOccasion says what the run lacks of what happens once.
func (w *Writer) hasOccasion() error {
	if w.run.Occasion() == "" {
		return errors.New("the run has neither a tick nor a key: there is nothing that it could do once")
	}
	return errors.Join(nameFits("the job", w.run.Job, longestName), nameFits("the tick or key", w.run.Occasion(), longestOccasion))
}
