package postgres

import (
	"context"
	"errors"
	"net"
	"net/url"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/leaderrun/leaderrun/backends"
	"github.com/leaderrun/leaderrun/backends/postgres/wire"
	"github.com/leaderrun/leaderrun/internal/checkup"
	"github.com/leaderrun/leaderrun/test/servers"
	"github.com/leaderrun/leaderrun/test/suite"
)

func examine(t *testing.T, url string) suite.Findings {
	t.Helper()
	return suite.Examined(t, open(t, url).Examine(t.Context(), 15*time.Second), "sesame")
}

func TestExamine(t *testing.T) {
	t.Parallel()
	s := servers.Postgres(t, servers.PostgresOptions{Lines: []string{"fsync = on", "full_page_writes = on"}})
	e := examine(t, s.URL())
	e.Expect(t, checkup.Reachable, backends.Fine, s.Addr())
	e.Expect(t, "version", backends.Fine, "PostgreSQL")
	e.Expect(t, checkup.Clock, backends.Fine, "")
	e.Expect(t, "durability", backends.Fine, "")
	e.Expect(t, "standbys", backends.Fine, "")
	e.Expect(t, checkup.Rights, backends.Fine, "CREATE TABLE")
	if n := s.Do(t, "SELECT count(*) FROM pg_class WHERE relname = 'leaderrun'"); n != "0" {
		t.Error("doctor has made a table")
	}
	w := operator{open(t, s.URL()), s}
	w.trust(t)
	before := s.Do(t, "SELECT string_agg(leaderrun::text, ';') FROM leaderrun")
	e = examine(t, s.URL())
	e.Expect(t, checkup.Rights, backends.Fine, "read and write")
	e.Expect(t, "quarantine", backends.Fine, "timeline")
	if after := s.Do(t, "SELECT string_agg(leaderrun::text, ';') FROM leaderrun"); after != before {
		t.Errorf("doctor has changed %s into %s", before, after)
	}
	s.Do(t, `UPDATE leaderrun SET record = '{"identity":"7:1"}' WHERE job = ''`)
	examine(t, s.URL()).Expect(t, "quarantine", backends.Warning, "waits for")

	s.Do(t, "ALTER TABLE leaderrun SET UNLOGGED")
	examine(t, s.URL()).Expect(t, "durability", backends.Bad, "UNLOGGED")
	if status, err := w.Inspect(t.Context(), "job"); err == nil {
		t.Errorf("%+v", status)
	}
	pooler := servers.PgBouncer(t, s)
	examine(t, pooler.URL()).Expect(t, checkup.Reachable, backends.Fine, pooler.Addr())
	s.Kill()
	examine(t, s.URL()).Expect(t, checkup.Reachable, backends.Bad, "")
}

// TestExamineWithoutRights: the remedy is what the owner of the database has to run, and it works.
func TestExamineWithoutRights(t *testing.T) {
	t.Parallel()
	s := servers.Postgres(t, servers.PostgresOptions{})
	s.Do(t, `CREATE ROLE "some""body" LOGIN PASSWORD 'sesame'`)
	at := "postgres://some%22body:sesame@" + s.Addr() + "/postgres?sslmode=disable&longest-ttl=1s&prefix=public."
	last := func(e suite.Findings) backends.Finding { return e[checkup.Rights][0] }
	f := last(examine(t, at+"Jobs"))
	if f.Grade != backends.Bad || !strings.Contains(f.Remedy, "CREATE TABLE") {
		t.Fatalf("%+v", f)
	}
	_, err := open(t, at+"Jobs").Acquire(t.Context(), backends.Claim{Job: "job", TTL: time.Second, Holder: newClaim("").Holder})
	if p := permanent(err); p.Kind != backends.Configuration || p.Hint != f.Remedy {
		t.Errorf("claim: %v (%s)", err, p.Hint)
	}
	_, sql, _ := strings.Cut(f.Remedy, ": ")
	create, grant, _ := strings.Cut(sql, "; ")
	s.Do(t, create)
	f = last(examine(t, at+"Jobs"))
	if f.Grade != backends.Bad || f.Remedy != grant {
		t.Errorf("%+v, want the remedy %s", f, grant)
	}
	_, err = open(t, at+"Jobs").Inspect(t.Context(), "job")
	if p := permanent(err); p.Kind != backends.Credentials || p.Hint != grant {
		t.Errorf("inspect: %v (%s)", err, p.Hint)
	}
	s.Do(t, grant)
	if f = last(examine(t, at+"Jobs")); f.Grade != backends.Fine {
		t.Errorf("%+v", f)
	}
	s.Do(t, "CREATE TABLE strange (job text, holder int)")
	s.Do(t, `GRANT ALL ON strange TO "some""body"`)
	if f = last(examine(t, at+"strange")); f.Grade != backends.Bad || f.Remedy != prefixHint {
		t.Errorf("%+v", f)
	}
}

func TestExamineReplicas(t *testing.T) {
	t.Parallel()
	set := servers.PostgresReplicas(t, 0, servers.PostgresOptions{}, servers.PostgresOptions{})
	e := examine(t, set.URL())
	e.Expect(t, checkup.Reachable, backends.Fine, "a standby")
	e.Expect(t, checkup.Reachable, backends.Fine, "the primary")
	e.Expect(t, "standbys", backends.Warning, "none is synchronous")
	examine(t, set.Standbys(t)[0].URL()).Expect(t, "hosts", backends.Bad, "in recovery")
	set.Detach(t, set.Standbys(t)[0])
	set.Promote(t, set.Standbys(t)[0])
	examine(t, set.URL()).Expect(t, "hosts", backends.Bad, "2 hosts")
}

