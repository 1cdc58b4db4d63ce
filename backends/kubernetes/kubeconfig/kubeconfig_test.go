package kubeconfig_test

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/leaderrun/leaderrun/backends"
	"github.com/leaderrun/leaderrun/backends/kubernetes/kubeconfig"
)

func put(t *testing.T, dir, text string) string {
	t.Helper()
	path := filepath.Join(dir, "config")
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

const whole = `
apiVersion: v1
kind: Config
preferences: {}
current-context: b
clusters:
- name: c
  cluster: {server: "https://h:6443", certificate-authority: ca.pem, tls-server-name: n}
contexts:
- {name: a, context: {cluster: c, user: u, namespace: x}}
- {name: b, context: {cluster: c, user: v}}
users:
- name: u
  user: {token: first}
- name: v
  user:
    client-certificate: /abs/cert
    client-key: key
    exec: {apiVersion: client.authentication.k8s.io/v1beta1, command: bin/plugin, args: [x], env: [{name: N, value: V}]}
`

func TestLoad(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	path := put(t, dir, whole)
	a, err := kubeconfig.Load([]string{path}, "a")
	if err != nil {
		t.Fatal(err)
	}
	if a.Namespace != "x" || a.User.Token != "first" || a.Cluster.Server != "https://h:6443" || a.Cluster.ServerName != "n" {
		t.Errorf("%+v", a)
	}
	b, err := kubeconfig.Load([]string{path}, "")
	if err != nil {
		t.Fatal(err)
	}
	u := b.User
	if b.Name != "b" || b.Cluster.CA != dir+"/ca.pem" || u.Cert != "/abs/cert" || u.Key != dir+"/key" {
		t.Errorf("%+v", b)
	}
	if e := u.Exec; e == nil || e.Command != dir+"/bin/plugin" || len(e.Args) != 1 || e.Env[0].Value != "V" {
		t.Errorf("%+v", e)
	}
}

// TestMerged: of several files the first one that says something counts, and each has its own folder.
func TestMerged(t *testing.T) {
	t.Parallel()
	one, two := t.TempDir(), t.TempDir()
	first := put(t, one, "current-context: a\nusers:\n- {name: u, user: {tokenFile: mine}}\n")
	second := put(t, two, whole)
	got, err := kubeconfig.Load([]string{filepath.Join(one, "none"), first, second}, "")
	if err != nil {
		t.Fatal(err)
	}
	if got.Name != "a" || got.User.Token != "" || got.User.TokenFile != one+"/mine" || got.Cluster.CA != two+"/ca.pem" {
		t.Errorf("%+v", got)
	}
}

// TestWrong: what cannot be read or is not done is said, with a remedy, and no secret is shown.
func TestWrong(t *testing.T) {
	t.Parallel()
	with := func(old, replacement string) string { return strings.Replace(whole, old, replacement, 1) }
	for name, c := range map[string]struct{ text, shows, hint string }{
		"no YAML":           {"users: [sesame", "cannot be read", "kubectl config view"},
		"no context":        {with("current-context: b", ""), "no current context", "?context="},
		"unknown context":   {with("current-context: b", "current-context: z"), `no context "z"`, "get-contexts"},
		"unknown cluster":   {with("name: b, context: {cluster: c", "name: b, context: {cluster: z"), `no cluster "z"`, ""},
		"no server":         {with(`"https://h:6443"`, `""`), "not https://", ""},
		"insecure":          {with("tls-server-name: n", "insecure-skip-tls-verify: true"), "insecure-skip-tls-verify", "certificate-authority"},
		"a proxy":           {with("tls-server-name: n", "proxy-url: http://p"), "proxy-url", "reaches itself"},
		"a password":        {with("client-key: key", "username: u\n    password: sesame"), "password", "token"},
		"an auth-provider":  {with("client-key: key", "auth-provider: {name: gcp}"), "auth-provider", "exec"},
		"somebody else":     {with("client-key: key", "client-key: key\n    as: root"), "somebody else", "role.yaml"},
		"half a pair":       {with("client-key: key", ""), "only one", ""},
		"data not base64":   {with("client-key: key", "client-key-data: '%sesame'"), "not base64", ""},
		"an old plugin":     {with("k8s.io/v1beta1", "k8s.io/v1alpha1"), "spoken no more", "newer"},
		"without a command": {with("command: bin/plugin", "command: ''"), "no command", ""},
		"a terminal":        {with("args: [x]", "interactiveMode: Always"), "terminal", "service account"},
	} {
		_, err := kubeconfig.Load([]string{put(t, t.TempDir(), c.text)}, "")
		e, ok := errors.AsType[*backends.PermanentError](err)
		if !ok || !strings.Contains(e.Error(), c.shows) || !strings.Contains(e.Hint, c.hint) || e.Hint == "" {
			t.Errorf("%s: %v (%+v), want %q and the hint %q", name, err, e, c.shows, c.hint)
			continue
		}
		if strings.Contains(e.Error()+e.Hint, "sesame") {
			t.Errorf("%s: shows a secret: %v", name, err)
		}
	}
	if _, err := kubeconfig.Load([]string{"/nowhere/config"}, ""); err == nil {
		t.Error("a file that is not there")
	}
}

// TestAnchors: what a file says once and means twice is read as kubectl reads it, and one that unfolds to gigabytes, or
// has no end, is refused.
func TestAnchors(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	twice := strings.Replace(whole, `cluster: {server: "https://h:6443"`, `cluster: &c {<<: {proxy-url: ""}, server: "https://h:6443"`, 1) +
		"- {name: w, user: &u {token: second}}\n- {name: x, user: *u}\n"
	twice = strings.Replace(twice, "users:", "- {name: d, context: {cluster: c, user: x}}\nusers:", 1)
	if c, err := kubeconfig.Load([]string{put(t, dir, twice)}, "d"); err != nil || c.User.Token != "second" || c.Cluster.Server != "https://h:6443" {
		t.Errorf("%+v, %v", c, err)
	}
	bomb := "a0: &a0 [x,x,x,x,x,x,x,x,x,x]\n"
	for i := range 12 {
		bomb += fmt.Sprintf("a%d: &a%d [*a%d,*a%d,*a%d,*a%d,*a%d,*a%d,*a%d,*a%d,*a%d]\n", i+1, i+1, i, i, i, i, i, i, i, i, i)
	}
	for name, text := range map[string]string{
		"a bomb":    bomb + "users: [{name: u, user: {exec: {args: *a12}}}]\n",
		"a circle":  "users: &u [{name: u, user: {exec: {args: *u}}}]\n",
		"no end":    whole + strings.Repeat("# nothing here\n", 2<<20),
		"bad bytes": "\xff\xfe\x00",
	} {
		if c, err := kubeconfig.Load([]string{put(t, dir, text)}, ""); err == nil {
			t.Errorf("%s: %+v", name, c)
		} else if len(err.Error()) > 500 {
			t.Errorf("%s: an error of %d bytes", name, len(err.Error()))
		}
	}
}
