package kubernetes

import (
	"encoding/pem"
	"errors"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/leaderrun/leaderrun/backends"
	"github.com/leaderrun/leaderrun/backends/kubernetes/api"
)

func put(t *testing.T, dir, name, text string) string {
	t.Helper()
	path := filepath.Join(dir, name)
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// authority returns a certificate in PEM form.
func authority(t *testing.T) string {
	t.Helper()
	s := httptest.NewTLSServer(nil)
	t.Cleanup(s.Close)
	return string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: s.Certificate().Raw}))
}

const twoContexts = `
current-context: a
clusters: [{name: c, cluster: {server: "https://h:6443"}}, {name: d, cluster: {server: "http://localhost:8001"}}]
contexts:
- {name: a, context: {cluster: c, user: u, namespace: jobs}}
- {name: b, context: {cluster: d}}
users: [{name: u, user: {token: sesame}}]
`

// around is what a test is surrounded by: HOME with a kubeconfig, a pod's files, and $KUBECONFIG.
func around(t *testing.T, env map[string]string) surroundings {
	t.Helper()
	home := t.TempDir()
	put(t, home, ".kube/config", twoContexts)
	put(t, home, "account/token", "rotates")
	put(t, home, "account/ca.crt", authority(t))
	put(t, home, "account/namespace", "podspace\n")
	return surroundings{account: filepath.Join(home, "account"), env: func(name string) string {
		if name == "HOME" && env["HOME"] == "" {
			return home
		}
		return env[name]
	}}
}

func TestWhereTheClusterIs(t *testing.T) {
	t.Parallel()
	pod := map[string]string{"KUBERNETES_SERVICE_HOST": "10.0.0.1", "KUBERNETES_SERVICE_PORT": "443"}
	other := put(t, t.TempDir(), "other", strings.ReplaceAll(twoContexts, "h:6443", "other"))
	both := map[string]string{"KUBECONFIG": ":/nowhere:" + other}
	for name, c := range map[string]struct {
		url       string
		env       map[string]string
		server    string
		namespace string
		token     string
	}{
		"kubectl's file":              {"k8s://", nil, "https://h:6443", "jobs", "sesame"},
		"its other context":           {"k8s://?context=b", nil, "http://localhost:8001", "default", ""},
		"the URL names the namespace": {"k8s://mine", nil, "https://h:6443", "mine", "sesame"},
		"$KUBECONFIG":                 {"k8s://", both, "https://other", "jobs", "sesame"},
		"?kubeconfig=":                {"k8s://?kubeconfig=" + other, map[string]string{"KUBECONFIG": "/nowhere"}, "https://other", "jobs", "sesame"},
		"a pod":                       {"k8s://", pod, "https://10.0.0.1:443", "podspace", "rotates"},
		"a pod, another namespace":    {"k8s://mine", pod, "https://10.0.0.1:443", "mine", "rotates"},
		"a pod, and a context":        {"k8s://?context=a", pod, "https://h:6443", "jobs", "sesame"},
		"a pod with IPv6": {
			"k8s://",
			map[string]string{"KUBERNETES_SERVICE_HOST": "fd00::1", "KUBERNETES_SERVICE_PORT": "443"},
			"https://[fd00::1]:443", "podspace", "rotates",
		},
	} {
		cfg, err := parseURL(c.url, around(t, c.env))
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		var token string
		if cfg.api.Credentials != nil {
			credential, err := cfg.api.Credentials.Get(t.Context())
			if err != nil {
				t.Errorf("%s: %v", name, err)
			}
			token = credential.Token
		}
		if cfg.server != c.server || cfg.namespace != c.namespace || cfg.api.Namespace != c.namespace || token != c.token {
			t.Errorf("%s: server %s, namespace %s, token %s", name, cfg.server, cfg.namespace, token)
		}
		if strings.HasPrefix(cfg.server, "https:") == (cfg.api.TLS == nil) {
			t.Errorf("%s: TLS %v", name, cfg.api.TLS)
		}
	}
}

func TestBadURLs(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	insecure := put(t, dir, "insecure", strings.Replace(twoContexts, `"https://h:6443"`, `"https://h", insecure-skip-tls-verify: true`, 1))
	noCA := put(t, dir, "noca", strings.Replace(twoContexts, `"https://h:6443"`, `"https://h", certificate-authority: none.pem`, 1))
	badCA := put(t, dir, "badca", strings.Replace(twoContexts, `"https://h:6443"`, `"https://h", certificate-authority: badca`, 1))
	badPair := put(t, dir, "pair", strings.Replace(twoContexts, "token: sesame", "client-certificate: pair, client-key: pair", 1))
	noToken := put(t, dir, "notoken", strings.Replace(twoContexts, "token: sesame", "tokenFile: none", 1))
	for url, shows := range map[string]string{
		"etcd://h":                            "not the URL of a Kubernetes",
		"k8s://h:6443":                        "more than a name",
		"k8s://a,b":                           "more than a name",
		"k8s://u:sesame@ns":                   "more than a name",
		"k8s://Upper":                         "no name of a namespace",
		"k8s://-a":                            "no name of a namespace",
		"k8s://ns?ttl=3":                      "does not know",
		"k8s://ns?context=":                   "empty",
		"k8s://ns?prefix=a&prefix=b":          "more than once",
		"k8s://ns/a?prefix=b":                 "two prefixes",
		"k8s://ns?context=z":                  `no context "z"`,
		"k8s://ns?kubeconfig=/nowhere/config": "no such file",
		"k8s://ns?kubeconfig=" + dir:          "is a directory",
		"k8s://ns?kubeconfig=" + insecure:     "insecure-skip-tls-verify",
		"k8s://ns?kubeconfig=" + noCA:         "no such file",
		"k8s://ns?kubeconfig=" + badCA:        "no certificate in PEM",
		"k8s://ns?kubeconfig=" + badPair:      "client-certificate",
		"k8s://ns?kubeconfig=" + noToken:      "token file",
	} {
		_, err := parseURL(url, around(t, nil))
		p, ok := errors.AsType[*backends.PermanentError](err)
		if !ok || p.Kind != backends.Configuration || !strings.Contains(p.Error(), shows) || p.Hint == "" || strings.Contains(p.Error()+p.Hint, "sesame") {
			t.Errorf("%s: %v, want %q", url, err, shows)
		}
	}
	if _, err := parseURL("k8s://", surroundings{env: func(string) string { return "" }}); err == nil || !strings.Contains(err.Error(), "nothing says where") {
		t.Errorf("nowhere: %v", err)
	}
}

