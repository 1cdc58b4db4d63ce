package redis

import (
	"fmt"
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

func open(t testing.TB, url string) *backends.Engine {
	t.Helper()
	return suite.Open(t, Open, url)
}

// openStore returns a client, and the driver that is made of it.
func openStore(t testing.TB, url string) (*store, *backends.Engine) {
	t.Helper()
	s, err := newStore(url)
	if err != nil {
		t.Fatal(err)
	}
	d := backends.NewEngine(s)
	t.Cleanup(func() { _ = d.Close() })
	return s, d
}

// keys are the names of a job's keys under the default prefix.
func keys(job string) (lease, record, mark string) {
	k := (&config{prefix: defaultPrefix}).keys(job)
	return k[0], k[1], k[2]
}

// trust writes the mark of a server that needs no quarantine: tests that are about something else do not wait.
func trust(t testing.TB, s *servers.RedisServer) {
	t.Helper()
	_, _, mark := keys("")
	s.Do(t, "hset", mark, "identity", s.Info(t, "server", "run_id")+":"+s.Info(t, "replication", "master_replid"))
}

// patient is why most servers here are not started again.
const patient = "TestSuite has it, and waits for the end of the quarantine"

// harness is the suite's view of one server.
func harness(s *servers.RedisServer, url string) suite.Harness {
	return suite.Harness{
		Open: suite.Opener(Open, url),
		TTL:  time.Second,
		DeleteLease: func(t testing.TB, job string) {
			t.Helper()
			lease, _, _ := keys(job)
			s.Do(t, "del", lease)
		},
		DeleteRecord: func(t testing.TB, job string) {
			t.Helper()
			_, record, _ := keys(job)
			s.Do(t, "del", record)
		},
		Change: func(t testing.TB, job string, change func(r *backends.Record)) {
			t.Helper()
			lease, record, _ := keys(job)
			var r backends.Record // of what is changed in the tests alone
			change(&r)
			if r.Break != nil {
				s.Do(t, "hset", record, "break", string(backends.Marshal(r.Break)))
			}
			if r.Form != 0 {
				s.Do(t, "hset", record, "form", r.Form, "version", "newer") // as whoever writes draws a new one
			}
			s.Do(t, "publish", lease, "break")
		},
		Stall: servers.Stall(s),
		Lacks: map[string]string{"Empty": patient, "Restart": patient, "RestartEmpty": patient},
	}
}

func TestSuite(t *testing.T) {
	t.Parallel()
	s := servers.Redis(t, servers.RedisOptions{AppendOnly: true})
	h := harness(s, "redis://"+s.Addr()+"?longest-ttl=6s")
	h.Settle = 7 * time.Second
	h.Empty = func(t testing.TB) { t.Helper(); s.Do(t, "flushall") }
	h.Restart = func(t testing.TB) { t.Helper(); s.Restart(t, true) }
	h.RestartEmpty = func(t testing.TB) { t.Helper(); s.Restart(t, false) }
	h.Lacks = nil
	suite.Run(t, h)
}

func TestSuiteUnixSocketAndDatabase(t *testing.T) {
	t.Parallel()
	servers.SkipShort(t)
	s := servers.Redis(t, servers.RedisOptions{Unix: true})
	h := harness(s, "redis+unix://"+s.Socket+"?db=3&longest-ttl=6s")
	h.Settle, h.DeleteLease, h.DeleteRecord, h.Change = 7*time.Second, nil, nil, nil
	for _, name := range []string{"DeleteLease", "DeleteRecord", "Change"} {
		h.Lacks[name] = "TestSuite has it: here the operator sees database 0"
	}
	h.Again = true
	suite.Run(t, h)
	if keys, _ := s.Do(t, "keys", "*").([]any); len(keys) != 0 {
		t.Errorf("keys in database 0: %v", keys)
	}
}

// aclLine is the line of acl.txt, which the documentation shows.
func aclLine(t testing.TB) string {
	t.Helper()
	text, err := os.ReadFile("acl.txt")
	if err != nil {
		t.Fatal(err)
	}
	return strings.Replace(strings.TrimSpace(string(text)), "PASSWORD", secret, 1)
}

const secret = "s3cr:t/p@ss%word"

// TestSuiteTLSAndACL: the ready-made ACL line is all that leaderrun needs.
func TestSuiteTLSAndACL(t *testing.T) {
	t.Parallel()
	servers.SkipShort(t)
	certs := servers.NewCertificates(t)
	s := servers.Redis(t, servers.RedisOptions{TLS: certs, Password: "other", ACL: []string{aclLine(t)}})
	trust(t, s)
	h := harness(s, fmt.Sprintf("rediss://leaderrun:%s@%s?ca=%s&cert=%s&key=%s",
		url.QueryEscape(secret), s.Addr(), certs.CA, certs.ClientCert, certs.ClientKey))
	h.Again = true
	suite.Run(t, h)
}
