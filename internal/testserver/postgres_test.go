package testserver

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
)

// TestPostgresLeavesNothing: the kernel keeps System V shared memory whose processes were killed, up to a limit after which
// no server starts.
func TestPostgresLeavesNothing(t *testing.T) {
	var left []string
	t.Run("killed", func(t *testing.T) {
		s := Postgres(t, PostgresOptions{})
		segment := func() string {
			text, err := os.ReadFile(filepath.Join(s.Data(), "postmaster.pid"))
			words := strings.Fields(string(text))
			if at := slices.Index(words, "ready"); err == nil && at > 0 {
				return words[at-1]
			}
			t.Fatalf("no shared memory in %q; %v", text, err)
			return ""
		}
		left = append(left, segment())
		s.Restart(t, false)
		left = append(left, segment())
		s.Kill()
	})
	for _, id := range left {
		if out, err := exec.Command("ipcs", "-m", "-i", id).CombinedOutput(); strings.Contains(string(out), "bytes=") {
			t.Errorf("%s is still there: %s; %v", id, out, err)
		}
	}
}

func TestPostgres(t *testing.T) {
	s := Postgres(t, PostgresOptions{})
	do := func(query string, change ...func(*pgx.ConnConfig)) error {
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		config, err := pgx.ParseConfig(s.URL())
		if err != nil {
			return err
		}
		for _, f := range change {
			f(config)
		}
		c, err := pgx.ConnectConfig(ctx, config)
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
	if err := do("SELECT 1", func(c *pgx.ConnConfig) { c.Password = "" }); err == nil {
		t.Error("every user of this machine may enter")
	}
	if err := do("SELECT 1", func(c *pgx.ConnConfig) { c.Host, c.Password = s.Socket(), "" }); err != nil {
		t.Errorf("by the socket: %v", err)
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
