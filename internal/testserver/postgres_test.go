package testserver

import (
	"context"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
)

func TestPostgres(t *testing.T) {
	s := Postgres(t, PostgresOptions{Password: "a secret"})
	do := func(query string) error {
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		c, err := pgx.Connect(ctx, s.URL())
		if err != nil {
			return err
		}
		defer func() { _ = c.Close(ctx) }()
		_, err = c.Exec(ctx, query)
		return err
	}
	if err := do("CREATE TABLE kept (n int)"); err != nil {
		t.Fatal(err)
	}
	s.Stop(t)
	if s.Answers() == nil {
		t.Error("it answers although it is frozen")
	}
	s.Cont(t)
	Eventually(t, "an answer", func() bool { return s.Answers() == nil })
	s.Restart(t, true)
	if err := do("SELECT * FROM kept"); err != nil {
		t.Errorf("after a crash: %v", err)
	}
	s.Restart(t, false)
	if err := do("SELECT * FROM kept"); err == nil {
		t.Error("it comes back with the data that it was to lose")
	}
}
