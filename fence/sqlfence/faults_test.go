package sqlfence_test

import (
	"bytes"
	"context"
	"database/sql"
	"errors"
	"io"
	"net"
	"sync/atomic"
	"testing"

	"github.com/leaderrun/leaderrun/fence"
	"github.com/leaderrun/leaderrun/fence/sqlfence"
)

// faultyDialer makes connections that break at the commit when they are told to.
type faultyDialer struct {
	loseRequest atomic.Bool // it does not arrive
	loseReply   atomic.Bool // it is done, and the answer does not arrive
}

func (f *faultyDialer) dial(ctx context.Context, network, addr string) (net.Conn, error) {
	c, err := (&net.Dialer{}).DialContext(ctx, network, addr)
	if err != nil {
		return nil, err
	}
	return &faultyConn{Conn: c, faults: f}, nil
}

type faultyConn struct {
	net.Conn
	faults *faultyDialer
	asked  atomic.Bool // for the commit
}

func (c *faultyConn) Write(p []byte) (int, error) {
	c.asked.Store(bytes.Contains(bytes.ToUpper(p), []byte("COMMIT")))
	if c.asked.Load() && c.faults.loseRequest.CompareAndSwap(true, false) {
		_ = c.Close()
		return 0, io.ErrClosedPipe
	}
	return c.Conn.Write(p)
}

func (c *faultyConn) Read(p []byte) (int, error) {
	n, err := c.Conn.Read(p)
	if c.asked.Load() && c.faults.loseReply.CompareAndSwap(true, false) {
		_ = c.Close()
		return 0, io.ErrUnexpectedEOF
	}
	return n, err
}

// unconfirmed: a connection breaks at the commit, before the server knows of it or after. Either is neither done nor stale to
// the caller, and whoever runs it again does it only where it is not done.
func (b *bed) unconfirmed(t *testing.T, open func(testing.TB, *faultyDialer) *sql.DB) {
	t.Helper()
	for i, c := range []struct {
		name string
		arm  func(*faultyDialer)
		done bool
	}{
		{"before", func(f *faultyDialer) { f.loseRequest.Store(true) }, false},
		{"after", func(f *faultyDialer) { f.loseReply.Store(true) }, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			balance := b.account(t, 20+i)
			faults := &faultyDialer{}
			run := fence.Run{Token: 1, Job: "unconfirmed", Tick: c.name}
			_, err := b.raised(t, open(t, faults), "unconfirmed", run).Once(t.Context(), func(tx *sql.Tx) error {
				err := b.pay(20 + i)(tx)
				c.arm(faults)
				return err
			})
			if unknown, ok := errors.AsType[*sqlfence.UnknownError](err); !ok || unknown.Resource != "unconfirmed" {
				t.Errorf("got %v", err)
			}
			if done := balance() == 900; done != c.done {
				t.Fatalf("done is %v: the fault is not what it should be", done)
			}
			run.Token = 2
			first, err := b.raised(t, b.open(t, nil), "unconfirmed", run).Once(t.Context(), b.pay(20+i))
			if err != nil || first == c.done || balance() != 900 {
				t.Errorf("run again: %v, %v, the balance is %d", first, err, balance())
			}
			if err := b.raised(t, b.open(t, nil), "unconfirmed", fence.Run{Token: 3}).Tx(t.Context(), nil, b.pay(20+i)); err != nil {
				t.Error(err) // what was broken off holds no lock
			}
		})
		b.exec(t, b.open(t, nil), "DELETE FROM leaderrun_fence")
	}
}

// clientKilled: the client is killed with its last statement still to come; whoever runs it again does it once.
func (b *bed) clientKilled(t *testing.T) {
	t.Helper()
	balance := b.account(t, 31)
	kill := map[sqlfence.Dialect]string{
		sqlfence.PostgreSQL: `\! kill -9 $PPID`, sqlfence.MySQL: `\! kill -9 $PPID`, sqlfence.SQLite: `.shell kill -9 $PPID`,
	}[b.dialect]
	names := []string{"'invoices'", "'killed'", "$LEADERRUN_JOB", "killed", "id = 7", "id = 31"}
	b.wantEnd(t, b.example(t, 1, append(names, "COMMIT;", kill+"\nCOMMIT;")...), 137, "", token(1), "LEADERRUN_TICK="+tick)
	if got := balance(); got != 1000 {
		t.Errorf("killed before the commit: the balance is %d", got)
	}
	for n := range 2 {
		b.wantEnd(t, b.example(t, 1, names...), 0, "", token(2+n), "LEADERRUN_TICK="+tick)
	}
	if got := balance(); got != 900 {
		t.Errorf("the balance is %d", got)
	}
}
