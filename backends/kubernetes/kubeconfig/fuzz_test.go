package kubeconfig

import (
	"errors"
	"strings"
	"testing"

	"github.com/leaderrun/leaderrun/backends"
)

// FuzzLoad: whatever a file holds, it is refused with a remedy, or a context that asks a server as whom may be asked so.
func FuzzLoad(f *testing.F) {
	for _, text := range []string{
		"current-context: a\nclusters: [{name: c, cluster: {server: \"https://h:6443\", certificate-authority-data: AAAA}}]\ncontexts: [{name: a, context: {cluster: c, user: u, namespace: n}}]\nusers: [{name: u, user: {token: sesame}}]\n",
		"current-context: a\nclusters: [{name: c, cluster: {server: \"HTTP://localhost:1\"}}]\ncontexts: [{name: a, context: {cluster: c, user: u}}]\nusers: [{name: u, user: {exec: {apiVersion: client.authentication.k8s.io/v1, command: x, env: [{name: A, value: b}]}}}]\n",
		"current-context: a\nclusters: [null]\ncontexts: null\nusers: [{name: u, user: null}, {}]\n", "a: &a [*a]\n", "{}", "users: {<<: [1]}",
		`{"current-context":"a","contexts":[{"name":"a","context":null}],"clusters":[{"name":"","cluster":{"server":"http://[::1]:80"}}]}`,
	} {
		f.Add([]byte(text))
	}
	f.Fuzz(func(t *testing.T, text []byte) { // without a file: an input that takes ten seconds, on a slow disk perhaps, is taken for a hang
		all := newMerged()
		c, err := (*Context)(nil), all.merge("config", text)
		if err == nil {
			c, err = all.context("")
		}
		if err != nil {
			if e, ok := errors.AsType[*backends.PermanentError](err); !ok || e.Hint == "" || c != nil {
				t.Fatalf("%v of %+v", err, c)
			}
			return
		}
		if c.Cluster.Secure != strings.HasPrefix(c.Cluster.Server, "https://") || !c.Cluster.Secure && !strings.HasPrefix(c.Cluster.Server, "http://") {
			t.Fatalf("%+v", c.Cluster)
		}
		u := c.User
		if !c.Cluster.Secure && (u.Token != "" || u.TokenFile != "" || u.Exec != nil || u.Cert != "" || u.CertData != nil || u.Key != "" || u.KeyData != nil) {
			t.Fatalf("%s is shown %+v", c.Cluster.Server, u)
		}
		if (u.Cert == "" && u.CertData == nil) != (u.Key == "" && u.KeyData == nil) {
			t.Fatalf("half a pair: %+v", u)
		}
	})
}
