package sqlfence_test

import (
	"context"
	"database/sql"
	"errors"
	"testing"

	"github.com/leaderrun/leaderrun/fence"
	"github.com/leaderrun/leaderrun/fence/sqlfence"
)

// wantEnded: what a run calls done is what was committed under its fence.
func wantEnded(t *testing.T, resource string, err error) {
	t.Helper()
	if ended, ok := errors.AsType[*sqlfence.EndedError](err); !ok || ended.Resource != resource || errors.Unwrap(ended) == nil {
		t.Errorf("got %v", err)
	}
}

// ended: a statement ends the transaction, a newer run comes, and the older one writes.
func (b *bed) ended(t *testing.T) {
	t.Helper()
	balance := b.account(t, 13)
	db := b.open(t, nil)
	end := map[sqlfence.Dialect]string{
		sqlfence.PostgreSQL: `COMMIT`,
		sqlfence.MySQL:      `CREATE TABLE IF NOT EXISTS ended (n INT)`,
		sqlfence.SQLite:     `INSERT OR ROLLBACK INTO account VALUES (13, 0)`,
	}[b.dialect]
	run := fence.Run{Token: 41, Job: "ended", Tick: tick}
	first, err := b.raised(t, db, "ended", run).Once(t.Context(), func(tx *sql.Tx) error {
		_, _ = tx.Exec(end)
		b.raised(t, db, "ended", fence.Run{Token: 42})
		return b.pay(13)(tx)
	})
	wantEnded(t, "ended", err)
	if first {
		t.Error("it is done, for the first time")
	}
	if got := balance(); b.dialect == sqlfence.MySQL && got != 1000 {
		t.Errorf("what came after the end of the transaction is committed: the balance is %d", got)
	}
	for name, end := range map[string]func(*sql.Tx) error{"rollback": (*sql.Tx).Rollback, "commit": (*sql.Tx).Commit} {
		run := fence.Run{Token: 43, Job: "ended", Tick: name}
		first, err := b.raised(t, db, "ended", run).Once(t.Context(), end)
		wantEnded(t, "ended", err)
		if first {
			t.Errorf("after a %s it is done", name)
		}
	}
	if err := b.raised(t, db, "ended", fence.Run{Token: 44}).Tx(t.Context(), nil, b.pay(13)); err != nil {
		t.Errorf("the next transaction: %v", err)
	}
}

func (b *bed) cancelled(t *testing.T) {
	t.Helper()
	balance := b.account(t, 14)
	w := b.raised(t, b.open(t, nil), "cancelled", fence.Run{Token: 1})
	ctx, cancel := context.WithCancel(t.Context())
	err := w.Tx(ctx, nil, func(tx *sql.Tx) error {
		defer cancel()
		return b.pay(14)(tx)
	})
	_, unknown := errors.AsType[*sqlfence.UnknownError](err)
	_, ended := errors.AsType[*sqlfence.EndedError](err)
	if !errors.Is(err, context.Canceled) || unknown || ended {
		t.Errorf("got %v", err)
	}
	if got := balance(); got != 1000 {
		t.Errorf("the balance is %d", got)
	}
}
