package postgres

import (
	"net"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/leaderrun/leaderrun/backends"
	"github.com/leaderrun/leaderrun/backends/postgres/wire"
	"github.com/leaderrun/leaderrun/test/servers"
	"github.com/leaderrun/leaderrun/test/suite"
)

func TestURL(t *testing.T) {
	t.Parallel()
	type seen struct{ Addrs, User, Password, Database, Prefix, Table string }
	for url, want := range map[string]seen{
		"postgres://u:p@h":                         {"h:5432", "u", "p", "u", "leaderrun", `"leaderrun"`},
		"PostgreSQL://u:p@h:7/":                    {"h:7", "u", "p", "u", "leaderrun", `"leaderrun"`},
		"postgres://u:p@a,b:7,[::1]/d":             {"a:5432,b:7,[::1]:5432", "u", "p", "d", "leaderrun", `"leaderrun"`},
		"postgres://u%40x:p%40ss%2F%25@h/a%2Fb":    {"h:5432", "u@x", "p@ss/%", "a/b", "leaderrun", `"leaderrun"`},
		"postgres://u:p@h/d?prefix=jobs":           {"h:5432", "u", "p", "d", "jobs", `"jobs"`},
		`postgres://u:p@h/d?prefix=My.ta%22ble%3b`: {"h:5432", "u", "p", "d", `My.ta"ble;`, `"My"."ta""ble;"`},
		"postgres://h/d?user=u":                    {"h:5432", "u", "", "d", "leaderrun", `"leaderrun"`},
		"postgres://u@h/d":                         {"h:5432", "u", "", "d", "leaderrun", `"leaderrun"`},
		"postgres://u:p@h/d?channel_binding=prefer&connect_timeout=10&application_name=app&target_session_attrs=read-write": {"h:5432", "u", "p", "d", "leaderrun", `"leaderrun"`},
		"postgresql://u:p@ep-x-pooler.eu.aws.neon.tech/d?sslmode=require&channel_binding=require":                           {"ep-x-pooler.eu.aws.neon.tech:5432", "u", "p", "d", "leaderrun", `"leaderrun"`},
		"postgres://u:@h": {"h:5432", "u", "", "u", "leaderrun", `"leaderrun"`},
	} {
		c, err := parseURL(url)
		if err != nil {
			t.Errorf("%s: %v", url, err)
			continue
		}
		got := seen{strings.Join(c.wire.Addrs, ","), c.wire.User, c.wire.Login.Password(), c.wire.Database, c.prefix, c.table}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s:\n%s", url, diff)
		}
	}
}

// badURLs all have the password hunter2 where there may be one.
var badURLs = []string{
	"", "postgres:", "postgres:h", "http://h", "postgresx://h", "postgres://", "postgres://h", "postgres://:0", "postgres://u:hunter2@h:0", "postgres://u:hunter2@h,",
	"postgres://u:hunter2@", "postgres://u:hunter2@h:x", "postgres://u@h?user=v", "postgres://@h", "postgres://:hunter2@h/d", "postgres://u:hunter2%zz@h", "postgres://u:hunter2/x@h",
	"postgres://u:hunter2?@h", "postgres://u:hunter2@h/%zz", "postgres://u:hunter2@h/a%00b", "postgres://u:hunter2@h?foo=1", "postgres://u:hunter2@h?prefix=",
	"postgres://u:hunter2@h?prefix=a.b.c", "postgres://u:hunter2@h?prefix=.a", "postgres://u:hunter2@h?prefix=a%00", "postgres://u:hunter2@h?user=v",
	"postgres://u:hunter2@h?prefix=a&prefix=b", "postgres://u:hunter2@h?sslmode=allow", "postgres://u:hunter2@h?sslmode=hunter2", "postgres://u:hunter2@h?longest-ttl=x",
	"postgres://u:hunter2@h?sslrootcert=/nowhere", "postgres://u:hunter2@h?sslrootcert=config.go", "postgres://u:hunter2@h?sslcert=/nowhere",
	"postgres://u:hunter2@h?sslmode=disable&sslcert=/nowhere&sslkey=/nowhere", "postgres://u:hunter2@h?sslmode=prefer&sslrootcert=/nowhere",
	"postgres://u:hunter2@a/d,b/d", "postgres://u:hunter2@h/d/x", "postgres://u:hunter2@%2Frun%2Fpostgresql/d", "postgres://u:hunter2@h,%2frun/d",
	"postgres://u:hunter2@h?channel_binding=hunter2", "postgres://u:hunter2@h?channel_binding=require&sslmode=disable", "postgres://u:hunter2@h?connect_timeout=hunter2",
	"postgres://u:hunter2@h?target_session_attrs=standby", "postgres://u:hunter2@h?target_session_attrs=read-only", "postgres://u:hunter2@h?application_name=",
	"postgres://u:hunter2@h/d?host=/run/postgresql", "postgres://u:hunter?2@h/d",
	"postgres://u:hunter2@h?prefix=" + "0123456789012345678901234567890123456789012345678901234567890123",
}

