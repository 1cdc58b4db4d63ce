package servers

import (
	"strings"
	"testing"
)

// TestPostgresFailover: what the primary committed is there after a failover when standbys confirm, and what it goes on to
// commit is nowhere.
func TestPostgresFailover(t *testing.T) {
	t.Parallel()
	set := PostgresReplicas(t, 1, make([]PostgresOptions, 3)...)
	old := set.Leader(t)
	for _, m := range set.Members {
		if !strings.Contains(set.URL(), m.Addr()) {
			t.Errorf("%s does not name %s", set.URL(), m.Addr())
		}
	}
	old.Do(t, "CREATE TABLE kept (n int); INSERT INTO kept VALUES (1)")
	now := set.Failover(t)
	if now == old || set.Leader(t) != now {
		t.Fatal("nobody else leads")
	}
	if got := now.Do(t, "INSERT INTO kept VALUES (2); SELECT string_agg(n::text, ' ') FROM kept"); got != "1 2" {
		t.Errorf("the new primary has %q", got)
	}
	if got, err := old.ask(statusTimeout, "INSERT INTO kept VALUES (3)"); err == nil {
		t.Errorf("the old primary, which nobody confirms, says that it has committed: %q", got)
	}
	set.Rejoin(t, old)
	Eventually(t, "the old primary follows", func() bool {
		got, err := old.Try("SELECT string_agg(n::text, ' ') FROM kept")
		return err == nil && got == "1 2"
	})
	if _, err := old.Try("INSERT INTO kept VALUES (4)"); err == nil {
		t.Error("a standby takes writes")
	}
	set.Standbys(t)[0].Kill()
	now.Do(t, "INSERT INTO kept VALUES (5)") // one that confirms is left
	set.Standbys(t)[0].Restart(t, true)
	set.Agreed(t)
}

// TestPostgresLostCommit: a standby that confirms nothing may lack what the primary committed.
func TestPostgresLostCommit(t *testing.T) {
	t.Parallel()
	certs := NewCertificates(t)
	set := PostgresReplicas(t, 0, PostgresOptions{TLS: certs}, PostgresOptions{TLS: certs})
	old, standby := set.Members[0], set.Members[1]
	old.Do(t, "CREATE TABLE kept (n int)")
	Eventually(t, "the standby has it", func() bool {
		_, err := standby.Try("SELECT * FROM kept")
		return err == nil
	})
	set.Detach(t, standby)
	// The standby has hung up, of which the primary hears a moment later.
	Eventually(t, "a set whose standby follows nobody is not whole", func() bool { return set.Whole() != nil })
	old.Do(t, "INSERT INTO kept VALUES (1)")
	old.Kill()
	set.Promote(t, standby)
	if got := standby.Do(t, "SELECT count(*) FROM kept"); got != "0" {
		t.Errorf("%s rows, want none", got)
	}
	old.Restart(t, true)
	if got := old.Do(t, "SELECT count(*) FROM kept"); got != "1" {
		t.Errorf("the old primary has %s rows, want one", got)
	}
	set.Rejoin(t, old)
	if got := old.Do(t, "SELECT count(*) FROM kept"); got != "0" {
		t.Errorf("the old primary has %s rows after it has joined again, want none", got)
	}
}
