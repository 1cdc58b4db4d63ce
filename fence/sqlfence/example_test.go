package sqlfence_test

import (
	"context"
	"database/sql"

	"github.com/leaderrun/leaderrun/fence"
	"github.com/leaderrun/leaderrun/fence/sqlfence"
)

// The command of a run writes its invoices once for each tick, and not at all if a later run has begun.
func Example() { //nolint:testableexamples // it needs a database
	send := func(ctx context.Context, db *sql.DB) error {
		run, err := fence.FromEnvironment()
		if err != nil {
			return err
		}
		invoices, err := sqlfence.New(db, sqlfence.PostgreSQL, "invoices")
		if err != nil {
			return err
		}
		writer, err := invoices.Raise(ctx, run) // before anything is read
		if err != nil {
			return err
		}
		_, err = writer.Once(ctx, func(tx *sql.Tx) error {
			_, err := tx.ExecContext(ctx, "UPDATE account SET balance = balance - 100 WHERE id = 7")
			return err
		})
		return err
	}
	_ = send
}
