package sqlfence_test

import (
	"context"
	"database/sql"
	"errors"
	"math"
	"strings"
	"testing"

	"github.com/leaderrun/leaderrun/fence"
	"github.com/leaderrun/leaderrun/fence/sqlfence"
	"github.com/leaderrun/leaderrun/test/servers"
)

const tick = "2026-01-05T02:00:00Z"

// suite is what holds in every database.
func (b *bed) suite(t *testing.T) {
	t.Helper()
	for name, test := range map[string]func(*testing.T){
		"a stale run writes nothing":                        b.stale,
		"what a callback refuses is not written":            b.callbackFails,
		"names that differ in case or blanks are different": b.names,
		"transactions of a run follow one another":          b.follow,
		"once for a tick":                                   b.once,
		"once needs a tick":                                 b.noTick,
		"the tables are missing":                            b.missing,
		"the tables are made where they are missing":        b.installed,
		"a transaction that ends too early is no success":   b.ended,
		"a cancelled transaction is known to be none":       b.cancelled,
		"the printed example":                               b.printedFence,
		"any name can be printed":                           b.printedResource,
		"any job and tick can be in the environment":        b.printedJob,
		"the printed example of once":                       b.printedOnce,
		"a client is killed before the commit":              b.clientKilled,
	} {
		t.Run(name, test)
	}
}

