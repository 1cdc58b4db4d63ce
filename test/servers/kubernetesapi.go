package servers

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"
)

// Kubeconfig writes a kubeconfig for a user and returns its path: one of those that this package names, or
// the Account of a service account that is there.
func (s *KubernetesServer) Kubeconfig(t testing.TB, user string) string {
	t.Helper()
	return s.KubeconfigAt(t, user, s.Addr())
}

// KubeconfigAt is Kubeconfig for a server that is reached at another address, through a Proxy perhaps.
func (s *KubernetesServer) KubeconfigAt(t testing.TB, user, addr string) string {
	t.Helper()
	if user == KubernetesClient {
		return s.kubeconfig(t, addr, fmt.Sprintf("    client-certificate: %s\n    client-key: %s", s.certs.ClientCert, s.certs.ClientKey))
	}
	token := staticToken(user)
	if account, ok := strings.CutPrefix(user, "system:serviceaccount:"); ok {
		namespace, name, _ := strings.Cut(account, ":")
		token = s.Token(t, namespace, name)
	}
	return s.kubeconfig(t, addr, "    token: "+token)
}

// CA returns the path of the certificate of the authority that signed the server's.
func (s *KubernetesServer) CA() string { return s.certs.CA }

// Token returns a new token of a service account, as a pod is given one.
func (s *KubernetesServer) Token(t testing.TB, namespace, account string) string {
	t.Helper()
	path := fmt.Sprintf("/api/v1/namespaces/%s/serviceaccounts/%s/token", namespace, account)
	var answer struct{ Status struct{ Token string } }
	text, err := s.TryAPI("POST", path, `{"apiVersion":"authentication.k8s.io/v1","kind":"TokenRequest","spec":{"expirationSeconds":3600}}`)
	if err := decode(text, err, &answer); err != nil {
		t.Fatal(err)
	}
	return answer.Status.Token
}

// Account returns the user that a service account is.
func (s *KubernetesServer) Account(namespace, name string) string {
	return "system:serviceaccount:" + namespace + ":" + name
}

// AwaitRole waits until the server, which is told of roles by a watch, lets a user change the Leases of a namespace.
func (s *KubernetesServer) AwaitRole(t testing.TB, namespace, user string) {
	t.Helper()
	question := fmt.Sprintf(`{"apiVersion":"authorization.k8s.io/v1","kind":"SubjectAccessReview","spec":{"user":%q,"resourceAttributes":`+
		`{"namespace":%q,"group":"coordination.k8s.io","resource":"leases","verb":"update"}}}`, user, namespace)
	Eventually(t, user+" has its role", func() bool {
		var answer struct{ Status struct{ Allowed bool } }
		text, err := s.TryAPI("POST", "/apis/authorization.k8s.io/v1/subjectaccessreviews", question)
		return decode(text, err, &answer) == nil && answer.Status.Allowed
	})
}

// Namespace makes a namespace that no other test uses, and returns its name.
func (s *KubernetesServer) Namespace(t testing.TB) string {
	t.Helper()
	var made struct{ Metadata struct{ Name string } }
	text, err := s.TryAPI("POST", "/api/v1/namespaces", `{"metadata":{"generateName":"test-"}}`)
	if err := decode(text, err, &made); err != nil {
		t.Fatal(err)
	}
	return made.Metadata.Name
}

// Leases returns the path of the Leases of a namespace.
func (s *KubernetesServer) Leases(namespace string) string { return leasesOf(namespace) }

// API sends a request as the user who may do everything, and returns the body of the answer. The body of a PATCH
// is a merge patch.
func (s *KubernetesServer) API(t testing.TB, method, path, body string) string {
	t.Helper()
	text, err := s.TryAPI(method, path, body)
	if err != nil {
		t.Fatal(err)
	}
	return text
}

// TryAPI is API for a request that may fail; an answer that does not say that it went well is an error.
func (s *KubernetesServer) TryAPI(method, path, body string) (string, error) {
	kind := "application/json"
	if method == http.MethodPatch {
		kind = "application/merge-patch+json"
	}
	return s.try(patience, KubernetesAdmin, method, path, kind, body)
}

// Apply is kubectl apply for a file of manifests: what names no namespace goes to the one that is given. A field that
// Kubernetes does not know is an error.
func (s *KubernetesServer) Apply(t testing.TB, namespace, manifests string) {
	t.Helper()
	if err := s.TryApply(namespace, manifests); err != nil {
		t.Fatal(err)
	}
}

// TryApply is Apply for manifests that may be wrong.
func (s *KubernetesServer) TryApply(namespace, manifests string) error {
	documents := yaml.NewDecoder(strings.NewReader(manifests))
	for {
		var object map[string]any
		if err := documents.Decode(&object); errors.Is(err, io.EOF) {
			return nil
		} else if err != nil {
			return err
		}
		if err := s.apply(namespace, object); err != nil {
			return err
		}
	}
}

func (s *KubernetesServer) apply(namespace string, object map[string]any) error {
	text, err := yaml.Marshal(object)
	if err != nil {
		return err
	}
	var of struct {
		APIVersion string `yaml:"apiVersion"`
		Kind       string
		Metadata   struct{ Name, Namespace string }
	}
	if err := yaml.Unmarshal(text, &of); err != nil {
		return err
	}
	if of.Metadata.Namespace != "" {
		namespace = of.Metadata.Namespace
	}
	base := "/apis/"
	if !strings.Contains(of.APIVersion, "/") {
		base = "/api/"
	}
	path := base + of.APIVersion + "/namespaces/" + namespace + "/" + strings.ToLower(of.Kind) + "s" // as those are called that are applied here
	_, err = s.try(patience, KubernetesAdmin, "PATCH", path+"/"+of.Metadata.Name+"?fieldManager=test&fieldValidation=Strict",
		"application/apply-patch+yaml", string(text))
	return err
}