// frozen is a client of a server that answers nothing any more.
type frozen struct {
	client
	asked int
}

func (f *frozen) Ask(ctx context.Context, _ []wire.Statement, _ func(wire.Reply) error) (wire.Reply, error) {
	f.asked++
	<-ctx.Done()
	return wire.Reply{}, ctx.Err()
}

// TestExamineAServerThatFreezes: hazard: a server that has answered freezes, and doctor waits for it for ever.
func TestExamineAServerThatFreezes(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		server := new(frozen)
		x := &examination{s: &store{cfg: &config{}, client: server}, primary: &facts{table: true, rights: true}}
		if s := x.rights(context.WithoutCancel(t.Context())); s != nil || server.asked != 1 {
			t.Errorf("asked %d times: %+v", server.asked, s)
		}
		if len(x.Findings) != 1 || x.Findings[0].Grade != backends.Bad || x.Findings[0].What != checkup.Rights {
			t.Errorf("%+v", x.Findings)
		}
	})
}

// TestJobsOfAStandby: hazard: a standby that is behind is asked for the jobs, and those that it has not heard of are not told.
func TestJobsOfAStandby(t *testing.T) {
	t.Parallel()
	set := servers.PostgresReplicas(t, 0, servers.PostgresOptions{}, servers.PostgresOptions{})
	o, standby := operator{open(t, set.URL()), set.Leader(t)}, open(t, set.Standbys(t)[0].URL())
	says := func(when string) {
		t.Helper()
		if jobs, err := standby.Jobs(t.Context()); !errors.Is(err, wire.ErrStandby) || len(jobs) > 0 {
			t.Errorf("a standby, %s: %v, %v", when, jobs, err)
		}
	}
	says("before there is a table")
	_, err := standby.Renew(t.Context(), backends.Grant{Claim: newSteady("job"), Token: 1, TTL: time.Second})
	suite.On(t).WantUnknown("a renewal on a standby without a table", err)
	o.trust(t)
	g, err := o.Acquire(t.Context(), newSteady("job"))
	if err == nil {
		err = o.Finish(t.Context(), g, backends.Outcome{State: backends.Done})
	}
	if err != nil {
		t.Fatal(err)
	}
	says("later")
	if jobs, err := o.Jobs(t.Context()); err != nil || !slices.Equal(jobs, []string{"job"}) {
		t.Errorf("the primary: %v, %v", jobs, err)
	}
}

// TestPermanentErrors: what no retry mends says what does.
func TestPermanentErrors(t *testing.T) {
	t.Parallel()
	certs := servers.NewCertificates(t)
	s := servers.Postgres(t, servers.PostgresOptions{})
	for _, sql := range []string{`CREATE ROLE guest LOGIN PASSWORD 'sesame'`, `CREATE DATABASE closed`, `REVOKE CONNECT ON DATABASE closed FROM PUBLIC`} {
		s.Do(t, sql)
	}
	tls := servers.Postgres(t, servers.PostgresOptions{TLS: certs, ClientCert: true})
	other, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = other.Close() })
	go func() {
		for conn, err := other.Accept(); err == nil; conn, err = other.Accept() {
			_, _ = conn.Write([]byte("SSH-2.0-OpenSSH_9.9\r\n"))
			_ = conn.Close()
		}
	}()
	base := func(at, options string) string {
		return "postgres://postgres:" + url.PathEscape(s.Password) + "@" + at + options
	}
	for u, want := range map[string]struct {
		kind backends.PermanentKind
		hint string
	}{
		base(s.Addr(), "/nosuch?sslmode=disable"):                               {backends.Configuration, "database"},
		base(s.Addr(), "/postgres?sslmode=require"):                             {backends.Configuration, "sslmode=disable"},
		base(s.Addr(), "/postgres?sslmode=disable&prefix=nosuch.t"):             {backends.Configuration, "CREATE SCHEMA"},
		base(s.Addr(), "/postgres?sslmode=disable&prefix=pg_catalog.pg_class"):  {backends.Configuration, "prefix"},
		"postgres://postgres:sesame@" + s.Addr() + "/postgres?sslmode=disable":  {backends.Credentials, "percent-encoded"},
		"postgres://nobody:sesame@" + s.Addr() + "/postgres?sslmode=disable":    {backends.Credentials, "percent-encoded"},
		"postgres://guest:sesame@" + s.Addr() + "/closed?sslmode=disable":       {backends.Credentials, `GRANT CONNECT ON DATABASE "closed" TO "guest"`},
		base(tls.Addr(), "/postgres?sslmode=verify-full&sslrootcert="+certs.CA): {backends.Credentials, ""},
		base(other.Addr().String(), "/postgres?sslmode=disable"):                {backends.Configuration, "5432"},
	} {
		_, err := open(t, u).Acquire(t.Context(), newSteady("job"))
		p := permanent(err)
		if p.Kind != want.kind || !strings.Contains(p.Hint, want.hint) || strings.Contains(err.Error(), "sesame") {
			t.Errorf("%s: %v (%+v)", open(t, u), err, p)
		}
	}
	_, err = open(t, with(s.URL(), "longest-ttl=1s")).Acquire(t.Context(), newSteady("job"))
	if p := permanent(err); p.Kind != backends.Configuration || p.Hint != longestHint {
		t.Errorf("a TTL that is too long: %v", err)
	}
}
