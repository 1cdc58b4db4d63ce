package sqlfence

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"strings"
	"unicode"

	"github.com/leaderrun/leaderrun/fence"
)

// sqLite means the tables of the database that was opened, and no temporary ones of the same name.
type sqLite struct{ plainBegin }

// raise begins with an update: that locks the database, whether or not there is a row, and no trigger is in its way.
func (sqLite) raise(ctx context.Context, tx *sql.Tx, resource string, token int64) (int64, error) {
	kept, err := rows(tx.ExecContext(ctx,
		`UPDATE main.leaderrun_fence SET token = ? WHERE resource = ? AND token <= ?`, token, resource, token))
	if err != nil || kept > 0 {
		return token, err
	}
	highest, err := number(ctx, tx, `SELECT token FROM main.leaderrun_fence WHERE resource = ?`, resource)
	if !errors.Is(err, sql.ErrNoRows) {
		return highest, err
	}
	_, err = tx.ExecContext(ctx, `INSERT INTO main.leaderrun_fence (resource, token) VALUES (?, ?)`, resource, token)
	return token, err
}

func (sqLite) raiseOptions() *sql.TxOptions { return nil }

func (sqLite) mark(ctx context.Context, tx *sql.Tx, r fence.Run) (first bool, err error) {
	made, err := rows(tx.ExecContext(ctx, `INSERT INTO main.leaderrun_done (job, tick, token) VALUES (?, ?, ?)
ON CONFLICT (job, tick) DO NOTHING`, r.Job, r.Trigger(), r.Token))
	return made > 0, err
}

func (sqLite) noSavepoint() symptom { return symptom{texts: []string{"no such savepoint"}} }

func (sqLite) faults() []fault {
	return []fault{
		{fence.Configuration, symptom{texts: []string{"no such table", "no such column", "has no column named"}}, installHint(SQLite)},
		{fence.Credentials, symptom{texts: []string{"readonly database"}}, "the user needs the right to write the file and its folder"},
		{fence.Configuration, symptom{texts: []string{"unable to open database file", "file is not a database"}}, "see the path of the database"},
		{fence.Configuration, symptom{texts: []string{"syntax error"}}, "is it an SQLite database?"},
	}
}

// frame: without its trigger the table would take what a stale run inserts by REPLACE.
func (sqLite) frame() (before, after string) { return "BEGIN IMMEDIATE;\n\n", "\nCOMMIT;\n" }

// literal has no end of line, which would end the comment that it is in.
func (sqLite) literal(text string) string {
	if strings.ContainsFunc(text, unicode.IsControl) {
		return fmt.Sprintf("CAST(X'%X' AS TEXT)", text)
	}
	return quoted(text)
}
