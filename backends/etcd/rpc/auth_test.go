package rpc_test

import (
	"context"
	"crypto/tls"
	"errors"
	"testing"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/leaderrun/leaderrun/backends/etcd/rpc"
	"github.com/leaderrun/leaderrun/internal/backendurl"
	"github.com/leaderrun/leaderrun/test/servers"
)

const password = "päss%wörd"

// guarded starts an etcd that wants a user: root, or alice, who may use the keys job/… alone.
func guarded(t *testing.T) *servers.EtcdServer {
	t.Helper()
	s := servers.Etcd(t, servers.EtcdOptions{Password: password})
	s.Ctl(t, "user", "add", "alice:"+password)
	s.Ctl(t, "role", "add", "jobs")
	s.Ctl(t, "role", "grant-permission", "jobs", "readwrite", "--prefix", "job/")
	s.Ctl(t, "user", "grant-role", "alice", "jobs")
	return s
}

func alice(s *servers.EtcdServer) rpc.Config {
	return rpc.Config{Endpoints: []string{s.Endpoint()}, Login: backendurl.NewLogin("alice", password)}
}

var (
	mine   = rpc.Range{Key: []byte("job/k")}
	theirs = rpc.Range{Key: []byte("k")}
)

// An etcd forgets the tokens of a user whose password is set.
func TestATokenThatIsForgottenIsAskedForAgain(t *testing.T) {
	t.Parallel()
	s := guarded(t)
	root := official(t, clientv3.Config{Username: "root", Password: password}, s.Endpoint())
	c := configured(t, alice(s))
	for name, call := range map[string]func(c *rpc.Client) error{
		"Range": func(c *rpc.Client) error { _, err := c.Range(within(t), mine); return err },
		"Txn": func(c *rpc.Client) error {
			_, err := c.Txn(within(t), rpc.Txn{Then: []rpc.Op{{Put: &rpc.Put{Key: mine.Key}}}})
			return err
		},
		"Grant":     func(c *rpc.Client) error { _, err := c.Grant(within(t), 9, 100); return err },
		"KeepAlive": func(c *rpc.Client) error { _, err := c.KeepAlive(within(t), 9); return err },
		"Watch": func(c *rpc.Client) error {
			w := watch(t, c, "job/", "job0").stands(t)
			w.stop()
			if err := w.end(t); !errors.Is(err, context.Canceled) {
				return err
			}
			return nil
		},
	} {
		if _, err := c.Range(within(t), mine); err != nil {
			t.Fatal(err)
		}
		if _, err := root.UserChangePassword(within(t), "alice", password); err != nil {
			t.Fatal(err)
		}
		if err := call(c); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// What a user may do is looked up again when it has been changed.
func TestATokenFromBeforeAChangeOfUsers(t *testing.T) {
	t.Parallel()
	s := guarded(t)
	c := configured(t, alice(s))
	if _, err := c.Range(within(t), mine); err != nil {
		t.Fatal(err)
	}
	s.Ctl(t, "role", "grant-permission", "jobs", "read", "k")
	if _, err := c.Range(within(t), theirs); err != nil {
		t.Fatal(err)
	}
}

func TestACertificateInThePlaceOfAUser(t *testing.T) {
	t.Parallel()
	certs := servers.NewCertificates(t)
	s := servers.Etcd(t, servers.EtcdOptions{TLS: certs, ClientCert: true, Password: password})
	cfg := rpc.Config{Endpoints: []string{s.Endpoint()}, TLS: certs.Client()}
	var e *rpc.Error
	if _, err := configured(t, cfg).Range(within(t), mine); !errors.As(err, &e) || !e.Credentials() {
		t.Fatalf("nobody has the name of the certificate yet: got %v", err)
	}
	s.Ctl(t, "user", "add", "client", "--no-password") // the name in the certificate
	s.Ctl(t, "role", "add", "jobs")
	s.Ctl(t, "role", "grant-permission", "jobs", "readwrite", "--prefix", "job/")
	s.Ctl(t, "user", "grant-role", "client", "jobs")
	c := configured(t, cfg)
	if _, err := c.Range(within(t), mine); err != nil {
		t.Fatal(err)
	}
	if _, err := c.Range(within(t), theirs); !errors.As(err, &e) || !e.Credentials() {
		t.Fatalf("got %v", err)
	}
	cfg.Login = backendurl.NewLogin("root", password)
	if _, err := configured(t, cfg).Range(within(t), theirs); err != nil {
		t.Fatalf("a user has precedence: %v", err)
	}
	o := official(t, clientv3.Config{TLS: certs.Client()}, s.Endpoint())
	if _, err := o.Get(within(t), "job/k"); err != nil {
		t.Fatal(err)
	}
}

// What else a handshake may meet is in TestRefusedAccess of package etcd.
func TestTLSThatNoRetryMends(t *testing.T) {
	t.Parallel()
	certs, others := servers.NewCertificates(t), servers.NewCertificates(t)
	s := servers.Etcd(t, servers.EtcdOptions{TLS: certs, ClientCert: true})
	stranger := certs.Client()
	stranger.Certificates = others.Client().Certificates
	nobody := certs.Client()
	nobody.Certificates = nil
	old := certs.Client()
	old.MaxVersion = tls.VersionTLS12
	old.Certificates = nil
	for name, config := range map[string]*tls.Config{
		"no client certificate": nobody, "no client certificate, over TLS 1.2": old, "a client certificate of others": stranger,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := configured(t, rpc.Config{Endpoints: []string{s.Endpoint()}, TLS: config})
			for range 20 { // the alert of the server races with our request
				_, err := c.Range(within(t), mine)
				var e *rpc.Error
				if err == nil || errors.As(err, &e) || backendurl.RemediesOf("etcd").Fault(err) == nil {
					t.Fatalf("got %v", err)
				}
			}
		})
	}
	for _, cfg := range []rpc.Config{{Endpoints: []string{s.Endpoint()}}, {Endpoints: []string{s.Endpoint() + "1"}}} {
		if _, err := configured(t, cfg).Range(within(t), mine); err == nil || backendurl.RemediesOf("etcd").Fault(err) != nil {
			t.Errorf("without TLS: got %v", err)
		}
	}
}
