package kubernetes

import (
	"errors"
	"os"
	"testing"
	"time"

	"github.com/leaderrun/leaderrun/backends"
	"github.com/leaderrun/leaderrun/test/servers"
	"github.com/leaderrun/leaderrun/test/suite"
)

func TestMain(m *testing.M) { suite.Main(m) }

// account is the user that role.yaml makes, in a namespace.
func account(namespace string) string { return "system:serviceaccount:" + namespace + ":leaderrun" }

// applyRole gives a namespace what role.yaml says.
func applyRole(t testing.TB, s *servers.KubernetesServer, namespace string) {
	t.Helper()
	text, err := os.ReadFile("role.yaml")
	if err != nil {
		t.Fatal(err)
	}
	s.Apply(t, namespace, string(text))
}

func urlOf(namespace, kubeconfig string) string {
	return "k8s://" + namespace + "?kubeconfig=" + kubeconfig
}

// driver is one host's client, and what is below it.
type driver struct {
	*backends.Engine
	*store
}

func (d *driver) Close() error { return d.Engine.Close() }

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

// asks is the request of a holder who has seen what he has seen.
func asks(holder string, seen backends.LastSeen) backends.Request {
	return backends.Request{Holder: backends.Holder{ID: holder}, Seen: seen}
}

// alive is what a grant or a renewal writes.
func alive(r backends.Record) backends.Write {
	return backends.Write{Record: r, Lease: &backends.Label{Holder: r.Holder.ID, Token: r.Token}, Beat: true}
}

// newClaim returns a claim of a new holder, with a lease that does not run out.
func newClaim(job string) backends.Claim { return suite.NewClaim(job, 5*time.Minute) }

// operator does to Leases what only a person does.
type operator struct{ *driver }

// edit changes the Lease of a job that may change at any time.
func (o operator) edit(t testing.TB, job string, edit func(s *state) backends.Write) {
	t.Helper()
	tx := o.Begin(t.Context(), backends.Request{Op: backends.ToOrder, Job: job})
	s, err := tx.Read(t.Context())
	for done := false; !done && err == nil; {
		s, done, err = tx.Swap(t.Context(), s, edit(of(s)))
	}
	if _, newer := errors.AsType[backends.NewerForm](err); err != nil && !newer { // such a record cannot be read back
		t.Fatal(err)
	}
}

// deleteLease takes the holder out of a Lease.
func (o operator) deleteLease(t testing.TB, job string) {
	t.Helper()
	o.edit(t, job, func(s *state) backends.Write { return backends.Write{Record: s.record, Release: true} })
}

// change writes a record as somebody else would.
func (o operator) change(t testing.TB, job string, change func(r *backends.Record)) {
	t.Helper()
	o.edit(t, job, func(s *state) backends.Write {
		r := s.record
		change(&r)
		return backends.Write{Record: r}
	})
}

// traceless is why a store that was emptied does not wait.
const traceless = "with the Lease every trace of a run is gone: see leaseDeleted"

// TestSuite runs under the rights of role.yaml.
func TestSuite(t *testing.T) {
	s := servers.Kubernetes(t, servers.KubernetesOptions{})
	namespace := s.Namespace(t)
	applyRole(t, s, namespace)
	url := urlOf(namespace, s.Kubeconfig(t, account(namespace)))
	o := operator{open(t, urlOf(namespace, s.Kubeconfig(t, servers.KubernetesAdmin)))}
	suite.Run(t, suite.Harness{
		Open:        suite.Opener(Open, url),
		TTL:         2 * time.Second,
		DeleteLease: o.deleteLease,
		Change:      o.change,
		Restart:     func(t testing.TB) { t.Helper(); s.Restart(t, true) },
		Stall:       servers.Stall(s),
		Lacks: map[string]string{
			"Empty": traceless, "RestartEmpty": traceless, "DeleteRecord": "a Lease without a record is taken for another program's",
		},
	})
}
