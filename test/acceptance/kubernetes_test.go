package acceptance

import (
	"testing"
	"time"

	"github.com/leaderrun/leaderrun/internal/boottime"
	"github.com/leaderrun/leaderrun/test/servers"
)

// kubernetes is a Kubernetes and the path of the lease of the bed's job.
type kubernetes struct {
	*servers.KubernetesServer
	lease string
}

// newKubernetes returns a bed in a namespace of a Kubernetes: one of its own, or one that breaks nothing but that.
func newKubernetes(t *testing.T, own bool) (kubernetes, *bed) {
	t.Helper()
	var s *servers.KubernetesServer
	if own {
		s = servers.Kubernetes(t, servers.KubernetesOptions{})
	} else {
		s = servers.SharedKubernetes(t)
	}
	namespace := s.Namespace(t)
	b := newBed(t, s.URLOf(t, namespace, servers.KubernetesAdmin))
	return kubernetes{s, s.Leases(namespace) + "/leaderrun-job"}, b
}

// editLease is what an operator does to it.
func editLease(patch string) func(b *bed, k kubernetes, _ *wrapper) {
	return func(b *bed, k kubernetes, _ *wrapper) { k.API(b.t, "PATCH", k.lease, patch) }
}

// kubernetesFaults are those of an operator, and of servers; own: it breaks the server.
var kubernetesFaults = []struct {
	fault[kubernetes]
	own bool
}{
	{fault: fault[kubernetes]{
		name: "holder taken out", code: 75, within: atOnce,
		strike: editLease(`{"spec":{"holderIdentity":""}}`),
	}},
	{fault: fault[kubernetes]{
		name: "holder replaced", code: 75, within: atOnce,
		strike: editLease(`{"spec":{"holderIdentity":"an operator"}}`),
	}},
	{own: true, fault: fault[kubernetes]{
		name: "server stopped", code: 75,
		strike: func(b *bed, k kubernetes, _ *wrapper) { k.Stop(b.t) },
		mend: func(b *bed, k kubernetes, w *wrapper) {
			w.wait()
			k.Cont(b.t)
		},
	}},
	{own: true, fault: fault[kubernetes]{
		name: "etcd of the server stopped", code: 75,
		strike: func(b *bed, k kubernetes, _ *wrapper) { k.Etcd.Stop(b.t) },
		mend: func(b *bed, k kubernetes, w *wrapper) {
			w.wait()
			k.Etcd.Cont(b.t)
		},
	}},
	{own: true, fault: fault[kubernetes]{
		name: "server killed", code: 75,
		strike: func(_ *bed, k kubernetes, _ *wrapper) { k.Kill() },
		mend: func(b *bed, k kubernetes, w *wrapper) {
			w.wait()
			k.Restart(b.t, true)
		},
	}},
}

func TestFaultsOnKubernetes(t *testing.T) {
	t.Parallel()
	servers.SkipShort(t)
	for _, f := range kubernetesFaults {
		t.Run(f.name, func(t *testing.T) {
			t.Parallel()
			k, b := newKubernetes(t, f.own)
			if f.within != 0 {
				b.ttl = longTTL
			}
			strike(b, k, f.fault)
		})
	}
}

// An operator deletes the lease, and with it the record of the job: nobody else can know of the run any more. It is told
// at once, and ends; who comes then has a higher token.
func TestKubernetesLeaseDeleted(t *testing.T) {
	t.Parallel()
	servers.SkipShort(t)
	k, b := newKubernetes(t, false)
	b.ttl = longTTL
	w := b.holder()
	old := b.last()
	k.API(t, "DELETE", k.lease, "")
	struck := boottime.Now()
	if code := w.wait(); code != 75 {
		t.Errorf("exit code %d, want 75: %s", code, w.said())
	}
	gone(t, old)
	if lived := b.last().lived(struck); lived >= atOnce {
		t.Errorf("the run lived on for %v", lived)
	}
	b.beats(b.start(nil, "--backend-wait", "1m"), old.token)
}

// A Kubernetes that is restarted with its data within a lease costs nothing.
func TestKubernetesRestarted(t *testing.T) {
	t.Parallel()
	servers.SkipShort(t)
	k, b := newKubernetes(t, true)
	b.ttl = longTTL
	w := b.holder()
	old := b.last()
	k.Restart(t, true)
	b.survives(w, old.token)
}

// A run whose packets vanish on the way to the API server or back is dead within its lease, and a standby that is
// not cut off takes over.
func TestKubernetesDropsPackets(t *testing.T) {
	t.Parallel()
	servers.SkipShort(t)
	for name, drop := range map[string]func(p *servers.Proxy){
		"both ways":        func(p *servers.Proxy) { p.DropAll(true) },
		"only the replies": func(p *servers.Proxy) { p.DropReplies(true) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := servers.SharedKubernetes(t)
			namespace := s.Namespace(t)
			proxy := servers.NewProxy(t, s.Addr())
			b := newBed(t, "k8s://"+namespace+"?kubeconfig="+s.KubeconfigAt(t, servers.KubernetesAdmin, proxy.Addr()))
			w := b.holder()
			old := b.last()
			b.backend = s.URLOf(t, namespace, servers.KubernetesAdmin)
			standby := b.start(nil, "--wait", "forever")
			b.newcomers()
			drop(proxy)
			struck := boottime.Now()
			if code := w.wait(); code != 75 {
				t.Errorf("exit code %d, want 75: %s", code, w.said())
			}
			for _, span := range b.verdict() {
				if lived := span.lived(struck); span.token == old.token && lived >= b.ttl {
					t.Errorf("the run lived on for %v after the cut", lived)
				}
			}
			gone(t, old)
			b.beats(standby, old.token)
		})
	}
}

// The role is taken from a pod while it runs the job. It can renew no more: the run ends within its lease, and another
// pod that has the role goes on.
func TestKubernetesRoleTakenAway(t *testing.T) {
	t.Parallel()
	servers.SkipShort(t)
	s := servers.SharedKubernetes(t)
	namespace := s.Namespace(t)
	s.Apply(t, namespace, roleOf("one")+"---\n"+roleOf("two"))
	url := func(account string) string {
		user := s.Account(namespace, account)
		s.AwaitRole(t, namespace, user)
		return s.URLOf(t, namespace, user)
	}
	b := newBed(t, url("one"))
	w := b.holder()
	old := b.last()
	b.backend = url("two")
	standby := b.start(nil, "--wait", "forever")
	s.API(t, "DELETE", "/apis/rbac.authorization.k8s.io/v1/namespaces/"+namespace+"/rolebindings/one", "")
	struck := boottime.Now()
	if code := w.wait(); code != 75 {
		t.Errorf("exit code %d, want 75: %s", code, w.said())
	}
	for _, span := range b.verdict() {
		if lived := span.lived(struck); span.token == old.token && lived >= b.ttl+time.Second {
			t.Errorf("the run lived on for %v without the right to renew", lived)
		}
	}
	gone(t, old)
	b.beats(standby, old.token)
}

// roleOf is a service account that may have leases.
func roleOf(account string) string {
	return `apiVersion: v1
kind: ServiceAccount
metadata: {name: ` + account + `}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: Role
metadata: {name: ` + account + `}
rules:
- {apiGroups: [coordination.k8s.io], resources: [leases], verbs: [get, list, watch, create, update]}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: RoleBinding
metadata: {name: ` + account + `}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: Role, name: ` + account + `}
subjects:
- {kind: ServiceAccount, name: ` + account + `}
`
}
