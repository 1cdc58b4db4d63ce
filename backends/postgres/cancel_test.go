package postgres

import (
	"context"
	"slices"
	"testing"
	"time"

	"github.com/leaderrun/leaderrun/backends"
	"github.com/leaderrun/leaderrun/backends/postgres/wire"
	"github.com/leaderrun/leaderrun/test/servers"
	"github.com/leaderrun/leaderrun/test/suite"
)

// stuck returns which transaction waits for the standby; "": none.
func (w *world) stuck() string {
	w.Helper()
	return w.server.Do(w, "SELECT coalesce(min(pid || ' since ' || xact_start), '') FROM pg_stat_activity WHERE wait_event = 'SyncRep'")
}

// givesUp makes a step that waits for the standby in a transaction of its own, not in another's that was there before, and
// whose caller stops to wait then, until the server has heard of that: what is asked before waits for the row, finds it
// changed, and waits for the standby without having written. It returns which transaction that was.
func (w *world) givesUp(what, before string, step func(context.Context) error) (transaction string) {
	w.Helper()
	ctx, cancel := context.WithTimeout(w.Context(), suite.Patience)
	defer cancel()
	done := make(chan error, 1)
	go func() { done <- step(ctx) }()
	servers.Eventually(w, what+" waits for the standby", func() bool {
		transaction = w.stuck()
		return transaction != "" && transaction != before
	})
	cancel()
	w.WantUnknown(what+" without the standby", <-done)
	servers.Eventually(w, what+" keeps nothing locked", func() bool { return w.stuck() != transaction })
	return transaction
}

// TestStandbyAway: a claim that waits for the standby when its wrapper gives up does not keep its row locked: it is taken
// back at once, and when the standby is back nobody has had the tick.
func TestStandbyAway(t *testing.T) {
	t.Parallel()
	for name, pooled := range map[string]bool{"PostgreSQL": false, "PgBouncer": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w, set := synchronous(t)
			if pooled {
				pooler := servers.PgBouncer(t, w.server)
				w.d = open(t, with(pooler.URL(), "longest-ttl=5m"))
			}
			cfg := w.d.store.cfg.wire
			cfg.CancelLimit = suite.Patience // the machine may be busy
			w.d.store.client = wire.NewClient(cfg)
			standby := set.Standbys(t)[0]
			standby.Stop(t)
			c := newSteady("job")
			c.Tick, c.OnLost, c.MaxAttempts = time.Now().Unix(), backends.Skip, 1
			claim := func(ctx context.Context) error { _, err := w.d.Acquire(ctx, c); return err }
			last := w.givesUp("a claim", "", claim)
			last = w.givesUp("the claim again", last, claim)
			w.givesUp("the end of the claim", last, func(ctx context.Context) error { return w.d.Abandon(ctx, c) })
			servers.Eventually(t, "no process waits", func() bool {
				return w.server.Do(t, "SELECT count(*) FROM pg_stat_activity WHERE wait_event = 'SyncRep' OR wait_event_type = 'Lock'") == "0"
			})
			standby.Cont(t)
			set.Agreed(t)

			status, err := w.other.Inspect(t.Context(), c.Job)
			if err != nil || status.Lease != nil || status.Record.Tick.Tick != c.Tick || status.Record.Tick.State != backends.Open {
				t.Errorf("%+v, %v; want a tick that is open", status, err)
			}
			w.Refused(w.d, c, backends.Abandoned)
			next := newSteady("job")
			next.Trigger = c.Trigger
			if g := w.Acquire(w.other, next); g.Tick != c.Tick || len(g.Lost) != 0 {
				t.Errorf("the tick %d, and %+v were lost; want the tick %d, and nothing lost", g.Tick, g.Lost, c.Tick)
			}
		})
	}
}

// spy notes whether the last write is cancelled on the server if nobody waits for it.
type spy struct {
	client
	cancels bool
}

func (s *spy) Ask(ctx context.Context, batch []wire.Statement, check func(wire.Reply) error) (wire.Reply, error) {
	s.cancels = slices.ContainsFunc(batch, func(s wire.Statement) bool { return s.Cancel })
	return s.client.Ask(ctx, batch, check)
}

// TestCancelsWhereStandbysConfirm: elsewhere every wait has a limit, and a server that is slow is not asked for more. A run is
// told by its renewals when that changes.
func TestCancelsWhereStandbysConfirm(t *testing.T) {
	t.Parallel()
	set := servers.PostgresReplicas(t, 0, servers.PostgresOptions{}, servers.PostgresOptions{})
	w := worldOf(t, set.Leader(t), "")
	writes := &spy{client: w.d.store.client}
	w.d.store.client = writes
	g := w.Acquire(w.d, newSteady("job"))
	if w.Renew(w.d, g); writes.cancels {
		t.Error("a write is cancelled that waits for nobody")
	}
	w.server.Do(t, "ALTER SYSTEM SET synchronous_standby_names = '*'")
	w.server.Do(t, "SELECT pg_reload_conf()")
	servers.Eventually(t, "a renewal is cancelled that waits for the standby", func() bool {
		w.Renew(w.d, g)
		return writes.cancels
	})
}
