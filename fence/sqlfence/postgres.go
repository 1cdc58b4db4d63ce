package sqlfence

import (
	"context"
	"database/sql"
	"fmt"
	"strings"

	"github.com/leaderrun/leaderrun/fence"
)

type postgreSQL struct{ plainBegin }

// raise writes the row also where the token is the same. A transaction in REPEATABLE READ that waits for it does not see
// what this one commits; it fails because the row was written, and not only locked.
func (postgreSQL) raise(ctx context.Context, tx *sql.Tx, resource string, token int64) (int64, error) {
	kept, err := rows(tx.ExecContext(ctx, `INSERT INTO leaderrun_fence AS f (resource, token) VALUES ($1, $2)
ON CONFLICT (resource) DO UPDATE SET token = excluded.token WHERE f.token <= excluded.token`, resource, token))
	if err != nil || kept > 0 {
		return token, err
	}
	return number(ctx, tx, `SELECT token FROM leaderrun_fence WHERE resource = $1`, resource)
}

// raiseOptions: one that waits for an earlier run would fail in a stricter mode, which may be the server's default.
func (postgreSQL) raiseOptions() *sql.TxOptions {
	return &sql.TxOptions{Isolation: sql.LevelReadCommitted}
}

func (postgreSQL) mark(ctx context.Context, tx *sql.Tx, r fence.Run) (first bool, err error) {
	made, err := rows(tx.ExecContext(ctx, `INSERT INTO leaderrun_done (job, tick, token) VALUES ($1, $2, $3)
ON CONFLICT (job, tick) DO NOTHING`, r.Job, r.Trigger(), r.Token))
	return made > 0, err
}

func (postgreSQL) noSavepoint() symptom { return symptom{states: []string{"25P01", "3B001"}} }

func (postgreSQL) faults() []fault {
	return []fault{
		{fence.Configuration, symptom{states: []string{"42P01", "3F000", "42703", "42P10"}}, installHint(PostgreSQL)},
		{fence.Configuration, symptom{states: []string{"LR077"}}, "set the search path to the schema that has the tables"},
		{fence.Credentials, symptom{states: []string{"42501"}}, grantHint},
		{fence.Credentials, symptom{states: []string{"28"}}, loginHint},
		{fence.Configuration, symptom{states: []string{"25006"}}, primaryHint},
		{fence.Configuration, symptom{states: []string{"3D000"}}, databaseHint},
		{fence.Configuration, symptom{states: []string{"42601"}, numbers: []string{"1064"}}, "is it a PostgreSQL database?"},
	}
}

// frame: a function that is replaced has lost its search path until it is set again, and nobody is to call it then.
func (postgreSQL) frame() (before, after string) { return "BEGIN;\n\n", "\nCOMMIT;\n" }

// literal depends neither on the client's encoding nor on what a backslash is to the server.
func (postgreSQL) literal(text string) string {
	if plain(text) {
		return quoted(text)
	}
	var escaped strings.Builder
	for _, r := range text {
		switch {
		case r == '\\':
			escaped.WriteString(`\\`)
		case r < ' ', r > '~': // also an end of line, which would end the comment
			fmt.Fprintf(&escaped, `\U%08X`, r)
		default:
			escaped.WriteRune(r)
		}
	}
	return "E" + quoted(escaped.String())
}
