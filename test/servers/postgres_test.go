package servers

import (
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
