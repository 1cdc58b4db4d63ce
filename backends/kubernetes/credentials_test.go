package kubernetes

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"os"

	"github.com/leaderrun/leaderrun/backends"
	"github.com/leaderrun/leaderrun/backends/kubernetes/api"
	"github.com/leaderrun/leaderrun/internal/credentialplugin"
	"github.com/leaderrun/leaderrun/test/servers"
)

// clientRole gives who has the client certificate the rights of role.yaml.
const clientRole = `
apiVersion: rbac.authorization.k8s.io/v1
kind: RoleBinding
metadata: {name: client}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: Role, name: leaderrun}
subjects:
- {apiGroup: rbac.authorization.k8s.io, kind: User, name: ` + servers.KubernetesClient + `}
`

// clientCertificate, like the next three: who shows that and nothing else takes a lease, keeps it and gives it back.
func clientCertificate(w *world) {
	w.admitClient()
	w.livesAs(w.open(servers.KubernetesClient))
}

func pluginToken(w *world) {
	w.livesAs(w.shows(w.plugin(map[string]string{"token": w.server.Token(w, w.namespace, "leaderrun")})))
}

// replacedToken: the token of a lease is revoked and replaced in its file. The renewals are refused meanwhile, which may pass, and go
// on with the new one. To who was never let in with it, the refusal is final.
func replacedToken(w *world) {
	first := w.revocable()
	path := put(w.T, w.TempDir(), "token", first)
	d := w.shows("tokenFile: " + path)
	g := w.Acquire(d, newClaim("job"))
	w.Renew(d, g)

	w.server.API(w, http.MethodDelete, w.secrets()+"/token", "")
	stale := w.shows("token: " + first)
	servers.Eventually(w, "the server does not take the old token any more", func() bool { // it remembers for 10 s whom it let in
		e, ok := errors.AsType[*api.Error](stale.client.Ready(w.Context()))
		return ok && e.Code == http.StatusUnauthorized
	})
	_, err := d.Renew(w.Context(), g)
	if e, ok := errors.AsType[*api.Error](err); !ok || e.Code != http.StatusUnauthorized || backends.IsAnswer(err) {
		w.Errorf("Renew with the old token: %v", err)
	}
	_, err = w.shows("token: "+first).Acquire(w.Context(), newClaim("another"))
	w.permanent("Acquire with the old token", err, backends.Credentials, "kubectl auth whoami")

	if err := os.Rename(put(w.T, w.TempDir(), "token", w.server.Token(w, w.namespace, "leaderrun")), path); err != nil {
		w.Fatal(err)
	}
	w.Renew(d, g)
	w.Finish(d, g)
}

// livesAs is the whole life of a lease.
func (w *world) livesAs(d *driver) {
	w.Helper()
	g := w.Acquire(d, newClaim("job"))
	w.Renew(d, g)
	w.Finish(d, g)
}

func (w *world) admitClient() {
	w.Helper()
	w.server.Apply(w, w.namespace, clientRole)
	w.server.AwaitRole(w, w.namespace, servers.KubernetesClient)
}

// shows opens a driver that has nothing to show but what a kubeconfig says of its user.
func (w *world) shows(user string) *driver {
	w.Helper()
	return open(w, urlOf(w.namespace, put(w.T, w.TempDir(), "config", fmt.Sprintf(`
current-context: only
contexts: [{name: only, context: {cluster: only, user: only}}]
clusters: [{name: only, cluster: {server: "https://%s", certificate-authority: %s}}]
users: [{name: only, user: {%s}}]
`, w.server.Addr(), w.server.CA(), user))))
}

// plugin makes a script that prints a credential, and returns what a kubeconfig says of its user.
func (w *world) plugin(credential map[string]string) string {
	w.Helper()
	text, err := json.Marshal(map[string]any{"apiVersion": credentialplugin.V1, "kind": "ExecCredential", "status": credential})
	if err != nil {
		w.Fatal(err)
	}
	script := put(w.T, w.TempDir(), "plugin", "cat <<'END'\n"+string(text)+"\nEND\n")
	return "exec: {apiVersion: " + credentialplugin.V1 + ", command: /bin/sh, args: [" + script + "]}"
}

// revocable returns a token of the account that ends with the Secret that is called token.
func (w *world) revocable() string {
	w.Helper()
	w.server.API(w, http.MethodPost, w.secrets(), `{"metadata":{"name":"token"}}`)
	var reply struct{ Status struct{ Token string } }
	text := w.server.API(w, http.MethodPost, "/api/v1/namespaces/"+w.namespace+"/serviceaccounts/leaderrun/token",
		`{"spec":{"expirationSeconds":3600,"boundObjectRef":{"apiVersion":"v1","kind":"Secret","name":"token"}}}`)
	if err := json.Unmarshal([]byte(text), &reply); err != nil || reply.Status.Token == "" {
		w.Fatalf("no token: %v: %s", err, text)
	}
	return reply.Status.Token
}

func (w *world) secrets() string { return "/api/v1/namespaces/" + w.namespace + "/secrets" }
