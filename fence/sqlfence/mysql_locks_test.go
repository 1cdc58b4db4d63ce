package sqlfence_test

import (
	"database/sql"
	"errors"
	"strings"
	"testing"

	"github.com/go-sql-driver/mysql"

	"github.com/leaderrun/leaderrun/fence"
	"github.com/leaderrun/leaderrun/test/servers"
)

// mysqlDeadlock: InnoDB rolls back the whole transaction of an older run, and the fence with it. A newer run comes, and the
// older one does not notice, but repeats its statement.
func mysqlDeadlock(t *testing.T, b *bed, s *servers.MariaDBServer) {
	t.Helper()
	one, two := b.account(t, 40), b.account(t, 41)
	db := b.open(t, nil)
	pay := func(tx *sql.Tx, id int) error {
		_, err := tx.Exec(`UPDATE account SET balance = balance - 100 WHERE id = ?`, id)
		return err
	}
	run := fence.Run{Token: 41, Job: "deadlock", Tick: tick}
	first, err := b.raised(t, db, "deadlock", run).Once(t.Context(), func(tx *sql.Tx) error {
		if err := pay(tx, 40); err != nil {
			return err
		}
		b.crossing(t, db, 41, 40, func() {
			if err := pay(tx, 41); err == nil || !strings.Contains(err.Error(), "1213") {
				t.Fatalf("it is no deadlock: %v", err)
			}
		})
		b.raised(t, db, "deadlock", fence.Run{Token: 42})
		return pay(tx, 41)
	})
	wantEnded(t, "deadlock", err)
	if first || one() != 1000 || two() != 1000 {
		t.Errorf("first is %v, the balances are %d and %d", first, one(), two())
	}
	run.Token = 43
	if first, err := b.raised(t, db, "deadlock", run).Once(t.Context(), b.pay(41)); !first || err != nil || two() != 900 {
		t.Errorf("the next run: %v, %v; the balance is %d", first, err, two())
	}
}

// crossing runs do while another transaction, which has done so much that InnoDB does not choose it to be rolled back, has
// one row and waits for the other.
func (b *bed) crossing(t *testing.T, db *sql.DB, has, wants int, do func()) {
	t.Helper()
	other, err := db.BeginTx(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = other.Rollback() }()
	const touch = `UPDATE account SET balance = balance + 1 WHERE id = ?`
	_, err = other.Exec(touch, has)
	for id := range 100 {
		_, more := other.Exec(`INSERT INTO account VALUES (?, 0)`, 1000+id)
		err = errors.Join(err, more)
	}
	if err != nil {
		t.Fatal(err)
	}
	waited := make(chan error, 1)
	go func() {
		_, err := other.Exec(touch, wants)
		waited <- err
	}()
	servers.Eventually(t, "the other transaction waits", func() bool { return b.waits(t) })
	do()
	if err := <-waited; err != nil {
		t.Fatalf("the other transaction: %v", err)
	}
}

// mysqlAutocommit: what the caller writes with a connection that a transaction was on is committed, and one on which it failed is
// not used again.
func mysqlAutocommit(t *testing.T, b *bed, s *servers.MariaDBServer) {
	t.Helper()
	for _, configured := range []string{"1", "0"} {
		db := openMySQL(t, s, func(c *mysql.Config) { c.Params = map[string]string{"autocommit": configured} })
		db.SetMaxOpenConns(1)
		w := b.raised(t, db, "autocommit", fence.Run{Token: 1})
		for name, do := range map[string]func(*sql.Tx) error{
			"done": func(*sql.Tx) error { return nil }, "refused": func(*sql.Tx) error { return errors.New("no") },
		} {
			_ = w.Tx(t.Context(), nil, do)
			var got string
			if err := db.QueryRow(`SELECT @@autocommit`).Scan(&got); err != nil || got != configured {
				t.Errorf("%s: autocommit was %s and is %s; %v", name, configured, got, err)
			}
		}
	}
}

// mysqlRowEvents: where several servers write, they find a conflict of two transactions by the rows that both have changed. A check
// with the token that is there already must change its row too.
func mysqlRowEvents(t *testing.T, b *bed, s *servers.MariaDBServer) {
	t.Helper()
	db := openMySQL(t, s, func(c *mysql.Config) { c.Params = map[string]string{"binlog_format": "ROW"} })
	position := func() (at int64) {
		t.Helper()
		var file, do, ignore string
		if err := db.QueryRow(`SHOW MASTER STATUS`).Scan(&file, &at, &do, &ignore); err != nil {
			t.Fatal(err)
		}
		return at
	}
	w := b.raised(t, db, "events", fence.Run{Token: 5})
	for name, check := range map[string]func() error{
		"package": func() error { return w.Tx(t.Context(), nil, func(*sql.Tx) error { return nil }) },
		"called": func() error {
			var n int
			return db.QueryRow(`SELECT leaderrun_fence('events', 5)`).Scan(&n)
		},
	} {
		before := position()
		if err := check(); err != nil || position() == before {
			t.Errorf("%s: no event after %d; %v", name, before, err)
		}
	}
}

// mysqlGaps: a lock on the place of a row that is not there yet would be one on those of other jobs.
func mysqlGaps(t *testing.T, b *bed, s *servers.MariaDBServer) {
	t.Helper()
	db := openMySQL(t, s, func(c *mysql.Config) { c.Params = map[string]string{"innodb_lock_wait_timeout": "1"} })
	first := func(tx *sql.Tx, name string) error {
		_, err := b.raised(t, db, name, fence.Run{Token: 1, Job: "gaps " + name, Tick: tick}).First(t.Context(), tx)
		return err
	}
	called := func(tx *sql.Tx, name string) error {
		var n int
		return tx.QueryRow(`SELECT leaderrun_once(?, ?, 1)`, "gaps "+name, tick).Scan(&n)
	}
	var open []*sql.Tx
	for name, mark := range map[string]func(*sql.Tx, string) error{"a": first, "b": first, "c": called, "d": called} {
		tx, err := db.BeginTx(t.Context(), nil)
		if err != nil {
			t.Fatal(err)
		}
		open = append(open, tx)
		if err := mark(tx, name); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
	for _, tx := range open {
		if err := tx.Rollback(); err != nil {
			t.Error(err)
		}
	}
}
