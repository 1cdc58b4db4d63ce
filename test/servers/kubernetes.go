package servers

import (
	"errors"
	"fmt"
	"net/http"
	"path/filepath"
	"testing"
	"time"
)

// KubernetesOptions say how a Kubernetes differs from an empty one on ports of its own.
type KubernetesOptions struct {
	At             // its data is that of its etcd
	Names []string // of its host, besides localhost
	Etcd  []string // more flags of its etcd
}

// The users that a Kubernetes knows, besides its service accounts.
const (
	KubernetesAdmin    = "admin"    // may do everything, and has a token
	KubernetesStranger = "stranger" // may do nothing, and has a token
	KubernetesClient   = "client"   // may do nothing, and has a client certificate
)

// KubernetesServer is one running Kubernetes: an API server with access by roles, and an etcd that nobody else
// uses. There are no controllers and no nodes: a Deployment is kept and gets no pods, and a service account gets no
// secret. The process is the API server.
type KubernetesServer struct {
	*server
	Etcd  *EtcdServer
	opts  KubernetesOptions
	certs *Certificates
}

// Kubernetes starts a Kubernetes. It takes some seconds and 250 MB: tests that break nothing take SharedKubernetes.
func Kubernetes(t testing.TB, o KubernetesOptions) *KubernetesServer {
	t.Helper()
	s := &KubernetesServer{opts: o, certs: NewCertificates(t, append([]string{place{At: o.At}.host()}, o.Names...)...)}
	s.server = newServer(t, "kubernetes", At{Address: o.Address, Netns: o.Netns}, s.certs, s)
	// etcd's writes are not what a test of Kubernetes is about.
	s.Etcd = Etcd(t, EtcdOptions{At: o.At, UnsafeNoFsync: true, Args: o.Etcd})
	s.place.tls.Certificates = nil // who asks has a token
	writeFile(t, s.dir, "tokens.csv", fmt.Sprintf("%s,%s,1,system:masters\n%s,%s,2\n",
		staticToken(KubernetesAdmin), KubernetesAdmin, staticToken(KubernetesStranger), KubernetesStranger))
	s.start(t)
	return s
}

func (s *KubernetesServer) command(testing.TB) []string {
	return []string{
		"--etcd-servers", s.Etcd.http(),
		"--bind-address", s.place.host(), "--advertise-address", s.place.host(), "--secure-port", fmt.Sprint(s.Port),
		"--tls-cert-file", s.certs.ServerCert, "--tls-private-key-file", s.certs.ServerKey, "--cert-dir", s.dir,
		"--token-auth-file", filepath.Join(s.dir, "tokens.csv"), "--client-ca-file", s.certs.CA,
		"--service-account-issuer", "https://kubernetes.default.svc", "--service-cluster-ip-range", "10.0.0.0/24",
		"--service-account-key-file", s.certs.ServerKey, "--service-account-signing-key-file", s.certs.ServerKey,
		"--authorization-mode", "RBAC", "--anonymous-auth=false",
		// What follows saves time and memory. A pod needs no service account that a controller would have made.
		"--disable-admission-plugins", "ServiceAccount", "--endpoint-reconciler-type", "none",
		"--enable-priority-and-fairness=false", "--profiling=false", "--feature-gates", "APIServerIdentity=false",
	}
}

// await waits until everything has started that has to: before, roles and namespaces may be missing.
func (s *KubernetesServer) await(t testing.TB) {
	t.Helper()
	s.ready(t, "kube-apiserver", func() error {
		_, err := s.try(5*statusTimeout, KubernetesAdmin, "GET", "/readyz", "", "") // it looks at forty things
		return err
	})
}

// Answers asks for a Lease, as clients do. The answer needs etcd.
func (s *KubernetesServer) Answers() error {
	code, text, err := s.ask(statusTimeout, KubernetesAdmin, "GET", leasesOf("kube-system")+"/nobody", "", "")
	if err == nil && code != http.StatusNotFound {
		err = errors.New(text)
	}
	return err
}

func leasesOf(namespace string) string {
	return "/apis/coordination.k8s.io/v1/namespaces/" + namespace + "/leases"
}

// Data returns the folder with the data of its etcd.
func (s *KubernetesServer) Data() string { return s.Etcd.Data() }

// URL returns a backend URL of the namespace default for a user who may do everything.
func (s *KubernetesServer) URL(t testing.TB) string {
	t.Helper()
	return s.URLOf(t, "default", KubernetesAdmin)
}

// URLOf is URL for another namespace, and for one of the users that Kubeconfig knows.
func (s *KubernetesServer) URLOf(t testing.TB, namespace, user string) string {
	t.Helper()
	return "k8s://" + namespace + "?kubeconfig=" + s.Kubeconfig(t, user)
}

// Restart kills the API server and starts it again, with its data or without. Its etcd is restarted where it has
// ended or forgets.
func (s *KubernetesServer) Restart(t testing.TB, keepData bool) {
	t.Helper()
	s.Kill()
	if !keepData || s.Etcd.Ended() {
		s.Etcd.Restart(t, keepData)
	}
	s.start(t)
}

// ask sends a request as a user whose token the server knows from its file.
func (s *KubernetesServer) ask(timeout time.Duration, user, method, path, kind, body string) (int, string, error) {
	header := http.Header{"Authorization": {"Bearer " + staticToken(user)}}
	if kind != "" {
		header.Set("Content-Type", kind)
	}
	return s.place.ask(timeout, method, s.http()+path, header, body)
}

// try is ask for an answer that says that it went well.
func (s *KubernetesServer) try(timeout time.Duration, user, method, path, kind, body string) (string, error) {
	code, text, err := s.ask(timeout, user, method, path, kind, body)
	if err == nil && code/100 != 2 {
		err = fmt.Errorf("%s %s: %d: %s", method, path, code, text)
	}
	return text, err
}

// staticToken is no secret: the server ends with its test.
func staticToken(user string) string { return "token-of-" + user }

// kubeconfig is a file with one context: a user, by what the lines say.
func (s *KubernetesServer) kubeconfig(t testing.TB, addr, lines string) string {
	t.Helper()
	return writeFile(t, Dir(t), "config", fmt.Sprintf(`apiVersion: v1
kind: Config
clusters:
- name: test
  cluster:
    server: https://%s
    certificate-authority: %s
users:
- name: test
  user:
%s
contexts:
- name: test
  context: {cluster: test, user: test}
current-context: test
`, addr, s.certs.CA, lines))
}
