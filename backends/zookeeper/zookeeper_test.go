package zookeeper

import (
	"net/url"
	"testing"
	"time"

	"github.com/leaderrun/leaderrun/backends"
	"github.com/leaderrun/leaderrun/backends/zookeeper/wire"
	"github.com/leaderrun/leaderrun/test/servers"
	"github.com/leaderrun/leaderrun/test/suite"
)

func TestMain(m *testing.M) { suite.Main(m) }

// traceless is why a store that was emptied does not wait.
const traceless = "with lease and record gone nothing tells of a run: see TestEmptiedByHand"

// harness is the suite's view of a store. A record that has a lease below it cannot be deleted: it is emptied.
func harness(url string, operator *driver, members ...*servers.ZooKeeperServer) suite.Harness {
	return suite.Harness{
		Open: suite.Opener(Open, url),
		TTL:  2 * time.Second, // which the ticks of these servers allow
		DeleteLease: func(t testing.TB, job string) { // one whose session has ended is gone already
			t.Helper()
			if err := operates(t, operator, wire.Delete(operator.store.cfg.keys(job).lease, -1)); err != nil && !wire.Is(err, wire.NoNode) {
				t.Fatal(err)
			}
		},
		DeleteRecord: func(t testing.TB, job string) {
			t.Helper()
			operate(t, operator, wire.SetData(operator.store.cfg.keys(job).record, nil, -1))
		},
		Change: func(t testing.TB, job string, change func(r *backends.Record)) {
			t.Helper()
			edit(t, operator, job, change)
		},
		Stall: servers.Stall(members...),
		Lacks: map[string]string{"Empty": traceless, "RestartEmpty": traceless},
	}
}

func TestSuite(t *testing.T) {
	t.Parallel()
	s := servers.ZooKeeper(t, servers.ZooKeeperOptions{Short: true, MaxSessionTimeout: longest})
	h := harness(s.URL(), open(t, s.URL()), s)
	h.Restart = func(t testing.TB) { t.Helper(); s.Restart(t, true) }
	suite.Run(t, h)
}

func TestSuiteEnsemble(t *testing.T) {
	t.Parallel()
	s := servers.ZooKeeperEnsembleOf(t, patientServers()...)
	h := harness(s.URL(), open(t, s.URL()), s.Members...)
	h.Restart = func(t testing.TB) { t.Helper(); s.Restart(t, true) }
	h.Again = true
	suite.Run(t, h)
}

// TestSuiteTLSAndACL: over TLS, the ready-made chroot is all that leaderrun needs in a closed root. What is missing below it the
// first claim makes.
func TestSuiteTLSAndACL(t *testing.T) {
	t.Parallel()
	servers.SkipShort(t)
	certs := servers.NewCertificates(t)
	s := closed(t, servers.ZooKeeperOptions{TLS: certs, ClientCert: true, MaxSessionTimeout: longest})
	at := "zks://leaderrun:" + url.PathEscape(typed) + "@" + s.Addr() + "/leaderrun?prefix=night/jobs&ca=" + certs.CA + "&cert=" + certs.ClientCert + "&key=" + certs.ClientKey
	h := harness(at, open(t, at), s)
	h.Restart = func(t testing.TB) { t.Helper(); s.Restart(t, true) }
	h.Again = true
	suite.Run(t, h)
}
