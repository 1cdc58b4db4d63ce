package main

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"math/big"
	"net"
	"net/http"
	"time"
)

// startKubernetes starts an API server and its etcd, which syncs to disk. There are no controllers and no nodes.
func startKubernetes(s *server) error {
	token := rand.Text()
	certificate, key, err := selfSigned()
	if err != nil {
		return err
	}
	paths := map[string]string{}
	for name, text := range map[string]string{
		"tokens.csv": token + ",bench,bench,system:masters\n", "server.crt": string(certificate), "server.key": string(key),
	} {
		if paths[name], err = s.write(name, text); err != nil {
			return err
		}
	}
	etcd := freeAddr()
	if err := s.launchEtcd(etcd); err != nil {
		return fmt.Errorf("etcd: %w", err)
	}
	err = s.launch("kube-apiserver", "--etcd-servers", "http://"+etcd, "--bind-address", "127.0.0.1", "--secure-port", port(s.addr),
		"--tls-cert-file", paths["server.crt"], "--tls-private-key-file", paths["server.key"], "--token-auth-file", paths["tokens.csv"],
		"--service-account-issuer", "https://kubernetes.default.svc", "--service-cluster-ip-range", "10.0.0.0/24",
		"--service-account-key-file", paths["server.key"], "--service-account-signing-key-file", paths["server.key"],
		"--authorization-mode", "RBAC", "--endpoint-reconciler-type", "none")
	if err != nil {
		return err
	}
	const kubeconfig = `{"clusters": [{"name": "bench", "cluster": {"server": "https://%s", "certificate-authority": %q}}],
"users": [{"name": "bench", "user": {"token": %q}}],
"contexts": [{"name": "bench", "context": {"cluster": "bench", "user": "bench"}}], "current-context": "bench"}
`
	path, err := s.write("kubeconfig", fmt.Sprintf(kubeconfig, s.addr, paths["server.crt"], token))
	if err != nil {
		return err
	}
	s.url = "k8s://default?kubeconfig=" + path
	client := clientOf(certificate, token)
	return await(func() error {
		_, err := fetch(client, "https://"+s.addr+"/api/v1/namespaces/default") // made when most else is ready
		return err
	})
}

// selfSigned returns a certificate for this host, and its key.
func selfSigned() (certificate, key []byte, err error) {
	private, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, nil, err
	}
	const life = 24 * time.Hour
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}, BasicConstraintsValid: true, IsCA: true,
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(life),
		KeyUsage: x509.KeyUsageCertSign | x509.KeyUsageDigitalSignature, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, private.Public(), private)
	if err != nil {
		return nil, nil, err
	}
	keyDER, err := x509.MarshalECPrivateKey(private)
	if err != nil {
		return nil, nil, err
	}
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}), pem.EncodeToMemory(&pem.Block{Type: "EC PRIVATE KEY", Bytes: keyDER}), nil
}

// clientOf returns what asks a server that has this certificate.
func clientOf(certificate []byte, token string) *http.Client {
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(certificate)
	return &http.Client{Transport: withToken{token, &http.Transport{TLSClientConfig: &tls.Config{RootCAs: roots}}}}
}

// withToken adds a token to each request.
type withToken struct {
	token string
	http.RoundTripper
}

func (t withToken) RoundTrip(r *http.Request) (*http.Response, error) {
	r = r.Clone(r.Context())
	r.Header.Set("Authorization", "Bearer "+t.token)
	return t.RoundTripper.RoundTrip(r)
}