func (b *bed) stale(t *testing.T) {
	t.Helper()
	db := b.open(t, nil)
	balance := b.account(t, 1)
	older := b.raised(t, db, "stale", fence.Run{Token: 41})
	newer := b.raised(t, db, "stale", fence.Run{Token: 42})
	refused := func(err error) {
		t.Helper()
		stale, ok := errors.AsType[*fence.StaleError](err)
		if !ok || *stale != (fence.StaleError{Resource: "stale", Token: 41, Highest: 42}) {
			t.Errorf("got %v", err)
		}
	}
	refused(older.Tx(t.Context(), nil, func(*sql.Tx) error { t.Error("a stale run is called"); return nil }))
	_, err := b.resource(t, db, "stale").Raise(t.Context(), fence.Run{Token: 41})
	refused(err)
	tx, err := db.BeginTx(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	refused(older.Check(t.Context(), tx))
	if err := tx.Rollback(); err != nil {
		t.Error(err)
	}
	for range 2 { // the same token is the same run
		if err := newer.Tx(t.Context(), nil, b.pay(1)); err != nil {
			t.Error(err)
		}
	}
	b.raised(t, db, "stale", fence.Run{Token: 42})
	for _, none := range []int64{0, -1, math.MaxInt64} {
		if _, err := b.resource(t, db, "no token").Raise(t.Context(), fence.Run{Token: none}); err == nil {
			t.Errorf("%d is a token", none)
		}
	}
	if got := balance(); got != 800 {
		t.Errorf("the balance is %d", got)
	}
}

func (b *bed) callbackFails(t *testing.T) {
	t.Helper()
	balance := b.account(t, 2)
	w := b.raised(t, b.open(t, nil), "callback", fence.Run{Token: 1, Job: "callback", Tick: tick})
	enough := errors.New("enough")
	failing := func(tx *sql.Tx) error { return errors.Join(b.pay(2)(tx), enough) }
	if err := w.Tx(t.Context(), nil, failing); !errors.Is(err, enough) {
		t.Errorf("got %v", err)
	}
	if first, err := w.Once(t.Context(), failing); first || !errors.Is(err, enough) {
		t.Errorf("got %v, %v", first, err)
	}
	if got := balance(); got != 1000 {
		t.Errorf("the balance is %d", got)
	}
	if first, err := w.Once(t.Context(), b.pay(2)); !first || err != nil {
		t.Errorf("after a failure it is done: %v, %v", first, err)
	}
}

func (b *bed) names(t *testing.T) {
	t.Helper()
	db := b.open(t, nil)
	b.raised(t, db, "name", fence.Run{Token: 9})
	for _, other := range []string{"Name", "name ", "náme", "nàme"} {
		b.raised(t, db, other, fence.Run{Token: 3})
	}
	for _, wrong := range []string{"", strings.Repeat("x", 256), "a\x00b", "\xff"} {
		if _, err := sqlfence.New(db, b.dialect, wrong); err == nil {
			t.Errorf("%q is a name", wrong)
		}
	}
	if _, err := sqlfence.New(db, "oracle", "name"); err == nil {
		t.Error("oracle is a dialect")
	}
}

// follow: a transaction that waits for another one sees what that committed, also where a transaction sees what there was
// when it first read.
func (b *bed) follow(t *testing.T) {
	t.Helper()
	b.account(t, 3)
	writer := func() *sqlfence.Writer { return b.raised(t, b.open(t, nil), "follow", fence.Run{Token: 7}) }
	one, two := writer(), writer()
	for _, options := range []*sql.TxOptions{nil, {Isolation: sql.LevelRepeatableRead}} {
		locked, done := make(chan struct{}), make(chan error, 1)
		var seen int
		look := func(tx *sql.Tx) error {
			return tx.QueryRow(`SELECT balance FROM account WHERE id = 3`).Scan(&seen)
		}
		var before int
		err := one.Tx(t.Context(), nil, func(tx *sql.Tx) error {
			err := tx.QueryRow(`SELECT balance FROM account WHERE id = 3`).Scan(&before)
			go func() {
				close(locked)
				done <- two.Tx(t.Context(), options, look)
			}()
			<-locked
			if b.waits != nil {
				servers.Eventually(t, "the second transaction waits", func() bool { return b.waits(t) })
			}
			return errors.Join(err, b.pay(3)(tx))
		})
		if err != nil {
			t.Fatal(err)
		}
		err = <-done
		if options != nil && b.strict != "" {
			if err == nil || !strings.Contains(err.Error(), b.strict) {
				t.Errorf("got %v, want %s", err, b.strict)
			}
			continue
		}
		if err != nil || seen != before-100 {
			t.Errorf("%+v: it sees %d and not %d; %v", options, seen, before-100, err)
		}
	}
}

func (b *bed) once(t *testing.T) {
	t.Helper()
	db := b.open(t, nil)
	balance := b.account(t, 4)
	for _, c := range []struct {
		run  fence.Run
		want bool
	}{
		{fence.Run{Token: 1, Job: "job", Tick: tick}, true},
		{fence.Run{Token: 1, Job: "job", Tick: tick}, false}, // tried again by the same run
		{fence.Run{Token: 2, Job: "job", Tick: tick}, false}, // and by another one
		{fence.Run{Token: 2, Job: "job", Tick: "2026-01-06T02:00:00Z"}, true},
		{fence.Run{Token: 2, Job: "Job", Tick: tick}, true},
		{fence.Run{Token: 2, Job: "job", Once: tick}, true},
		{fence.Run{Token: 2, Job: strings.Repeat("j", 255), Once: strings.Repeat("k", 255)}, true},
		{fence.Run{Token: 2, Job: strings.Repeat("j", 255), Once: strings.Repeat("k", 255)}, false},
		{fence.Run{Token: 3, Job: "job", Once: strings.Repeat("k", 254)}, true},
	} {
		before := balance()
		first, err := b.raised(t, db, "once", c.run).Once(t.Context(), b.pay(4))
		if err != nil || first != c.want || (before-balance() == 100) != c.want {
			t.Errorf("%+v: got %v, %v, and %d less", c.run, first, err, before-balance())
		}
	}
}

func (b *bed) noTick(t *testing.T) {
	t.Helper()
	db := b.open(t, nil)
	for _, r := range []fence.Run{
		{Token: 1, Job: "job"},
		{Token: 1, Tick: tick},
		{Token: 1, Job: "job", Once: strings.Repeat("k", 296)},
	} {
		first, err := b.raised(t, db, "no tick", r).Once(t.Context(), func(*sql.Tx) error { t.Errorf("%+v: called", r); return nil })
		if err == nil || first {
			t.Errorf("%+v: got %v, %v", r, first, err)
		}
	}
}

// rename takes a table away and returns what brings it back.
func (b *bed) rename(t *testing.T, db *sql.DB, name string) func() {
	t.Helper()
	b.exec(t, db, "ALTER TABLE "+name+" RENAME TO away")
	return func() { b.exec(t, db, "ALTER TABLE away RENAME TO "+name) }
}

func (b *bed) missing(t *testing.T) {
	t.Helper()
	db := b.open(t, nil)
	w := b.raised(t, db, "missing", fence.Run{Token: 1, Job: "missing", Tick: tick})
	back := b.rename(t, db, "leaderrun_fence")
	_, err := b.resource(t, db, "missing").Raise(t.Context(), fence.Run{Token: 1})
	b.wantSetup(t, err, fence.Configuration, "leaderrun fence sql --dialect "+string(b.dialect))
	back()
	back = b.rename(t, db, "leaderrun_done")
	_, err = w.Once(t.Context(), func(*sql.Tx) error { return nil })
	b.wantSetup(t, err, fence.Configuration, "leaderrun fence sql --dialect "+string(b.dialect))
	back()
}

func (b *bed) wantSetup(t *testing.T, err error, kind fence.SetupKind, hint string) {
	t.Helper()
	setup, ok := errors.AsType[*fence.SetupError](err)
	if !ok || setup.Kind != kind || !strings.Contains(setup.Hint, hint) {
		t.Errorf("got %#v: %v", err, err)
	}
}

func (b *bed) installed(t *testing.T) {
	t.Helper()
	db := b.open(t, nil)
	b.raised(t, db, "installed", fence.Run{Token: 5})
	for range 2 {
		if err := sqlfence.Install(t.Context(), db, b.dialect); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := b.resource(t, db, "installed").Raise(t.Context(), fence.Run{Token: 4}); err == nil {
		t.Error("the fence is forgotten")
	}
	back := b.rename(t, db, "leaderrun_done")
	if err := sqlfence.Install(t.Context(), db, b.dialect); err != nil {
		t.Fatal(err)
	}
	first, err := b.raised(t, db, "installed", fence.Run{Token: 5, Job: "installed", Tick: tick}).Once(t.Context(), func(*sql.Tx) error { return nil })
	if err != nil || !first {
		t.Errorf("got %v, %v", first, err)
	}
	b.exec(t, db, "DROP TABLE leaderrun_done")
	back()
	cancelled, cancel := context.WithCancel(t.Context())
	cancel()
	if err := sqlfence.Install(cancelled, db, b.dialect); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v", err)
	}
}
