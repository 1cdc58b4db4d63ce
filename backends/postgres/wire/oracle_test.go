package wire

import (
	"crypto/tls"
	"errors"
	"strings"
	"testing"

	"github.com/leaderrun/leaderrun/internal/backendurl"
	"github.com/leaderrun/leaderrun/test/servers"
)

// TestBatchIsOneTransaction: all of it, or nothing; and what is set for it is over with it.
func TestBatchIsOneTransaction(t *testing.T) {
	t.Parallel()
	s := servers.SharedPostgres(t)
	c := dial(t, configOf(t, s))
	ask := func(sql ...string) (Reply, error) {
		var batch []Statement
		for _, s := range sql {
			batch = append(batch, Statement{SQL: s})
		}
		return c.Ask(within(t), batch)
	}
	if _, err := ask("CREATE TABLE t (a int)"); err != nil {
		t.Fatal(err)
	}
	if _, err := ask("INSERT INTO t VALUES (1)", "SELECT 1/0", "INSERT INTO t VALUES (2)"); err == nil {
		t.Error("a batch with an error in it is answered")
	}
	const setting = "SELECT current_setting('synchronous_commit')"
	r, err := ask("SELECT count(*) FROM t", "SELECT set_config('synchronous_commit', 'off', true)", setting)
	if err != nil || r.Rows[0][0][0] != Text("0") || r.Rows[2][0][0] != Text("off") {
		t.Errorf("%+v, %v: half of a batch was committed", r, err)
	}
	if r, err = ask(setting); err != nil || r.Rows[0][0][0] != Text("on") {
		t.Errorf("%+v, %v: what a batch sets outlives it", r, err)
	}
}

// TestLogins: all that a server may ask for, and what is refused.
func TestLogins(t *testing.T) {
	t.Parallel()
	certs := servers.NewCertificates(t)
	s := servers.Postgres(t, servers.PostgresOptions{TLS: certs, Clients: []string{
		"hostssl all clear all password", "hostssl all old all md5", "hostssl all scram all scram-sha-256", "hostssl all client all cert",
	}})
	const password = "pä ss\\'$%"
	s.Do(t, `SET password_encryption = 'md5'; CREATE ROLE old LOGIN PASSWORD `+quote(password)+`; SET password_encryption = 'scram-sha-256';
		CREATE ROLE clear LOGIN PASSWORD `+quote(password)+`; CREATE ROLE scram LOGIN PASSWORD `+quote(password)+`; CREATE ROLE client LOGIN`)
	verified := certs.Client()
	unknown := verified.Clone()
	unknown.RootCAs = nil
	login := func(user, password string, security Security, config *tls.Config, inClear bool) error {
		cfg := Config{Addrs: []string{s.Addr()}, Login: backendurl.NewLogin(user, password), Database: "postgres", Security: security, TLS: config, ClearText: inClear}
		c, err := Dial(within(t), &cfg, s.Addr())
		if err != nil {
			return err
		}
		defer c.Close()
		if _, err := c.Ask(within(t), one); err != nil {
			return err
		}
		if !c.Encrypted() {
			return errors.New("without TLS")
		}
		return nil
	}
	for _, user := range []string{"clear", "old", "scram", "client"} {
		if err := login(user, password, Must, verified, true); err != nil {
			t.Errorf("%s: %v", user, err)
		}
	}
	if err := login("scram", strings.ReplaceAll(password, "ä", "a\u0308"), Must, verified, true); err != nil {
		t.Errorf("the same letters in another form: %v", err)
	}
	for name, err := range map[string]error{
		"clear text where it is not allowed": login("clear", password, Must, verified, false),
		"a wrong password (SCRAM)":           login("scram", "other", Must, verified, true),
		"a wrong password (md5)":             login("old", "other", Must, verified, true),
		"no password":                        login("scram", "", Must, verified, true),
		"nobody":                             login("nobody", password, Must, verified, true),
		"an authority that is not trusted":   login("scram", password, Must, unknown, true),
		"no TLS":                             login("scram", password, Plain, nil, true),
	} {
		if err == nil {
			t.Errorf("%s: is let in", name)
		} else if strings.Contains(err.Error(), password) {
			t.Errorf("%s: %v: shows the password", name, err)
		}
	}
	if err := login("scram", password, Prefer, verified, false); err != nil {
		t.Errorf("TLS if offered: %v", err)
	}
	plain := servers.SharedPostgres(t)
	cfg := configOf(t, plain)
	cfg.Security = Prefer
	if c := dial(t, cfg); c.Encrypted() {
		t.Error("TLS with a server that has none")
	}
	cfg.Security = Must
	if _, err := Dial(within(t), &cfg, plain.Addr()); !errors.Is(err, ErrNoTLS) {
		t.Errorf("TLS with a server that has none: %v", err)
	}
}

func quote(s string) string { return "E'" + strings.NewReplacer(`\`, `\\`, `'`, `\'`).Replace(s) + "'" }
