package postgres

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/leaderrun/leaderrun/backends"
	"github.com/leaderrun/leaderrun/backends/postgres/wire"
	"github.com/leaderrun/leaderrun/test/servers"
	"github.com/leaderrun/leaderrun/test/suite"
)

// granted asks until a claim is granted, and returns the verdicts on the way there.
func granted(t *testing.T, d *driver, c backends.Claim) (backends.Grant, []backends.Verdict) {
	t.Helper()
	return suite.On(t).Insist(d, c, 5*time.Second)
}

// TestFailoverToALaggingStandby: what the new primary never heard of is waited for: the whole of a lease that it cannot know.
func TestFailoverToALaggingStandby(t *testing.T) {
	t.Parallel()
	for _, heard := range []string{"nothing", "the table", "another run"} {
		t.Run(heard, func(t *testing.T) {
			t.Parallel()
			set := servers.PostgresReplicas(t, 0, servers.PostgresOptions{}, servers.PostgresOptions{})
			const longest = 4 * time.Second
			url := with(set.URL(), "longest-ttl="+longest.String())
			a, b := open(t, url), open(t, url)
			o := operator{a, set.Leader(t)}
			c := newClaim("job")
			c.TTL = longest
			var earlier backends.Grant
			if heard != "nothing" {
				o.trust(t)
			}
			if heard == "another run" {
				earlier, _ = granted(t, a, newClaim("job"))
				if err := a.Finish(t.Context(), earlier, backends.Outcome{State: backends.Done}); err != nil {
					t.Fatal(err)
				}
			}
			old, standby := set.Leader(t), set.Standbys(t)[0]
			set.Agreed(t)
			if heard != "nothing" {
				servers.Eventually(t, "the standby has the mark", func() bool {
					n, err := standby.Try("SELECT count(*) FROM leaderrun")
					return err == nil && n != "0" && (heard != "another run" || n == "2")
				})
			}
			set.Detach(t, standby)
			o.trust(t)
			sent := time.Now()
			g, _ := granted(t, a, c)
			old.Kill()
			set.Promote(t, standby)

			next, verdicts := granted(t, b, newClaim("job"))
			if alive := sent.Add(c.TTL); time.Now().Before(alive) {
				t.Errorf("granted %v before the life of the last holder was over", time.Until(alive))
			}
			if !slices.Contains(verdicts, backends.Quarantined) {
				t.Errorf("verdicts %v, want a quarantine", verdicts)
			}
			if next.Token <= g.Token {
				t.Errorf("token %d after %d", next.Token, g.Token)
			}
			servers.Eventually(t, "the last holder is told", func() bool { // once it has found the new primary
				_, err := a.Renew(t.Context(), g)
				if err == nil {
					t.Fatal("the last holder renews")
				}
				return errors.Is(err, backends.ErrLost)
			})
		})
	}
}

func TestAdmit(t *testing.T) {
	t.Parallel()
	now := time.Now()
	const cluster, other = "7000000000000000000", "7000000000000000001" // both were made long ago
	identity := func(cluster, line string, up time.Duration) string {
		return fmt.Sprintf("%s:%s:%d", cluster, line, now.Add(-up).UnixMicro())
	}
	here := func(up time.Duration) string { return identity(cluster, "00000001", up) }
	from := func(identity string) backends.Mark {
		return backends.Mark{Identity: identity, Longest: time.Hour.Milliseconds()}
	}
	for name, x := range map[string]struct {
		s    server
		want time.Duration
	}{
		"a new table in an old server":          {server{identity: here(2 * time.Hour)}, 0},
		"a new table in a server that started":  {server{identity: here(10 * time.Minute)}, 50 * time.Minute},
		"a new table in a promoted server":      {server{identity: identity(cluster, "0000000A", 2*time.Hour)}, time.Hour},
		"a table that is used, without a mark":  {server{identity: here(2 * time.Hour), used: true}, time.Hour},
		"the mark's server":                     {server{identity: here(time.Minute), mark: from(here(time.Minute)), used: true}, 0},
		"the same started again":                {server{identity: here(10 * time.Minute), mark: from(here(2 * time.Hour)), used: true}, 50 * time.Minute},
		"started again, and seen later":         {server{identity: here(2 * time.Hour), mark: from(here(3 * time.Hour)), used: true}, 0},
		"started again by a clock that is back": {server{identity: here(-time.Minute), mark: from(here(2 * time.Hour)), used: true}, time.Hour},
		"another timeline":                      {server{identity: identity(cluster, "00000002", 2*time.Hour), mark: from(here(2 * time.Hour)), used: true}, time.Hour},
		"another cluster":                       {server{identity: identity(other, "00000001", 2*time.Hour), mark: from(here(2 * time.Hour)), used: true}, time.Hour},
		"a mark that makes no sense":            {server{identity: here(2 * time.Hour), mark: readMark("{}"), used: true}, time.Hour},
		"a mark whose start makes no sense":     {server{identity: here(2 * time.Hour), mark: from(cluster + ":00000001:yesterday"), used: true}, time.Hour},
		"a mark without a start":                {server{identity: here(2 * time.Hour), mark: from(cluster + ":00000001"), used: true}, time.Hour},
	} {
		x.s.now = now
		mark, wait := x.s.admit(time.Hour)
		if wait.Round(time.Second) != x.want || mark.Identity != x.s.identity {
			t.Errorf("%s: waits for %v, want %v; the mark is %+v", name, wait, x.want, mark)
		}
		x.s.mark = mark
		if again, left := x.s.admit(time.Hour); again != mark || left != wait {
			t.Errorf("%s: then waits for %v", name, left)
		}
	}
}