// TestRemedies: whoever has no kubeconfig in a pod wants a token there, and whoever has named one has to correct that.
func TestRemedies(t *testing.T) {
	t.Parallel()
	home := t.TempDir()
	pod := map[string]string{"KUBERNETES_SERVICE_HOST": "10.0.0.1", "KUBERNETES_SERVICE_PORT": "443"}
	homely := map[string]string{"KUBERNETES_SERVICE_HOST": "10.0.0.1", "HOME": home}
	named := map[string]string{"KUBERNETES_SERVICE_HOST": "10.0.0.1", "KUBECONFIG": "/nowhere/config"}
	for _, c := range []struct {
		url         string
		env         map[string]string
		shows, hint string
	}{
		{"k8s://", pod, "this pod has no service account token (" + home + "/none/token)", "automountServiceAccountToken: true"},
		{"k8s://", homely, "this pod has no service account token", "automountServiceAccountToken: true"},
		{"k8s://", named, "/nowhere/config: no such file", "?kubeconfig=FILE names another one"},
		{"k8s://?context=a", homely, home + "/.kube/config: no such file", "?kubeconfig=FILE names another one"},
		{"k8s://", map[string]string{"HOME": home}, home + "/.kube/config: no such file", "?kubeconfig=FILE names another one"},
		{"k8s://?kubeconfig=/nowhere/config", pod, "/nowhere/config: no such file", "correct ?kubeconfig="},
	} {
		s := surroundings{account: filepath.Join(home, "none"), env: func(name string) string { return c.env[name] }}
		_, err := parseURL(c.url, s)
		p, ok := errors.AsType[*backends.PermanentError](err)
		if !ok || p.Kind != backends.Configuration || !strings.Contains(p.Error(), c.shows) || !strings.Contains(p.Hint, c.hint) {
			t.Errorf("%s, %v: %v (%+v), want %q and the hint %q", c.url, c.env, err, p, c.shows, c.hint)
		}
	}
	put(t, home, ".kube/config", twoContexts)
	s := surroundings{account: filepath.Join(home, "none"), env: func(name string) string { return homely[name] }}
	if c, err := parseURL("k8s://", s); err != nil || c.server != "https://h:6443" {
		t.Errorf("a pod without a token that has a kubeconfig: %+v, %v", c, err)
	}
}

// TestPluginOfKubeconfig: Open starts no plugin, the first request does, and cron's short $PATH is told of.
func TestPluginOfKubeconfig(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	put(t, dir, "plugin", "echo started >> "+dir+"/started\n"+
		`echo '{"apiVersion":"client.authentication.k8s.io/v1","kind":"ExecCredential","status":{"token":"of the plugin"}}'`)
	with := func(command string) string {
		return strings.Replace(twoContexts, "token: sesame", "exec: {apiVersion: client.authentication.k8s.io/v1, command: "+command+", args: ["+dir+"/plugin]}", 1)
	}
	d := open(t, "k8s://ns?kubeconfig="+put(t, dir, "config", with("/bin/sh")))
	if _, err := os.Stat(dir + "/started"); err == nil {
		t.Error("Open has started the plugin")
	}
	if c, err := d.cfg.api.Credentials.Get(t.Context()); err != nil || c.Token != "of the plugin" {
		t.Errorf("%v, %v", c, err)
	}
	d = open(t, "k8s://ns?kubeconfig="+put(t, dir, "config2", with("no-such-plugin")))
	_, err := d.Acquire(t.Context(), newClaim("job"))
	if p, ok := errors.AsType[*backends.PermanentError](err); !ok || p.Kind != backends.Configuration || !strings.Contains(p.Hint, "$PATH") {
		t.Errorf("%v", err)
	}
}

func TestRedacted(t *testing.T) {
	t.Parallel()
	d := open(t, "k8s://ns/team?kubeconfig="+put(t, t.TempDir(), "config", twoContexts)+"&context=a")
	if got := d.String(); !strings.HasPrefix(got, "k8s://ns/team?context=a&kubeconfig=") || d.Prefix() != "team" {
		t.Errorf("%s, %s", got, d.Prefix())
	}
}

var _ client = (*api.Client)(nil)
