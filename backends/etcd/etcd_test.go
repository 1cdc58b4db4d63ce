package etcd

import (
	"net/url"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/leaderrun/leaderrun/backends"
	"github.com/leaderrun/leaderrun/backends/etcd/rpc"
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

// newClaim returns a claim of a new holder, with a lease that does not run out.
func newClaim(job string) backends.Claim { return suite.NewClaim(job, 5*time.Minute) }

// operator does to a server what only a person does.
type operator struct{ *store }

func (o operator) do(t testing.TB, ops ...rpc.Op) {
	t.Helper()
	if _, err := o.client.Txn(t.Context(), rpc.Txn{Then: ops}); err != nil {
		t.Fatal(err)
	}
}

func (o operator) deleteLease(t testing.TB, job string) {
	t.Helper()
	o.do(t, rpc.Op{Delete: o.cfg.keys(job).lease})
}

func (o operator) deleteRecord(t testing.TB, job string) {
	t.Helper()
	o.do(t, rpc.Op{Delete: o.cfg.keys(job).record})
}

// state is what the keys of a job hold.
func (o operator) state(t testing.TB, job string) *state {
	t.Helper()
	s, err := o.read(t.Context(), job)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// ask writes a request to stop into a record that may change at any time.
func (o operator) change(t testing.TB, job string, change func(r *backends.Record)) {
	t.Helper()
	tx := o.Begin(t.Context(), backends.Request{Op: backends.ToOrder, Job: job})
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

func (o operator) revokeLease(t testing.TB, job string) {
	t.Helper()
	if err := o.client.Revoke(t.Context(), o.state(t, job).lease); err != nil {
		t.Fatal(err)
	}
}

// traceless is why a store that was emptied does not wait.
const traceless = "with lease and record gone nothing tells of a run: see TestEmptiedByHand"

// harness is the suite's view of a store.
func harness(url string, o operator, members ...*servers.EtcdServer) suite.Harness {
	return suite.Harness{
		Open:         suite.Opener(Open, url),
		TTL:          minTTL,
		DeleteLease:  o.deleteLease,
		DeleteRecord: o.deleteRecord,
		Change:       o.change,
		Stall:        servers.Stall(members...),
		Lacks:        map[string]string{"Empty": traceless, "RestartEmpty": traceless},
	}
}

func TestSuite(t *testing.T) {
	t.Parallel()
	s := servers.Etcd(t, servers.EtcdOptions{})
	h := harness(s.URL(), operator{open(t, s.URL()).store}, s)
	h.Restart = func(t testing.TB) { t.Helper(); s.Restart(t, true) }
	suite.Run(t, h)
}

func TestSuiteCluster(t *testing.T) {
	t.Parallel()
	// Three that wait for one disk elect now and then.
	o := servers.EtcdOptions{UnsafeNoFsync: true}
	s := servers.EtcdClusterOf(t, o, o, o)
	h := harness(s.URL(), operator{open(t, s.URL()).store}, s.Members...)
	h.Restart = func(t testing.TB) { t.Helper(); s.Restart(t, true) }
	h.Again = true
	suite.Run(t, h)
}

// TestSuiteTLSAndRole: the ready-made role is all that leaderrun needs.
func TestSuiteTLSAndRole(t *testing.T) {
	t.Parallel()
	certs := servers.NewCertificates(t)
	s := servers.Etcd(t, servers.EtcdOptions{TLS: certs, ClientCert: true, Password: "other"})
	role, err := os.ReadFile("role.txt")
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(role)) {
		args := strings.Fields(line)[1:]
		for i := range args {
			args[i] = strings.Replace(args[i], "PASSWORD", secret, 1)
		}
		s.Ctl(t, args...)
	}
	at := func(user, password string) string {
		return "etcds://" + user + ":" + url.PathEscape(password) + "@" + s.Endpoint() + "?ca=" + certs.CA + "&cert=" + certs.ClientCert + "&key=" + certs.ClientKey
	}
	h := harness(at("leaderrun", secret), operator{open(t, at("root", "other")).store}, s)
	h.Restart = func(t testing.TB) { t.Helper(); s.Restart(t, true) }
	h.Again = true
	suite.Run(t, h)
}