// TestEmptiedByHand: who empties the table has removed every trace of a run. This is a promise that is not made.
func TestEmptiedByHand(t *testing.T) {
	w := newOwnWorld(t)
	g := w.Acquire(w.d, newSteady("job"))
	mark := w.server.Do(t, "SELECT record FROM leaderrun WHERE job = ''")
	w.server.Do(t, "TRUNCATE leaderrun; INSERT INTO leaderrun (job, version, record) VALUES ('', 7, "+literal(mark)+")")
	w.Acquire(w.other, newSteady("job"))
	_, err := w.d.Renew(t.Context(), g)
	w.WantLost("the first holder", err)
	w.server.Do(t, "DROP TABLE leaderrun")
	_, err = w.other.Renew(t.Context(), g)
	w.WantLost("without a table", err)
	if jobs, err := w.other.Jobs(t.Context()); len(jobs) != 0 || err != nil {
		t.Errorf("jobs without a table: %v, %v", jobs, err)
	}
	if err := w.other.Abandon(t.Context(), g.Claim); err != nil {
		t.Errorf("Abandon without a table: %v", err)
	}
	w.Refused(w.other, newSteady("another"), backends.Quarantined) // a new cluster
}

// synchronous is a primary whose standby must confirm, and whose user's default is not to wait for anything, nor to be warned.
func synchronous(t *testing.T) (*world, *servers.PostgresSet) {
	t.Helper()
	set := servers.PostgresReplicas(t, 1, servers.PostgresOptions{}, servers.PostgresOptions{})
	set.Leader(t).Do(t, "ALTER ROLE postgres SET synchronous_commit = off; ALTER ROLE postgres SET client_min_messages = error")
	return worldOf(t, set.Leader(t), with(set.Leader(t).URL(), "longest-ttl=5m")), set
}

// TestStandbyMustConfirm: a step that the synchronous standby does not have counts as nothing, whatever the user's default
// is, and however often it is repeated.
func TestStandbyMustConfirm(t *testing.T) {
	t.Parallel()
	w, set := synchronous(t)
	g, ended := w.Acquire(w.d, newSteady("job")), w.Acquire(w.d, newSteady("ended"))
	broken := w.Acquire(w.d, newSteady("broken"))
	standby := set.Standbys(t)[0]
	standby.Stop(t)
	other, given := newSteady("other"), newSteady("given up")
	order := backends.Order{Job: "broken", Kind: backends.ForceRelease, By: newClaim("broken").Holder, Token: broken.Token}
	steps := map[string]func(context.Context) error{
		"claim":       func(ctx context.Context) error { _, err := w.d.Acquire(ctx, other); return err },
		"claim again": func(ctx context.Context) error { _, err := w.d.Acquire(ctx, g.Claim); return err },
		"renew":       func(ctx context.Context) error { _, err := w.d.Renew(ctx, g); return err },
		"abandon":     func(ctx context.Context) error { return w.d.Abandon(ctx, given) },
		"finish":      func(ctx context.Context) error { return w.d.Finish(ctx, ended, backends.Outcome{State: backends.Done}) },
		"order":       func(ctx context.Context) error { return w.d.Order(ctx, order) },
	}
	for name, step := range steps {
		for range 2 { // the second time there may be nothing left to change
			done := make(chan error, 1)
			ctx, cancel := context.WithTimeout(t.Context(), suite.Patience)
			go func() { done <- step(ctx) }()
			// What an administrator does who is tired of waiting. The step is committed, and is not where it must be.
			err := w.cancelled(done)
			cancel()
			w.WantUnknown(name+" without the standby", err)
			if err != nil && !errors.Is(err, errUnreplicated) {
				t.Errorf("%s: %v, want %v", name, err, errUnreplicated)
			}
		}
	}
	standby.Cont(t)
	set.Agreed(t)
	for name, step := range steps {
		if err := step(t.Context()); err != nil {
			t.Errorf("%s with the standby: %v", name, err)
		}
	}
}

// cancelled ends the waits for the standby until a step returns.
func (w *world) cancelled(done chan error) error {
	w.Helper()
	for end := time.Now().Add(suite.Patience); time.Now().Before(end); {
		_, _ = w.server.Try("SELECT pg_cancel_backend(pid) FROM pg_stat_activity WHERE wait_event = 'SyncRep'")
		select {
		case err := <-done:
			return err
		case <-time.After(20 * time.Millisecond):
		}
	}
	w.Fatal("a step does not end")
	return nil
}

// TestStandbyIsNotAsked: a host in recovery is passed over, whichever is named first.
func TestStandbyIsNotAsked(t *testing.T) {
	t.Parallel()
	set := servers.PostgresReplicas(t, 0, servers.PostgresOptions{}, servers.PostgresOptions{})
	operator{open(t, set.Leader(t).URL()), set.Leader(t)}.trust(t)
	hosts := strings.Split(strings.TrimPrefix(set.URL(), "postgres://"), "@")
	at := strings.Split(strings.SplitN(hosts[1], "/", 2)[0], ",")
	slices.Reverse(at)
	d := open(t, "postgres://"+hosts[0]+"@"+strings.Join(at, ",")+"/postgres?sslmode=disable")
	g, err := d.Acquire(t.Context(), newSteady("job"))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := d.Renew(t.Context(), g); err != nil {
		t.Error(err)
	}
	standby := set.Standbys(t)[0]
	servers.Eventually(t, "the standby has the table", func() bool {
		_, err := standby.Try("SELECT FROM leaderrun")
		return err == nil
	})
	alone := open(t, standby.URL())
	_, err = alone.Acquire(t.Context(), newSteady("job"))
	if backends.IsAnswer(err) || !errors.Is(err, wire.ErrStandby) {
		t.Errorf("a standby: %v, want %v, and an unknown outcome", err, wire.ErrStandby)
	}
}
