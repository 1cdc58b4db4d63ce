package kubernetes

import (
	"cmp"
	"os"
	"path/filepath"
	"strings"

	"github.com/leaderrun/leaderrun/backends"
	"github.com/leaderrun/leaderrun/backends/kubernetes/api"
	"github.com/leaderrun/leaderrun/internal/backendurl"
)

const (
	defaultPrefix    = "leaderrun"
	defaultNamespace = "default"
	accountHint      = "automountServiceAccountToken: true in the pod's spec gives it one; or ?kubeconfig=FILE says who asks"

	longestName = 63 // of a namespace (RFC 1123), and of a label's value
)

var form = backendurl.Form{
	Of:      "a Kubernetes backend",
	Shapes:  "k8s://NAMESPACE, k8s://NAMESPACE/PREFIX?kubeconfig=FILE&context=NAME",
	Schemes: map[string]backendurl.Scheme{"k8s": {Name: true}},
}

// config is what a backend URL says, and what it leaves to kubectl's files or to the pod.
type config struct {
	url        *backendurl.URL
	prefix     string // what the names of all Leases begin with, before a dash
	kubeconfig string // "": where kubectl looks
	context    string // "": the current one

	source    string // where what follows comes from, for people
	readable  string // a file with a secret; "": none
	namespace string
	server    string
	withheld  bool // the user's credentials, from a server without TLS
	api       api.Config
}

var knownOptions = backendurl.Options[config]{
	"prefix":     backendurl.Prefix(func(c *config) *string { return &c.prefix }),
	"kubeconfig": backendurl.Text("file that says where the cluster is and who asks", func(c *config) *string { return &c.kubeconfig }),
	"context":    backendurl.Text("context of the kubeconfig", func(c *config) *string { return &c.context }),
}

// surroundings are what a URL leaves open.
type surroundings struct {
	env     func(name string) string
	account string // the folder with a pod's service account
}

func (s surroundings) isPod() bool   { return s.env("KUBERNETES_SERVICE_HOST") != "" }
func (s surroundings) token() string { return filepath.Join(s.account, "token") }

func ours() surroundings {
	return surroundings{env: os.Getenv, account: "/var/run/secrets/kubernetes.io/serviceaccount"}
}

// parseURL reads a backend URL and the files that it leads to.
func parseURL(raw string, s surroundings) (*config, error) {
	c := &config{}
	u, err := backendurl.Read(raw, form, knownOptions, c)
	if err != nil {
		return nil, err
	}
	c.url = u
	if c.prefix, err = u.Prefix(c.prefix, defaultPrefix); err != nil {
		return nil, err
	}
	if err := c.locate(s); err != nil {
		return nil, err
	}
	if len(u.Addrs) > 0 {
		c.namespace = u.Addrs[0]
	}
	c.namespace = cmp.Or(c.namespace, defaultNamespace)
	if !isLabel(c.namespace) {
		return nil, backends.Misconfigured(form.Shapes, "%q is no name of a namespace", c.namespace)
	}
	c.api.Server, c.api.Namespace = c.server, c.namespace
	return c, nil
}

// isLabel says whether a name is a label of RFC 1123, in lower case.
func isLabel(name string) bool {
	return name != "" && len(name) <= longestName && strings.Trim(name, lowerAlnum+"-") == "" &&
		!strings.HasPrefix(name, "-") && !strings.HasSuffix(name, "-")
}

// locate finds the cluster: what the URL names, else the one whose pod this is, else where kubectl looks.
func (c *config) locate(s surroundings) error {
	if c.kubeconfig == "" && c.context == "" && s.isPod() && isThere(s.token()) {
		return c.inPod(s)
	}
	return c.byKubeconfig(s)
}

func isThere(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}

// files returns where kubectl looks.
func (c *config) files(s surroundings) ([]string, error) {
	if c.kubeconfig != "" {
		return []string{c.kubeconfig}, nil
	}
	var named []string
	for path := range strings.SplitSeq(s.env("KUBECONFIG"), string(filepath.ListSeparator)) {
		if path != "" {
			named = append(named, path)
		}
	}
	if len(named) > 0 {
		return named, nil
	}
	home := s.env("HOME")
	path := filepath.Join(home, ".kube", "config")
	switch {
	case c.context == "" && s.isPod() && (home == "" || !isThere(path)): // nobody expects kubectl's file there
		return nil, backends.Misconfigured(accountHint, "this pod has no service account token (%s)", s.token())
	case home != "":
		return []string{path}, nil
	}
	return nil, backends.Misconfigured("?kubeconfig=FILE", "nothing says where the Kubernetes cluster is: this is no pod, and $KUBECONFIG and $HOME are not set")
}
