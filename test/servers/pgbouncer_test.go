package servers

import (
	"testing"

	"github.com/jackc/pgx/v5"
)

func TestPgBouncer(t *testing.T) {
	t.Parallel()
	server := Postgres(t, PostgresOptions{})
	for mode, shared := range map[string]bool{"transaction": true, "session": false} {
		t.Run(mode, func(t *testing.T) {
			t.Parallel()
			var s *PgBouncerServer
			t.Cleanup(func() {
				if s != nil {
					gone(t, s.Process, s.Addr())
				}
			})
			s = PgBouncer(t, server, PgBouncerOptions{Mode: mode, Lines: []string{"default_pool_size = 1"}})
			first, err := pgx.Connect(t.Context(), s.URL())
			if err != nil {
				t.Fatal(err)
			}
			defer func() { _ = first.Close(t.Context()) }()
			if err := first.Ping(t.Context()); err != nil {
				t.Fatal(err)
			}
			// There is one connection to the server, which the first client has as long as its session lasts, or its transaction.
			limit := statusTimeout
			if shared {
				limit = startTimeout
			}
			if _, err := askPostgres(limit, s.URL(), place{}, "SELECT 1"); (err == nil) != shared {
				t.Errorf("a second client: %v", err)
			}
			if err := first.Close(t.Context()); err != nil {
				t.Fatal(err)
			}
			s.Stop(t)
			if s.Answers() == nil {
				t.Error("it answers although it is frozen")
			}
			s.Cont(t)
			s.Kill()
			s.Restart(t)
		})
	}
}
