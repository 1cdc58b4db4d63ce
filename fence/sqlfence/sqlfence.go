// Package sqlfence fences tables of a SQL database: a transaction of a run that was overtaken is refused before it writes.
//
// The database keeps the highest token of each resource in a row of a table (see Schema). The first statement of every
// transaction compares it, raises it and locks the row until the end of the transaction: two runs never write at the same
// time, and one that comes later sees what the one before it committed.
//
// It works on the caller's *sql.DB, with PostgreSQL, MySQL or MariaDB (InnoDB) and SQLite, and links no driver. What it
// knows of errors it reads from the SQLSTATE that the driver gives, or from the text.
//
// In PostgreSQL it finds the tables by the caller's search path: one with another leaderrun_fence in front has another fence.
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
	longestName    = 255
	longestTrigger = 300
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
	if _, err := ParseName(name); err != nil {
		return nil, fmt.Errorf("the name of the resource: %w", err)
	}
	return &Resource{db: db, dialect: d, name: name}, nil
}

// ParseName returns the name of a resource if a database can hold it: at most 255 bytes of text.
func ParseName(name string) (string, error) { return name, nameFits(name, longestName) }

func nameFits(name string, longest int) error {
	switch {
	case name == "":
		return errors.New("it is empty")
	case len(name) > longest:
		return fmt.Errorf("it is longer than %d bytes", longest)
	case !utf8.ValidString(name) || strings.ContainsRune(name, 0):
		return fmt.Errorf("%q is no text", name)
	}
	return nil
}

// Raise makes the database refuse every run before run from now on, in a transaction of its own. It waits for one of an
// earlier run that has the row, and only ctx bounds that: if the host of the earlier run has lost its power, the server may
// keep its transaction for hours. Have the server end idle ones (see Schema).
func (r *Resource) Raise(ctx context.Context, run fence.Run) (*Writer, error) {
	if err := fence.CheckToken(run.Token); err != nil {
		return nil, err
	}
	w := &Writer{resource: r, run: run}
	if err := w.checked(ctx, r.engine().raiseOptions(), func(*sql.Tx) error { return nil }); err != nil {
		return nil, err
	}
	return w, nil
}

func (r *Resource) engine() engine { return r.dialect.engine() }

// Writer is what a run writes with. It may be used by several goroutines at once; their transactions follow one another.
type Writer struct {
	resource *Resource
	run      fence.Run
}

// savepoint is in the transaction that was checked, and in no other one.
const savepoint = "leaderrun_fence"

// Tx runs do in a transaction whose first statement is the check of the fence, and commits. options may be nil.
//
// The error of do is returned as it is, and nothing is written. So is it with a *fence.StaleError and a *fence.SetupError.
// An *UnknownError says that the transaction may have been committed, and may not. REPEATABLE READ and SERIALIZABLE may end
// with the database's serialization failure instead of a wait (SQLSTATE 40001), and every mode with a deadlock (40P01, in
// MySQL 1213): nothing is written, and to try again is safe.
//
// To try again is to call Tx again: do returns the first error that it gets from tx, and never repeats a statement. After a
// deadlock in MySQL the transaction is gone, and the fence with it. Nor must do end the transaction itself, by COMMIT or by
// what commits on the spot (in MySQL: CREATE, ALTER, TRUNCATE). If the transaction is over when do returns nil, the error is
// an *EndedError. Rows that do reads are closed when it returns.
func (w *Writer) Tx(ctx context.Context, options *sql.TxOptions, do func(*sql.Tx) error) error {
	return w.checked(ctx, options, func(tx *sql.Tx) error {
		if _, err := tx.ExecContext(ctx, "SAVEPOINT "+savepoint); err != nil {
			return w.resource.explain("begin", err)
		}
		if err := do(tx); err != nil {
			return err
		}
		return w.stillChecked(ctx, tx)
	})
}

// checked is Tx that takes do at its word.
func (w *Writer) checked(ctx context.Context, options *sql.TxOptions, do func(*sql.Tx) error) error {
	tx, end, err := w.resource.engine().begin(ctx, w.resource.db, options)
	if err != nil {
		return w.resource.explain("begin", err)
	}
	committed := false
	defer func() {
		_ = tx.Rollback() // after a commit it does nothing
		end(committed)
	}()
	if err := w.Check(ctx, tx); err != nil {
		return err
	}
	if err := do(tx); err != nil {
		return err
	}
	if err := ctx.Err(); err != nil {
		return w.resource.explain("commit", err) // known not to have been asked for
	}
	if err := tx.Commit(); err != nil {
		return w.resource.uncommitted(err)
	}
	committed = true
	return nil
}

// stillChecked fails if the transaction is not the one with the savepoint, or can no longer be committed.
func (w *Writer) stillChecked(ctx context.Context, tx *sql.Tx) error {
	_, err := tx.ExecContext(ctx, "RELEASE SAVEPOINT "+savepoint)
	switch {
	case err == nil:
		return nil
	case w.resource.engine().noSavepoint().of(err), errors.Is(err, sql.ErrTxDone) && ctx.Err() == nil:
		return &EndedError{Resource: w.resource.name, Err: err}
	case ctx.Err() != nil: // which has rolled it back
		return w.resource.explain("commit", ctx.Err())
	}
	return w.resource.explain("commit", err)
}

// Check checks the fence in a transaction that the caller has begun, and keeps the row locked until its end.
//
// It must be the first statement of the transaction. What was read before it may be older than what the run before this one
// committed last, because MySQL and SQLite, and PostgreSQL in REPEATABLE READ, show a transaction what there was at its first
// read; and rows that were locked before it may be what an earlier run waits for while it has the fence.
//
// After an error, of Check or of any statement after it, the caller rolls back, and begins again with Check if at all. Who
// swallows the error of Check, or goes back to a savepoint from before it, writes without the fence; so does who repeats a
// statement after a deadlock in MySQL, which has rolled the whole transaction back. Tx notices that, Check cannot.
func (w *Writer) Check(ctx context.Context, tx *sql.Tx) error {
	highest, err := w.resource.engine().raise(ctx, tx, w.resource.name, w.run.Token)
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
// do is not called then.
//
// It is once for each job and tick in a database, whatever the resource: of two effects of one run the second would never
// happen. Put both into one transaction, or give each a name of its own in the place of the job: Run.Job = "JOB/effect".
func (w *Writer) Once(ctx context.Context, do func(*sql.Tx) error) (first bool, err error) {
	if err := w.hasTrigger(); err != nil {
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

// First is Once for a transaction that the caller has begun, after Check: whether it is the first one for the job and the
// tick or key. What holds for errors after Check holds here: a transaction that is rolled back has done nothing, and the next
// one begins with Check.
func (w *Writer) First(ctx context.Context, tx *sql.Tx) (bool, error) {
	if err := w.hasTrigger(); err != nil {
		return false, err
	}
	first, err := w.resource.engine().mark(ctx, tx, w.run)
	if err != nil {
		return false, w.resource.explain("mark "+w.run.Trigger(), err)
	}
	return first, nil
}

// hasTrigger says what the run lacks of what happens once.
func (w *Writer) hasTrigger() error {
	if w.run.Trigger() == "" {
		return errors.New("the run has neither a tick nor a key: there is nothing that it could do once")
	}
	if err := nameFits(w.run.Job, longestName); err != nil {
		return fmt.Errorf("the job: %w", err)
	}
	if err := nameFits(w.run.Trigger(), longestTrigger); err != nil {
		return fmt.Errorf("the tick or key: %w", err)
	}
	return nil
}
