package bed

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/leaderrun/leaderrun/test/hosts"
	"github.com/leaderrun/leaderrun/test/servers"
)

const kubernetesLeases = "/apis/coordination.k8s.io/v1/namespaces/default/leases"

// kubernetesLease is the path of the object that is a lease and its record. A name with a slot or shard is none for Kubernetes, and gets
// a hash.
func kubernetesLease(lease string) string {
	name := "leaderrun-" + lease
	if plain := strings.ReplaceAll(name, "#", "-"); plain != name {
		sum := sha256.Sum256([]byte("leaderrun\x00" + lease))
		name = plain + "-" + hex.EncodeToString(sum[:])[:20]
	}
	return kubernetesLeases + "/" + name
}

// endsWithin is how long an API server may take to end: it waits for requests that are on their way.
const endsWithin = 5 * time.Second

var theEtcd = target{"etcd of the server", func(*Bed, *site) []int { return []int{1} }}

// startKubernetes starts an API server and its etcd on one host: the members of an etcd that is a cluster are the store
// etcd3, and more API servers before one etcd are one store with more addresses.
func startKubernetes(t testing.TB, n *hosts.Network) *Running {
	t.Helper()
	const host = "s"
	d := newDisk(t, "256m") // a log of two files, 64 MB each
	at := n.At(host)
	at.Dir = d.dir
	s := servers.Kubernetes(t, servers.KubernetesOptions{
		At: at, Names: []string{host + ".test"}, Etcd: []string{"--quota-backend-bytes", "33554432"},
	})
	n.Resolve(Hosts...)
	x := &site{net: n, hosts: []string{host, host}, servers: []server{s, s.Etcd}}
	r := &Running{
		URL:   "k8s://default?kubeconfig=" + s.KubeconfigAt(t, servers.KubernetesAdmin, fmt.Sprintf("%s.test:%d", host, s.Port)),
		Addrs: []string{s.Addr()},
	}
	a := etcdAdmin(func(testing.TB) *servers.EtcdServer { return s.Etcd })
	r.Faults = join(x.faultsOfOne(usualTTL),
		[]Fault{x.stopped(theEtcd), x.killed(theEtcd), x.ended(), x.diskLost(true), x.restored(), x.outOfFiles()},
		pastLease(usualTTL, x.stopped(theEtcd), a.noSpace(x)),
		kubernetesAdmin{s}.faults(), d.full(x))
	return r
}

// ended is a server that is told to end, as when it is upgraded, and killed if that takes it too long.
func (x *site) ended() Fault {
	return x.fault(Fault{Name: "server ended by a signal"}, func(*Bed) (func() error, error) {
		s := x.servers[0]
		if err := s.Signal(syscall.SIGTERM); err != nil {
			return nil, err
		}
		for end := time.Now().Add(endsWithin); !s.Ended() && time.Now().Before(end); {
			time.Sleep(20 * time.Millisecond) // between two questions
		}
		s.Kill()
		return nil, nil
	})
}

// kubernetesAdmin does what people do to a Kubernetes.
type kubernetesAdmin struct{ s *servers.KubernetesServer }

func (a kubernetesAdmin) faults() []Fault {
	return []Fault{
		emptied(true, func(testing.TB) error {
			_, err := a.s.TryAPI("DELETE", kubernetesLeases, "")
			return err
		}),
		// The record goes with it, and so does what else the store knew of the job.
		forgetting(once("lease deleted", func(_ testing.TB, lease string) error { return a.edit(lease, "DELETE", "") })),
		once("holder taken out", func(_ testing.TB, lease string) error {
			return a.edit(lease, "PATCH", `{"spec":{"holderIdentity":""}}`)
		}),
		once("holder replaced", func(_ testing.TB, lease string) error {
			return a.edit(lease, "PATCH", `{"spec":{"holderIdentity":"an operator"}}`)
		}),
	}
}

// edit changes a lease, or deletes it, while somebody has it.
func (a kubernetesAdmin) edit(name, method, body string) error {
	path := kubernetesLease(name)
	text, err := a.s.TryAPI("GET", path, "")
	if err != nil {
		return err
	}
	var lease struct {
		Spec struct{ HolderIdentity string }
	}
	if err := json.Unmarshal([]byte(text), &lease); err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	if lease.Spec.HolderIdentity == "" {
		return errNoLease
	}
	_, err = a.s.TryAPI(method, path, body)
	return err
}
