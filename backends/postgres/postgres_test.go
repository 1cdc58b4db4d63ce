package postgres

import (
	"net/url"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/leaderrun/leaderrun/backends"
	"github.com/leaderrun/leaderrun/test/servers"
	"github.com/leaderrun/leaderrun/test/suite"
)

func TestMain(m *testing.M) { suite.Main(m) }

// driver is one host's client, and what is below it.
type driver struct {
	*backends.Engine
	store *store
}

func open(t testing.TB, url string) *driver {
	t.Helper()
	return suite.Open(t, func(url string) (*driver, error) {
		s, err := newStore(url)
		if err != nil {
			return nil, err
		}
		return &driver{backends.NewEngine(s), s}, nil
	}, url)
}

func newClaim(job string) backends.Claim { return suite.NewClaim(job, 2*time.Second) }

// with adds options to a URL.
func with(url string, options ...string) string {
	for _, o := range options {
		glue := "&"
		if !strings.Contains(url, "?") {
			glue = "?"
		}
		url += glue + o
	}
	return url
}

// operator does to a table what only a person does.
type operator struct {
	*driver
	server *servers.PostgresServer
}

func (o operator) do(t testing.TB, sql, job string) {
	t.Helper()
	o.server.Do(t, strings.ReplaceAll(sql, "JOB", literal(keyOf(job))))
}

func (o operator) deleteLease(t testing.TB, job string) {
	t.Helper()
	o.do(t, "UPDATE leaderrun SET holder = NULL, token = NULL WHERE job = JOB", job)
}

func (o operator) deleteRecord(t testing.TB, job string) {
	t.Helper()
	o.do(t, "UPDATE leaderrun SET record = NULL WHERE job = JOB", job)
}

// trust makes the table, with a mark of a server that needs no quarantine: tests that are about something else do not wait.
func (o operator) trust(t testing.TB) {
	t.Helper()
	o.server.Do(t, o.store.sql.create)
	s := o.state(t, "nobody")
	trusted := &tx{store: o.store}
	row := trusted.markRow(s, backends.Mark{Identity: s.server.identity, Longest: o.store.cfg.longest.Milliseconds()}, newVersion())
	done, err := trusted.write(t.Context(), row, func(f *fields) { f.row = nil })
	if err != nil || !done {
		t.Fatalf("mark: %v, %v", done, err)
	}
}

// state is what the row of a job holds.
func (o operator) state(t testing.TB, job string) *state {
	t.Helper()
	s, err := o.store.read(t.Context(), job)
	if err != nil { // the server has restarted since, perhaps: this connection was broken
		s, err = o.store.read(t.Context(), job)
	}
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// change writes a record that may change at any time, as somebody else would.
func (o operator) change(t testing.TB, job string, change func(r *backends.Record)) {
	t.Helper()
	tx := o.store.Begin(t.Context(), backends.Request{Op: backends.ToOrder, Job: job})
	for done := false; !done; {
		s := o.state(t, job)
		r := s.record
		change(&r)
		var err error
		if _, done, err = tx.Swap(t.Context(), s, backends.Write{Record: r}); err != nil {
			t.Fatal(err)
		}
	}
}

const (
	// traceless is why a table that was emptied does not wait.
	traceless = "with the table gone nothing tells of a run: see TestEmptiedByHand"
	// patient is why most servers here are not started again.
	patient = "TestSuite has it, and waits for the end of the quarantine"
)

// harness is the suite's view of a store.
func harness(url string, o operator) suite.Harness {
	return suite.Harness{
		Open:         suite.Opener(Open, url),
		TTL:          time.Second,
		Settle:       7 * time.Second,
		DeleteLease:  o.deleteLease,
		DeleteRecord: o.deleteRecord,
		Change:       o.change,
		Stall:        servers.Stall(o.server),
		Lacks:        map[string]string{"Empty": traceless, "Restart": patient, "RestartEmpty": patient},
	}
}

// roomy is for suites whose cases are about something else than quarantine: on a busy machine no lease of theirs runs out.
const roomy = "longest-ttl=5m"

func TestSuite(t *testing.T) {
	t.Parallel()
	s := servers.Postgres(t, servers.PostgresOptions{Short: true})
	const longest = 20 * time.Second // for leases that do not run out, on a machine that is busy with other tests
	url := with(s.URL(), "longest-ttl="+longest.String())
	h := harness(url, operator{open(t, url), s})
	h.Settle = longest + time.Second
	h.Restart = func(t testing.TB) { t.Helper(); s.Restart(t, true) }
	h.RestartEmpty = func(t testing.TB) { t.Helper(); s.Restart(t, false) }
	h.Lacks = map[string]string{"Empty": traceless}
	suite.Run(t, h)
}

// TestSuitePgBouncer: a pooler that gives every transaction to another process of the server changes nothing.
func TestSuitePgBouncer(t *testing.T) {
	t.Parallel()
	s := servers.Postgres(t, servers.PostgresOptions{})
	pooler := servers.PgBouncer(t, s)
	o := operator{open(t, with(s.URL(), roomy)), s}
	o.trust(t)
	h := harness(with(pooler.URL(), roomy), o)
	h.Again = true
	suite.Run(t, h)
}

const secret = "s3cr:t/p@ss%word"

// TestSuiteTLSAndRole: the ready-made role is all that leaderrun needs, on a server that wants certificates.
func TestSuiteTLSAndRole(t *testing.T) {
	t.Parallel()
	servers.SkipShort(t)
	certs := servers.NewCertificates(t)
	s := servers.Postgres(t, servers.PostgresOptions{TLS: certs, ClientCert: true})
	role, err := os.ReadFile("role.sql")
	if err != nil {
		t.Fatal(err)
	}
	s.Do(t, strings.Replace(string(role), "PASSWORD 'PASSWORD'", "PASSWORD '"+secret+"'", 1))
	files := []string{"sslmode=verify-full", "sslrootcert=" + certs.CA, "sslcert=" + certs.ClientCert, "sslkey=" + certs.ClientKey, roomy}
	at := func(user, password string) string {
		return with("postgresql://"+user+":"+url.PathEscape(password)+"@"+s.Addr()+"/postgres", files...)
	}
	o := operator{open(t, at("postgres", s.Password)), s}
	o.trust(t)
	h := harness(at("leaderrun", secret), o)
	h.Again = true
	suite.Run(t, h)
}

// TestSuiteSynchronousStandby: each step waits for a standby.
func TestSuiteSynchronousStandby(t *testing.T) {
	t.Parallel()
	set := servers.PostgresReplicas(t, 1, servers.PostgresOptions{}, servers.PostgresOptions{})
	url := with(set.URL(), roomy)
	o := operator{open(t, url), set.Leader(t)}
	o.trust(t)
	h := harness(url, o)
	h.Again = true
	suite.Run(t, h)
}

// TestRoleIsWhatTheHintSays: who follows the hint of an error gets what role.sql makes.
func TestRoleIsWhatTheHintSays(t *testing.T) {
	t.Parallel()
	role, err := os.ReadFile("role.sql")
	if err != nil {
		t.Fatal(err)
	}
	sql := newStatements(`"leaderrun"`, "leaderrun", "leaderrun")
	for _, want := range []string{sql.create + ";", sql.grant + ";"} {
		if !strings.Contains(string(role), want+"\n") {
			t.Errorf("role.sql lacks %s", want)
		}
	}
}
