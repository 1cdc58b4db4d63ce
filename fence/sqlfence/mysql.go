package sqlfence

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"fmt"

	"github.com/leaderrun/leaderrun/fence"
)

// mySQL knows what it has done by what it reads from the row then. The driver's number of rows depends on its options, and
// what a row that is there already makes of an INSERT, on the driver.
type mySQL struct{}

// begin turns autocommit off. InnoDB answers a deadlock by rolling back the whole transaction, and the fence with it: what a
// caller that has not noticed writes then is in another transaction, which nobody commits. With autocommit it would stay.
func (mySQL) begin(ctx context.Context, db *sql.DB, options *sql.TxOptions) (*sql.Tx, func(bool), error) {
	conn, err := db.Conn(ctx)
	if err != nil {
		return nil, nil, err
	}
	var tx *sql.Tx
	_, err = conn.ExecContext(ctx, "SET @leaderrun_autocommit = @@autocommit, autocommit = 0")
	if err == nil {
		tx, err = conn.BeginTx(ctx, options)
	}
	if err != nil {
		discard(conn)
		return nil, nil, err
	}
	return tx, func(committed bool) {
		if committed && commitsAgain(ctx, conn) {
			_ = conn.Close()
			return
		}
		discard(conn) // to turn autocommit on commits what is there
	}, nil
}

// commitsAgain makes autocommit what it was.
func commitsAgain(ctx context.Context, conn *sql.Conn) bool {
	_, err := conn.ExecContext(ctx, "SET autocommit = @leaderrun_autocommit")
	return err == nil
}

// discard ends a connection in the place of giving it back to the pool.
func discard(conn *sql.Conn) {
	_ = conn.Raw(func(any) error { return driver.ErrBadConn })
	_ = conn.Close()
}

// raise changes the row also where the token is the same. Where several servers write (Galera, group replication), locks
// are those of one server; they find a conflict between two transactions by the rows that both have changed.
func (mySQL) raise(ctx context.Context, tx *sql.Tx, resource string, token int64) (int64, error) {
	_, err := tx.ExecContext(ctx, `INSERT INTO leaderrun_fence (resource, token) VALUES (?, ?)
ON DUPLICATE KEY UPDATE checks = checks + 1, token = GREATEST(token, ?)`, resource, token, token)
	if err != nil {
		return 0, err
	}
	return number(ctx, tx, `SELECT token FROM leaderrun_fence WHERE resource = ? FOR UPDATE`, resource)
}

func (mySQL) raiseOptions() *sql.TxOptions { return nil }

// mark does not look for the row first: a lock on one that is not there yet is one on the gap around it, and the first
// transactions of two jobs would wait for each other.
func (mySQL) mark(ctx context.Context, tx *sql.Tx, r fence.Run) (first bool, err error) {
	_, err = tx.ExecContext(ctx, `INSERT INTO leaderrun_done (job, tick, token) VALUES (?, ?, ?)
ON DUPLICATE KEY UPDATE repeats = repeats + 1`, r.Job, r.Trigger(), r.Token)
	if err != nil {
		return false, err
	}
	repeats, err := number(ctx, tx, `SELECT repeats FROM leaderrun_done WHERE job = ? AND tick = ? FOR UPDATE`, r.Job, r.Trigger())
	return repeats == 0 && err == nil, err
}

func (mySQL) noSavepoint() symptom { return symptom{numbers: []string{"1305"}} }

func (mySQL) faults() []fault {
	return []fault{
		{fence.Configuration, symptom{numbers: []string{"1146", "1054"}}, installHint(MySQL)},
		{fence.Credentials, symptom{numbers: []string{"1044", "1142", "1143", "1227"}}, grantHint},
		{fence.Credentials, symptom{numbers: []string{"1045", "1698"}, states: []string{"28"}}, loginHint},
		{fence.Configuration, symptom{numbers: []string{"1290", "1792", "1836"}}, primaryHint},
		{fence.Configuration, symptom{numbers: []string{"1046", "1049"}}, databaseHint},
		{fence.Configuration, symptom{numbers: []string{"1064"}, states: []string{"42601"}}, "is it a MySQL or MariaDB database?"},
	}
}

// frame: CREATE commits on the spot.
func (mySQL) frame() (before, after string) { return "", "" }

// literal depends neither on the client's encoding nor on what a backslash is to the server.
func (mySQL) literal(text string) string {
	if plain(text) {
		return quoted(text)
	}
	return fmt.Sprintf("X'%X'", text)
}
