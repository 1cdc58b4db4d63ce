package servers

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"math/big"
	"net"
	"path/filepath"
	"testing"
	"time"
)

// Certificates are an authority and what it signed, as files in PEM form.
type Certificates struct {
	CA                    string
	ServerCert, ServerKey string // for 127.0.0.1, localhost, and the addresses and names that were named
	ClientCert, ClientKey string

	pool   *x509.CertPool
	client tls.Certificate
}

// NewCertificates makes an authority of its own for a test. Servers on other addresses than 127.0.0.1, or with names,
// need them in their certificate.
func NewCertificates(t testing.TB, addresses ...string) *Certificates {
	t.Helper()
	dir := t.TempDir()
	caKey, ca := sign(t, dir, "ca", nil, nil, "localhost")
	hosts := append([]string{"localhost", "127.0.0.1"}, addresses...)
	c := &Certificates{CA: filepath.Join(dir, "ca.crt"), pool: x509.NewCertPool()}
	c.pool.AddCert(ca)
	sign(t, dir, "server", ca, caKey, hosts...)
	sign(t, dir, "client", ca, caKey, "localhost")
	c.ServerCert, c.ServerKey = filepath.Join(dir, "server.crt"), filepath.Join(dir, "server.key")
	c.ClientCert, c.ClientKey = filepath.Join(dir, "client.crt"), filepath.Join(dir, "client.key")
	var err error
	if c.client, err = tls.LoadX509KeyPair(c.ClientCert, c.ClientKey); err != nil {
		t.Fatal(err)
	}
	return c
}

// Client returns the configuration of a client.
func (c *Certificates) Client() *tls.Config {
	return &tls.Config{RootCAs: c.pool, Certificates: []tls.Certificate{c.client}, MinVersion: tls.VersionTLS12}
}

// Server returns the configuration of a server.
func (c *Certificates) Server(t testing.TB) *tls.Config {
	t.Helper()
	pair, err := tls.LoadX509KeyPair(c.ServerCert, c.ServerKey)
	if err != nil {
		t.Fatal(err)
	}
	return &tls.Config{Certificates: []tls.Certificate{pair}, ClientCAs: c.pool, MinVersion: tls.VersionTLS12}
}

// sign writes NAME.crt and NAME.key, signed by the parent, or by itself without one.
func sign(t testing.TB, dir, name string, parent *x509.Certificate, parentKey *ecdsa.PrivateKey, hosts ...string) (*ecdsa.PrivateKey, *x509.Certificate) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(time.Now().UnixNano()), Subject: pkix.Name{CommonName: name},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(24 * time.Hour),
		KeyUsage:    x509.KeyUsageDigitalSignature | x509.KeyUsageCertSign,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
		IsCA:        parent == nil, BasicConstraintsValid: true,
	}
	for _, host := range hosts {
		if ip := net.ParseIP(host); ip != nil {
			template.IPAddresses = append(template.IPAddresses, ip)
		} else {
			template.DNSNames = append(template.DNSNames, host)
		}
	}
	if parent == nil {
		parent, parentKey = template, key
	} else {
		template.KeyUsage = x509.KeyUsageDigitalSignature
	}
	der, err := x509.CreateCertificate(rand.Reader, template, parent, &key.PublicKey, parentKey)
	if err != nil {
		t.Fatal(err)
	}
	cert, err := x509.ParseCertificate(der)
	if err != nil {
		t.Fatal(err)
	}
	secret, err := x509.MarshalECPrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	writeFile(t, dir, name+".crt", string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})))
	writeFile(t, dir, name+".key", string(pem.EncodeToMemory(&pem.Block{Type: "EC PRIVATE KEY", Bytes: secret})))
	return key, cert
}
