package postgres

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/leaderrun/leaderrun/backends"
	"github.com/leaderrun/leaderrun/test/servers"
	"github.com/leaderrun/leaderrun/test/suite"
)

// Hazard: a pooler hands on a connection on which another program has set the search path. The table would be another one, or
// there would be none: two holders at once, or a run that is told that its lease is lost.
func TestSearchPathOfAnotherProgram(t *testing.T) {
	t.Parallel()
	for name, path := range map[string]string{"another schema": "app", "none": ""} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := servers.Postgres(t, servers.PostgresOptions{})
			pooler := servers.PgBouncer(t, s)
			w := worldOf(t, s, pooler.URL())
			s.Do(t, "CREATE SCHEMA app")
			w.operator.trust(t)
			long := newClaim("job")
			long.TTL = 20 * time.Second
			g := w.Acquire(w.d, long)

			c, err := pgconn.Connect(t.Context(), pooler.URL())
			if err != nil {
				t.Fatal(err)
			}
			if _, err := c.Exec(t.Context(), "SELECT set_config('search_path', '"+path+"', false)").ReadAll(); err != nil {
				t.Fatal(err)
			}
			_ = c.Close(t.Context())

			ctx, cancel := context.WithTimeout(t.Context(), suite.Patience)
			defer cancel()
			if _, err := w.other.Acquire(ctx, newClaim("job")); !isHeld(err) {
				t.Errorf("another holder: %v", err)
			}
			w.Renew(w.d, g)
		})
	}
}

func isHeld(err error) bool {
	refusal, ok := errors.AsType[*backends.Refusal](err)
	return ok && refusal.Verdict == backends.Held
}
