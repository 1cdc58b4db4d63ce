package kubeconfig

import (
	"encoding/base64"
	"net"
	"net/url"
	"strings"
)

// check refuses what leaderrun does not do, and decodes what stands in the file itself.
func (c *Cluster) check(name string) error {
	u, err := url.Parse(c.Server)
	switch {
	case err != nil || u.Hostname() == "" || u.Scheme != "https" && u.Scheme != "http" || u.User != nil || u.RawQuery != "" || u.ForceQuery || u.Fragment != "":
		return wrong("write the address alone, without a user, a query or a fragment", "the server of cluster %q is not https://HOST:PORT", name)
	case c.Insecure:
		return wrong("certificate-authority names a file with the authority that signed the server's certificate",
			"cluster %q has insecure-skip-tls-verify: whoever answers could grant leases", name)
	case c.Proxy != "":
		return wrong("name a server that this host reaches itself", "cluster %q has a proxy-url, which leaderrun does not use", name)
	}
	c.Server, c.Secure, c.Local = u.Scheme+c.Server[len(u.Scheme):], u.Scheme == "https", isLoopback(u.Hostname())
	c.CAData, err = decode(c.EncodedCA)
	if err != nil {
		return wrong("write what base64 makes of the PEM file, or name the file by certificate-authority",
			"certificate-authority-data of cluster %q is not base64", name)
	}
	return nil
}

// isLoopback says whether a host is this one, whatever a resolver says.
func isLoopback(host string) bool {
	ip := net.ParseIP(host)
	return ip != nil && ip.IsLoopback() || strings.EqualFold(host, "localhost")
}

func (u *User) check(name string) error {
	switch {
	case u.Username != "" || u.Password != "":
		return wrong("use a token or a client certificate", "user %q has a password, which Kubernetes takes no more since 1.19", name)
	case u.Provider.Kind != 0:
		return wrong("use exec: the programs of the cloud's vendor write such a kubeconfig",
			"user %q has an auth-provider, which Kubernetes has no more since 1.26", name)
	case u.As != "":
		return wrong("use a service account with backends/kubernetes/role.yaml", "user %q is to act as somebody else, which leaderrun does not do", name)
	}
	var badCert, badKey error
	u.CertData, badCert = decode(u.EncodedCert)
	u.KeyData, badKey = decode(u.EncodedKey)
	if badCert != nil || badKey != nil {
		return wrong("write what base64 makes of the PEM files, or name them by client-certificate and client-key",
			"client-certificate-data or client-key-data of user %q is not base64", name)
	}
	hasCert, hasKey := u.Cert != "" || u.CertData != nil, u.Key != "" || u.KeyData != nil
	if hasCert != hasKey {
		return wrong("add the other one", "user %q has only one of client-certificate and client-key", name)
	}
	return u.Exec.check(name)
}

func (e *Exec) check(name string) error {
	switch {
	case e == nil:
		return nil
	case e.APIVersion != "client.authentication.k8s.io/v1" && e.APIVersion != "client.authentication.k8s.io/v1beta1":
		return wrong("the plugin's own tool writes a newer kubeconfig", "the plugin of user %q is of version %q, which is spoken no more", name, e.APIVersion)
	case e.Command == "":
		return wrong("exec: command: names the program", "the plugin of user %q has no command", name)
	case e.Interactive == "Always":
		return wrong("use a service account", "the plugin of user %q wants a terminal, and a job has none", name)
	}
	return nil
}

// decode returns nil where nothing is encoded.
func decode(text string) ([]byte, error) {
	if text == "" {
		return nil, nil
	}
	return base64.StdEncoding.DecodeString(text)
}