func TestBadURL(t *testing.T) {
	t.Parallel()
	suite.BadURLs(t, Open, badURLs)
	for url, want := range map[string]string{
		"postgres://u@h?sslrootcert=/nowhere":          "option sslrootcert of the URL",
		"postgres://u@h?sslcert=/nowhere&sslkey=/none": "options sslcert and sslkey of the URL",
		"postgres://u@%2Frun%2Fpostgresql/d":           "has a socket",
		"postgres://u@h/d/x":                           "more than the name of a database",
	} {
		if _, err := Open(url); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", url, err, want)
		}
	}
}

func TestRedacted(t *testing.T) {
	t.Parallel()
	const url = "postgres://u:hunter2@h,i:7/d?prefix=jobs&longest-ttl=1m"
	suite.Redacted(t, Open, map[string]string{url: "postgres://u:xxxxx@h:5432,i:7/d?longest-ttl=1m&prefix=jobs"})
	d := open(t, url)
	if d.Prefix() != "jobs" || d.Limits().MaxTTL != time.Minute || d.Limits().MaxHint == "" {
		t.Errorf("%s, %+v", d.Prefix(), d.Limits())
	}
}

// TestWhatIsVerified: nothing by default, as with libpq; but an authority that is named counts, and a password goes in clear
// text only to a host whose name was verified.
func TestWhatIsVerified(t *testing.T) {
	t.Parallel()
	ca := "sslrootcert=" + servers.NewCertificates(t).CA
	for options, want := range map[string]struct {
		security            wire.Security
		anyone, name, clear bool
	}{
		"":                        {wire.Prefer, true, false, false},
		"sslmode=prefer":          {wire.Prefer, true, false, false},
		"channel_binding=require": {wire.Must, true, false, false},
		"sslmode=disable":         {wire.Plain, false, false, false},
		"sslmode=require":         {wire.Must, true, false, false},
		ca:                        {wire.Must, false, true, true},
		strings.Replace(ca, "sslrootcert", "ca", 1): {wire.Must, false, true, true},
		"sslmode=require&" + ca:                     {wire.Must, false, false, false},
		"sslmode=verify-ca&" + ca:                   {wire.Must, false, false, false},
		"sslmode=verify-ca":                         {wire.Must, false, false, false},
		"sslmode=verify-full&" + ca:                 {wire.Must, false, true, true},
		"sslmode=verify-full":                       {wire.Must, false, true, true},
	} {
		c, err := parseURL("postgres://u:p@h/d?" + options)
		if err != nil {
			t.Errorf("%s: %v", options, err)
			continue
		}
		w := c.wire
		tls := w.Security != wire.Plain
		anyone := tls && w.TLS.InsecureSkipVerify && w.TLS.VerifyConnection == nil
		name := tls && !w.TLS.InsecureSkipVerify
		if w.Security != want.security || anyone != want.anyone || name != want.name || w.ClearText != want.clear {
			t.Errorf("%s: security %v, anyone %v, by name %v, clear text %v; want %+v", options, w.Security, anyone, name, w.ClearText, want)
		}
	}
}

// TestPasswordThatIsNotGiven: whoever asks for a password in a way that gives it away is refused, and what mends that is said.
func TestPasswordThatIsNotGiven(t *testing.T) {
	t.Parallel()
	says := func(kind byte, body string) string {
		addr, _ := servers.ByHand(t, func(conn net.Conn) {
			_, _ = conn.Read(make([]byte, 1<<10))
			_, _ = conn.Write(append([]byte{kind, 0, 0, 0, byte(4 + len(body))}, body...))
		})
		return addr
	}
	const refusal = "SFATAL\x00C28P01\x00Mpassword authentication failed\x00\x00"
	for url, hint := range map[string]string{
		"postgres://u:p@" + says('R', "\x00\x00\x00\x03") + "/d?sslmode=disable": "sslmode=verify-full",
		"postgres://u:p@" + says('R', "\x00\x00\x00\x07") + "/d?sslmode=disable": "pg_hba.conf",
		"postgres://u:p@" + says('E', refusal) + "/d?sslmode=disable":            "percent-encoded",
		"postgres://u:p%C2%BD@" + says('E', refusal) + "/d?sslmode=disable":      "ASCII",
	} {
		_, err := open(t, url).Acquire(t.Context(), newSteady("job"))
		if p := permanent(err); p.Kind != backends.Credentials || !strings.Contains(p.Hint, hint) || strings.Contains(p.Hint, "ASCII") != (hint == "ASCII") {
			t.Errorf("%s: %v (%+v)", url, err, p)
		}
	}
}
