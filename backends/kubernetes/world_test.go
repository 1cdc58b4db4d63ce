package kubernetes

import (
	"context"
	"encoding/json"
	"testing"

	"github.com/leaderrun/leaderrun/backends"
	"github.com/leaderrun/leaderrun/backends/kubernetes/api"
	"github.com/leaderrun/leaderrun/test/servers"
	"github.com/leaderrun/leaderrun/test/suite"
)

// world is a namespace with an operator and two hosts, which have the rights of role.yaml.
type world struct {
	suite.Steps
	server    *servers.KubernetesServer
	namespace string
	operator  operator
	d, other  *driver
}

// TestOnOneServer are the tests that need a server and do not break it.
func TestOnOneServer(t *testing.T) {
	t.Parallel()
	s := servers.Kubernetes(t, servers.KubernetesOptions{})
	for name, test := range map[string]func(w *world){
		"a late renewal of a Lease that was deleted": lateRenewalOfDeleted,
		"the reply to a renewal is late":             lateReply,
		"a release beside a renewal":                 releaseBesideRenewal,
		"a request arrives twice":                    doubled,
		"an operator changes the holder":             holderChanged,
		"an operator deletes the Lease":              leaseDeleted,
		"an operator puts back an older Lease":       olderPutBack,
		"an operator puts back a noted Lease":        notedPutBack,
		"an operator annotates the Lease":            annotated,
		"another program's Lease":                    foreignLease,
		"another prefix with the same name":          otherPrefix,
		"a record that cannot be read":               brokenRecord,
		"notes of others are no beats":               notesAreNoBeats,
		"what others wrote stays":                    othersStay,
		"what kubectl shows":                         kubectlShows,
		"the watch is cut":                           watchCut,
		"a watch tells beats, release and break":     watchTells,
		"jobs of one prefix":                         listsJobs,
		"no rights":                                  noRights,
		"no namespace":                               noNamespace,
		"a certificate in place of a token":          certificate,
		"a client certificate":                       clientCertificate,
		"a token of a plugin":                        pluginToken,
		"a token that is replaced in its file":       replacedToken,
		"doctor":                                     examines,
		"how many round trips":                       roundTrips,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			namespace := s.Namespace(t)
			applyRole(t, s, namespace)
			w := &world{Steps: suite.On(t), server: s, namespace: namespace}
			w.operator = operator{w.open(servers.KubernetesAdmin)}
			w.d, w.other = w.open(account(namespace)), w.open(account(namespace))
			test(w)
		})
	}
}

func (w *world) open(user string) *driver {
	w.Helper()
	return open(w, urlOf(w.namespace, w.server.Kubeconfig(w, user)))
}

// path is where the API has the Lease of a job.
func (w *world) path(job string) string {
	return w.server.Leases(w.namespace) + "/" + w.d.cfg.leaseName(job)
}

func (w *world) patch(job, merge string) {
	w.Helper()
	w.server.API(w, "PATCH", w.path(job), merge)
}

// lease is what the API has of a job.
func (w *world) lease(job string) *api.Lease {
	w.Helper()
	l := new(api.Lease)
	if err := json.Unmarshal([]byte(w.server.API(w, "GET", w.path(job), "")), l); err != nil {
		w.Fatal(err)
	}
	return l
}

// record is what the API has of a job.
func (w *world) record(job string) backends.Record {
	w.Helper()
	s, err := w.operator.read(w.Context(), job)
	if err != nil {
		w.Fatal(err)
	}
	return s.record
}

// between lets a test act before and after each update and creation of a driver.
type between struct {
	client
	before func()
	after  func() error // an error: the reply is lost
	twice  bool         // something on the way sends the next request twice, and the second reply arrives
}

func (b *between) Update(ctx context.Context, l *api.Lease) (*api.Lease, error) {
	return b.pass(func() (*api.Lease, error) { return b.client.Update(ctx, l) })
}

func (b *between) Create(ctx context.Context, l *api.Lease) (*api.Lease, error) {
	return b.pass(func() (*api.Lease, error) { return b.client.Create(ctx, l) })
}

func (b *between) pass(ask func() (*api.Lease, error)) (*api.Lease, error) {
	if b.before != nil {
		b.before()
	}
	l, err := ask()
	if b.twice && err == nil {
		b.twice = false
		l, err = ask()
	}
	if b.after != nil && err == nil {
		err = b.after()
	}
	if err != nil {
		return nil, err
	}
	return l, nil
}

func (w *world) doubles(d *driver) { d.client = &between{client: d.client, twice: true} }
