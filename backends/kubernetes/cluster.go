package kubernetes

import (
	"cmp"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"strings"

	"github.com/leaderrun/leaderrun/backends"
	"github.com/leaderrun/leaderrun/backends/kubernetes/api"
	"github.com/leaderrun/leaderrun/backends/kubernetes/kubeconfig"
	"github.com/leaderrun/leaderrun/internal/credentialplugin"
	"github.com/leaderrun/leaderrun/internal/ownership"
)

const (
	pemHint   = "certificate-authority of the kubeconfig names a file with certificates in PEM form, which this user can read"
	pairHint  = "client-certificate and client-key of the kubeconfig name files in PEM form, which this user can read"
	tokenHint = "tokenFile of the kubeconfig names a file with a token, which this user can read"
	fileHint  = "correct ?kubeconfig=: it names a kubeconfig that this user can read"
)

const largestPEM = 16 << 20

// inPod uses what every pod is given: address, authority, namespace, and a token that is replaced every hour or so.
func (c *config) inPod(s surroundings) error {
	c.source = "the pod's service account"
	c.server = "https://" + net.JoinHostPort(s.env("KUBERNETES_SERVICE_HOST"), s.env("KUBERNETES_SERVICE_PORT"))
	ca := filepath.Join(s.account, "ca.crt")
	pem, err := os.ReadFile(ca)
	if err != nil {
		return backends.Misconfigured(accountHint, "service account: %w", err)
	}
	roots, err := authorities(pem, ca)
	if err != nil {
		return err
	}
	if name, err := os.ReadFile(filepath.Join(s.account, "namespace")); err == nil {
		c.namespace = strings.TrimSpace(string(name))
	}
	c.api.TLS = &tls.Config{MinVersion: tls.VersionTLS12, RootCAs: roots}
	c.api.Credentials = &api.TokenFile{Path: s.token()}
	return nil
}

func (c *config) byKubeconfig(s surroundings) error {
	files, err := c.files(s)
	if err != nil {
		return err
	}
	of, err := kubeconfig.Load(files, c.context)
	if _, unread := errors.AsType[*fs.PathError](err); unread && c.kubeconfig != "" {
		return backends.Misconfigured(fileHint, "%w", err)
	}
	if err != nil {
		return err
	}
	c.source, c.withheld = "context "+of.Name+" of "+strings.Join(files, ", "), of.Withheld
	if of.User.Token != "" || of.User.KeyData != nil {
		c.readable = files[0]
	}
	c.server, c.namespace = of.Cluster.Server, of.Namespace
	if of.Cluster.Secure {
		if c.api.TLS, err = clusterTLS(of.Cluster); err != nil {
			return err
		}
	}
	c.api.Credentials, err = userCredentials(of)
	return err
}

func clusterTLS(of kubeconfig.Cluster) (*tls.Config, error) {
	t := &tls.Config{MinVersion: tls.VersionTLS12, ServerName: of.ServerName}
	pem, err := authorityOf(of)
	if err != nil || pem == nil {
		return t, err
	}
	t.RootCAs, err = authorities(pem, "certificate-authority of the kubeconfig")
	return t, err
}

// authorityOf returns who signed the server's certificate; nil: nobody is named.
func authorityOf(of kubeconfig.Cluster) ([]byte, error) {
	if of.CAData != nil || of.CA == "" {
		return of.CAData, nil
	}
	pem, err := ownership.ReadAny(of.CA, largestPEM)
	if err != nil {
		return nil, backends.Misconfigured(cmp.Or(ownership.Remedy(err), pemHint), "kubeconfig: certificate-authority: %w", err)
	}
	return pem, nil
}

func authorities(pem []byte, where string) (*x509.CertPool, error) {
	pool := x509.NewCertPool()
	if !pool.AppendCertsFromPEM(pem) {
		return nil, backends.Misconfigured(pemHint, "%s holds no certificate in PEM form", where)
	}
	return pool, nil
}

// userCredentials returns what a user shows, which may be nothing.
func userCredentials(of *kubeconfig.Context) (api.Credentials, error) {
	u := of.User
	pair, err := keyPair(u)
	if err != nil {
		return nil, err
	}
	switch {
	case u.TokenFile != "":
		f := &api.TokenFile{Path: u.TokenFile, Certificate: pair}
		if _, err := f.Get(context.Background()); err != nil { // it is a file, and read at once
			return nil, backends.Misconfigured(cmp.Or(ownership.Remedy(err), tokenHint), "kubeconfig: %w", err)
		}
		return f, nil
	case u.Token == "" && u.Exec != nil:
		plugin, err := pluginOf(of)
		return plugin, err
	}
	return api.Fixed{Token: u.Token, Certificate: pair}, nil
}

func keyPair(u kubeconfig.User) (*tls.Certificate, error) {
	cert, key := u.CertData, u.KeyData
	var errCert, errKey error
	if cert == nil && u.Cert != "" {
		cert, errCert = ownership.ReadAny(u.Cert, largestPEM)
	}
	if key == nil && u.Key != "" {
		key, errKey = ownership.ReadAny(u.Key, largestPEM)
	}
	if err := errors.Join(errCert, errKey); err != nil {
		return nil, backends.Misconfigured(cmp.Or(ownership.Remedy(err), pairHint), "kubeconfig: %w", err)
	}
	if cert == nil {
		return nil, nil //nolint:nilnil // the user has none
	}
	pair, err := tls.X509KeyPair(cert, key)
	if err != nil {
		return nil, backends.Misconfigured(pairHint, "kubeconfig: client-certificate and client-key: %w", err)
	}
	return &pair, nil
}

// plugin is a credential plugin as the client knows it.
type plugin struct{ *credentialplugin.Source }

// Get implements api.Credentials. The first one starts the plugin.
func (p plugin) Get(ctx context.Context) (api.Credential, error) {
	c, err := p.Source.Get(ctx)
	if err != nil {
		return api.Credential{}, err
	}
	return api.Credential{Token: c.Token, Certificate: c.Certificate}, nil
}

// Refused implements api.Credentials.
func (p plugin) Refused(c api.Credential) { p.Forget(c.Token, c.Certificate) }

func pluginOf(of *kubeconfig.Context) (plugin, error) {
	e := of.User.Exec
	p := credentialplugin.Plugin{APIVersion: e.APIVersion, Command: e.Command, Args: e.Args, InstallHint: e.InstallHint}
	for _, v := range e.Env {
		p.Env = append(p.Env, v.Name+"="+v.Value)
	}
	if e.ProvideCluster {
		t := map[string]any{"server": of.Cluster.Server}
		if of.Cluster.ServerName != "" {
			t["tls-server-name"] = of.Cluster.ServerName
		}
		ca, err := authorityOf(of.Cluster)
		if err != nil {
			return plugin{}, err
		}
		if ca != nil {
			t["certificate-authority-data"] = ca
		}
		text, err := json.Marshal(t)
		if err != nil {
			return plugin{}, backends.Misconfigured("", "kubeconfig: %w", err)
		}
		p.Cluster = text
	}
	return plugin{credentialplugin.New(p)}, nil
}
