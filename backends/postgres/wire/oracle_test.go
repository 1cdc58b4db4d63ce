package wire

import (
	"crypto/tls"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/leaderrun/leaderrun/internal/backendurl"
	"github.com/leaderrun/leaderrun/test/servers"
)

// TestSameAnswersAsPgx: another client of the same server is told the same.
func TestSameAnswersAsPgx(t *testing.T) {
	t.Parallel()
	s := servers.SharedPostgres(t)
	c := dial(t, configOf(t, s))
	other, err := pgx.Connect(within(t), s.URL())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = other.Close(within(t)) })
	for _, question := range []Statement{
		{SQL: "SELECT 1, NULL, '', 'ä🦊', -1::bigint, true, now() = now()"},
		{SQL: "SELECT $1::text, $2::bigint, $3::text", Args: []Value{Text(`'"\ $1 ` + "\n\t\x01ü"), Text("-9223372036854775808"), {}}},
		{SQL: "SELECT n, repeat('x', n) FROM generate_series(0, 300) AS n"},
		{SQL: "SELECT FROM generate_series(1, 3)"},
		{SQL: "SELECT 1 WHERE false"},
		{SQL: "CREATE TEMP TABLE t (a text PRIMARY KEY, b bigint)"},
		{SQL: "INSERT INTO t VALUES ($1, $2) RETURNING b, a", Args: []Value{Text("k"), Text("7")}},
		{SQL: "UPDATE t SET b = b + 1 RETURNING b"},
		{SQL: "INSERT INTO t VALUES ('k', 1)"},
		{SQL: "DELETE FROM t"},
		{SQL: "DROP TABLE t"},
		{SQL: "SELECT 1/0"},
		{SQL: "SELECT"},
		{SQL: "SELEC"},
		{SQL: "SELECT * FROM nowhere"},
		{SQL: "SELECT $1::bigint", Args: []Value{Text("seven")}},
		{SQL: "SELECT 1, 1/(n-3) FROM generate_series(1, 5) AS n"},
	} {
		want, wantCode := pgxAnswer(t, other, question)
		reply, err := c.Ask(within(t), []Statement{question})
		var got [][]Row
		code := ""
		if err == nil {
			got = reply.Rows
		} else if e, ok := errors.AsType[*Error](err); ok && e.Refused() {
			code = e.Code
		} else {
			t.Fatalf("%s: %v", question.SQL, err)
		}
		if diff := cmp.Diff(want, got); diff != "" || code != wantCode {
			t.Errorf("%s: code %q, want %q (-want +got):\n%s", question.SQL, code, wantCode, diff)
		}
	}
}

func pgxAnswer(t *testing.T, c *pgx.Conn, s Statement) (rows [][]Row, code string) {
	t.Helper()
	var args [][]byte
	for _, v := range s.Args {
		var b []byte
		if v.Valid {
			b = []byte(v.Text)
		}
		args = append(args, b)
	}
	result := c.PgConn().ExecParams(within(t), s.SQL, args, nil, nil, nil).Read()
	if e, ok := errors.AsType[*pgconn.PgError](result.Err); ok {
		return nil, e.Code
	} else if result.Err != nil {
		t.Fatal(result.Err)
	}
	var all []Row
	for _, r := range result.Rows {
		var row Row
		for _, b := range r {
			v := Value{}
			if b != nil {
				v = Text(string(b))
			}
			row = append(row, v)
		}
		all = append(all, row)
	}
	return [][]Row{all}, ""
}

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

// TestNotification: is heard while waiting, and beside an answer.
func TestNotification(t *testing.T) {
	t.Parallel()
	s := servers.SharedPostgres(t)
	c := dial(t, configOf(t, s))
	if _, err := c.Ask(within(t), []Statement{{SQL: "LISTEN c"}}); err != nil {
		t.Fatal(err)
	}
	for i := range 3 {
		s.Do(t, fmt.Sprintf("NOTIFY c, 'n%d'", i))
	}
	for i := range 3 {
		if i == 1 {
			if _, err := c.Ask(within(t), one); err != nil {
				t.Fatal(err)
			}
		}
		if got, told, err := c.Wait(within(t), enough); !told || err != nil || got != fmt.Sprintf("n%d", i) {
			t.Errorf("%q, %v, %v", got, told, err)
		}
	}
	if _, told, err := c.Wait(within(t), 1); told || err != nil {
		t.Errorf("%v, %v", told, err)
	}
}
