package servers

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
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

// TestPostgresStops: a server that is stopped does not serve the connections that it has, each of which is a process.
func TestPostgresStops(t *testing.T) {
	t.Parallel()
	s := Postgres(t, PostgresOptions{})
	c, err := pgx.Connect(t.Context(), s.URL())
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = c.Close(t.Context()) }()
	if err := s.Signal(syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	answered := make(chan error)
	go func() {
		_, err := c.Exec(t.Context(), "SELECT 1")
		answered <- err
	}()
	select {
	case err := <-answered:
		t.Errorf("it answers: %v", err)
		return
	case <-time.After(200 * time.Millisecond): // in which it would have
	}
	if err := s.Signal(syscall.SIGCONT); err != nil {
		t.Fatal(err)
	}
	if err := <-answered; err != nil {
		t.Error(err)
	}
}

func TestPostgresTLS(t *testing.T) {
	t.Parallel()
	certs := NewCertificates(t)
	for name, o := range map[string]PostgresOptions{
		"TLS":               {TLS: certs},
		"TLS, certificates": {TLS: certs, ClientCert: true, Clients: []string{"host nobody all all reject"}, Init: []string{"--wal-segsize", "1"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			o.Dir, o.Env = dirFor(t, unprivileged(t, "postgres", "postgres", "nobody")), []string{"TZ=Asia/Tokyo"}
			s := Postgres(t, o)
			if got := s.Do(t, "SELECT ssl FROM pg_stat_ssl WHERE pid = pg_backend_pid()"); got != "t" {
				t.Errorf("TLS: %s", got)
			}
			plain := strings.Replace(s.URL(), "sslmode=verify-full", "sslmode=disable", 1)
			if _, err := askPostgres(startTimeout, plain, place{}, "SELECT 1"); err == nil || !strings.Contains(err.Error(), "no encryption") {
				t.Errorf("without TLS: %v", err)
			}
			if _, err := askPostgres(startTimeout, s.URL(), place{}, "SELECT 1"); (err != nil) != o.ClientCert {
				t.Errorf("without a certificate: %v", err)
			}
		})
	}
}

// TestPostgresCrowd: a server that has as many connections as it takes refuses one more, and takes it when they have left.
func TestPostgresCrowd(t *testing.T) {
	t.Parallel()
	s := Postgres(t, PostgresOptions{Lines: []string{"max_connections = 10"}})
	s.Do(t, "CREATE TABLE t (n int)")
	unlock, err := s.Session("BEGIN; LOCK TABLE t")
	if err != nil {
		t.Fatal(err)
	}
	leave, err := s.Crowd()
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Answers(); err == nil {
		t.Error("it takes one more")
	}
	leave()
	Eventually(t, "they have left", func() bool { return s.Answers() == nil })
	const lock = "DO $$ BEGIN LOCK TABLE t NOWAIT; END $$"
	if _, err := s.Try(lock); err == nil || !strings.Contains(err.Error(), "55P03") { // lock_not_available
		t.Errorf("the table is not locked: %v", err)
	}
	unlock()
	Eventually(t, "it is unlocked", func() bool {
		_, err := s.Try(lock)
		return err == nil
	})
}

// TestSharedPostgres: who shares a server does not meet what others do in their databases, nor in the next one that is made.
func TestSharedPostgres(t *testing.T) {
	t.Parallel()
	one, other := SharedPostgres(t), SharedPostgres(t)
	if one.Process != other.Process {
		t.Error("two servers")
	}
	one.Do(t, "CREATE TABLE t (n int)")
	for name, s := range map[string]*PostgresServer{"another": other, "the next": SharedPostgres(t)} {
		if _, err := s.Try("SELECT FROM t"); err == nil || !strings.Contains(err.Error(), "42P01") { // undefined_table
			t.Errorf("%s database has the table, too: %v", name, err)
		}
	}
}
