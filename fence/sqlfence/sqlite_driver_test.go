//go:build cgo

package sqlfence_test

import (
	"context"
	"database/sql/driver"

	"github.com/mattn/go-sqlite3"

	"github.com/leaderrun/leaderrun/fence/fencetest"
)

// gatedSQLite connects to a file; before and after everything that is done there is a step. There is no network that could be
// stopped, and nobody sees the middle of a step of SQLite.
type gatedSQLite struct {
	dsn  string
	gate *fencetest.Gate
}

func (g *gatedSQLite) Driver() driver.Driver { return &sqlite3.SQLiteDriver{} }

func (g *gatedSQLite) Connect(context.Context) (driver.Conn, error) {
	c, err := g.Driver().Open(g.dsn)
	if err != nil {
		return nil, err
	}
	return &gatedSQLiteConn{SQLiteConn: c.(*sqlite3.SQLiteConn), gate: g.gate}, nil //nolint:forcetypeassert // it is
}

// around is a step before what follows, and one after it when it is called.
func around(g *fencetest.Gate, what string) func() {
	g.Step("before " + what)
	return func() { g.Step("after " + what) }
}

type gatedSQLiteConn struct {
	*sqlite3.SQLiteConn
	gate *fencetest.Gate
}

func (c *gatedSQLiteConn) BeginTx(ctx context.Context, o driver.TxOptions) (driver.Tx, error) {
	defer around(c.gate, "begin")()
	tx, err := c.SQLiteConn.BeginTx(ctx, o)
	return &gatedSQLiteTx{Tx: tx, gate: c.gate}, err
}

func (c *gatedSQLiteConn) ExecContext(ctx context.Context, query string, args []driver.NamedValue) (driver.Result, error) {
	defer around(c.gate, query)()
	return c.SQLiteConn.ExecContext(ctx, query, args)
}

func (c *gatedSQLiteConn) QueryContext(ctx context.Context, query string, args []driver.NamedValue) (driver.Rows, error) {
	defer around(c.gate, query)()
	return c.SQLiteConn.QueryContext(ctx, query, args)
}

type gatedSQLiteTx struct {
	driver.Tx

	gate *fencetest.Gate
}

func (tx *gatedSQLiteTx) Commit() error {
	defer around(tx.gate, "commit")()
	return tx.Tx.Commit()
}
