package servers

import (
	"encoding/json"
	"errors"
	"net/http"
	"os"
	"strings"
	"syscall"
	"testing"
)

const (
	lease     = `{"metadata":{"name":"job"},"spec":{"holderIdentity":"me"}}`
	leaseRole = `
apiVersion: v1
kind: ServiceAccount
metadata: {name: worker}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: Role
metadata: {name: worker}
rules:
- {apiGroups: [coordination.k8s.io], resources: [leases], verbs: [get, list, update]}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: RoleBinding
metadata: {name: worker}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: Role, name: worker}
subjects:
- {kind: ServiceAccount, name: worker}
`
)

func TestKubernetes(t *testing.T) {
	t.Parallel()
	var s *KubernetesServer
	t.Cleanup(func() {
		if s != nil {
			gone(t, s.Process, s.Addr())
			gone(t, s.Etcd.Process, s.Etcd.Endpoint())
		}
	})
	s = Kubernetes(t, KubernetesOptions{})
	namespace := s.Namespace(t)
	path := leasesOf(namespace)
	s.API(t, "POST", path, lease)
	s.API(t, "PATCH", path+"/job", `{"spec":{"holderIdentity":"you"}}`)

	kubernetesRights(t, s, path)
	kubernetesAccount(t, s, namespace)
	err := s.TryApply(namespace, "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: x}\ndatum: {}\n")
	if err == nil || !strings.Contains(err.Error(), "datum") {
		t.Errorf("a field that there is not: %v", err)
	}
	kubernetesRestarts(t, s, path)
}

func kubernetesRights(t *testing.T, s *KubernetesServer, path string) {
	t.Helper()
	for user, want := range map[string]int{KubernetesAdmin: http.StatusOK, KubernetesStranger: http.StatusForbidden, "nobody": http.StatusUnauthorized} {
		if code, text, err := s.ask(startTimeout, user, "GET", path, "", ""); err != nil || code != want {
			t.Errorf("%s: %d %s, %v", user, code, text, err)
		}
	}
	if code, text, err := s.place.ask(startTimeout, "GET", "https://"+s.Addr()+path, nil, ""); err != nil || code != http.StatusUnauthorized {
		t.Errorf("without a token: %d %s, %v", code, text, err)
	}
	withCertificate := s.place
	withCertificate.tls = s.certs.Client()
	code, text, err := withCertificate.ask(startTimeout, "GET", "https://"+s.Addr()+path, nil, "")
	if err != nil || code != http.StatusForbidden || !strings.Contains(text, `\"client\"`) {
		t.Errorf("with a certificate: %d %s, %v", code, text, err)
	}
}

// A service account may do what its role says, and nothing before there is one.
func kubernetesAccount(t *testing.T, s *KubernetesServer, namespace string) {
	t.Helper()
	s.Apply(t, namespace, leaseRole)
	s.AwaitRole(t, namespace, s.Account(namespace, "worker"))
	header := http.Header{"Authorization": {"Bearer " + s.Token(t, namespace, "worker")}}
	for method, want := range map[string]int{"GET": http.StatusOK, "DELETE": http.StatusForbidden} {
		code, text, err := s.place.ask(startTimeout, method, "https://"+s.Addr()+leasesOf(namespace), header, "")
		if err != nil || code != want {
			t.Errorf("%s: %d %s, %v", method, code, text, err)
		}
	}
}

func kubernetesRestarts(t *testing.T, s *KubernetesServer, path string) {
	t.Helper()
	s.Etcd.Stop(t)
	if err := s.Answers(); err == nil {
		t.Error("it answers although its etcd is stopped")
	}
	s.Etcd.Cont(t)
	Eventually(t, "it answers again", func() bool { return s.Answers() == nil })
	s.Etcd.Kill()
	s.Restart(t, true)
	var kept struct {
		Spec struct{ HolderIdentity string }
	}
	if err := json.Unmarshal([]byte(s.API(t, "GET", path+"/job", "")), &kept); err != nil || kept.Spec.HolderIdentity != "you" {
		t.Errorf("restarted with data: %+v, %v", kept, err)
	}
	if err := s.Signal(syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	if err := s.Answers(); err == nil {
		t.Error("it answers although it is stopped")
	}
	s.Restart(t, false)
	if text, err := s.TryAPI("GET", path+"/job", ""); err == nil {
		t.Errorf("restarted empty: %s", text)
	}
}

// A Kubernetes in a network namespace is reached from there, by who trusts the address in its certificate.
func TestKubernetesInNamespace(t *testing.T) {
	t.Parallel()
	x := newIslands(t, 2, "k")
	s := Kubernetes(t, KubernetesOptions{Address: x.address(0), Netns: x.names[0]})
	Eventually(t, "it answers", func() bool { return s.Answers() == nil })
	far := s.place
	far.netns = x.names[1]
	if code, text, err := far.ask(startTimeout, "GET", "https://"+s.Addr()+"/", nil, ""); err != nil || code != http.StatusUnauthorized {
		t.Errorf("from another host: %d %s, %v", code, text, err)
	}
}

// Tests beside each other share a Kubernetes, which ends with the last of them.
//
//nolint:tparallel // one within the other
func TestSharedKubernetes(t *testing.T) {
	t.Parallel()
	SkipShort(t)
	var first *KubernetesServer
	t.Run("while one has it", func(t *testing.T) {
		first = SharedKubernetes(t)
		t.Run("another one gets the same", func(t *testing.T) {
			if SharedKubernetes(t) != first {
				t.Error("it is another one")
			}
		})
		Eventually(t, "it answers: the test that has ended was not the last", func() bool { return first.Answers() == nil })
	})
	gone(t, first.Process, first.Addr())
	gone(t, first.Etcd.Process, first.Etcd.Endpoint())
	if _, err := os.Stat(first.dir); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("its folder is still there: %v", err)
	}
}
