package rpc_test

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"net/http"
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

func TestAUser(t *testing.T) {
	t.Parallel()
	s := guarded(t)
	c := configured(t, alice(s))
	if _, err := c.Status(within(t)); err != nil {
		t.Error(err)
	}
	if _, err := c.Range(within(t), mine); err != nil {
		t.Error(err)
	}
	if _, err := c.Grant(within(t), 5, 100); err != nil {
		t.Error(err)
	}
	if _, err := c.Txn(within(t), rpc.Txn{Then: []rpc.Op{{Put: &rpc.Put{Key: mine.Key, Lease: 5}}}}); err != nil {
		t.Error(err)
	}
	if l, err := c.KeepAlive(within(t), 5); err != nil || l.TTL != 100 {
		t.Errorf("got %+v, %v", l, err)
	}
	if l, err := c.TimeToLive(within(t), 5); err != nil || l.TTL < 1 {
		t.Errorf("got %+v, %v", l, err)
	}
	w := watch(t, c, "job/k", "").stands(t)
	if err := c.Revoke(within(t), 5); err != nil {
		t.Error(err)
	}
	if e := w.next(t, 1); !e[0].Deleted {
		t.Errorf("got %+v", e)
	}
	w.stop()
	_ = w.end(t)
}

func TestCredentialsThatAreNotTaken(t *testing.T) {
	t.Parallel()
	s, open := guarded(t), servers.Etcd(t, servers.EtcdOptions{})
	put := func(ctx context.Context, c *rpc.Client) error {
		_, err := c.Txn(ctx, rpc.Txn{Then: []rpc.Op{{Put: &rpc.Put{Key: theirs.Key}}}})
		return err
	}
	at := func(s *servers.EtcdServer, user, password string) rpc.Config {
		return rpc.Config{Endpoints: []string{s.Endpoint()}, Login: backendurl.NewLogin(user, password)}
	}
	for name, tt := range map[string]struct {
		cfg     rpc.Config
		call    func(context.Context, *rpc.Client) error
		message string
	}{
		"wrong password":  {at(s, "alice", "wrong"), put, "etcdserver: authentication failed, invalid user ID or password"},
		"unknown user":    {at(s, "bob", password), put, "etcdserver: authentication failed, invalid user ID or password"},
		"a key of others": {alice(s), put, "etcdserver: permission denied"},
		"watch a key of others": {alice(s), func(ctx context.Context, c *rpc.Client) error {
			return c.Watch(ctx, theirs.Key, nil, func(r rpc.WatchReply) { t.Errorf("got %+v", r) })
		}, "etcdserver: permission denied"},
		"no user":                       {at(s, "", ""), put, "etcdserver: user name is empty"},
		"a user where nobody wants one": {at(open, "alice", password), put, "etcdserver: authentication is not enabled"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := configured(t, tt.cfg)
			for range 2 {
				var e *rpc.Error
				if err := tt.call(within(t), c); !errors.As(err, &e) || !e.Credentials() || !e.Refused() || e.Message != tt.message {
					t.Fatalf("got %v", err)
				}
			}
		})
	}
}

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

func TestAUserAfterARestartOfTheServer(t *testing.T) {
	t.Parallel()
	s := guarded(t)
	c := configured(t, alice(s))
	if _, err := c.Range(within(t), mine); err != nil {
		t.Fatal(err)
	}
	s.Restart(t, true)
	// If the client has not seen yet that its connection broke, the first request finds out.
	var e *rpc.Error
	_, err := c.Range(within(t), mine)
	if err != nil && !errors.As(err, &e) {
		_, err = c.Range(within(t), mine)
	}
	if err != nil {
		t.Fatal(err)
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

func TestTLSThatNoRetryMends(t *testing.T) {
	t.Parallel()
	certs, others := servers.NewCertificates(t), servers.NewCertificates(t)
	s := servers.Etcd(t, servers.EtcdOptions{TLS: certs, ClientCert: true})
	plain := servers.Etcd(t, servers.EtcdOptions{})
	web := handler(t, func(http.ResponseWriter, *http.Request) {}, nil)
	stranger := certs.Client()
	stranger.Certificates = others.Client().Certificates
	nobody := certs.Client()
	nobody.Certificates = nil
	named := certs.Client()
	named.ServerName = "etcd.example.com"
	old := certs.Client()
	old.MaxVersion = tls.VersionTLS12
	old.Certificates = nil
	for name, tt := range map[string]struct {
		cfg   rpc.Config
		check func(error) bool
	}{
		"an authority that is not trusted": {rpc.Config{Endpoints: []string{s.Endpoint()}, TLS: others.Client()}, func(err error) bool {
			var unknown x509.UnknownAuthorityError
			return errors.As(err, &unknown)
		}},
		"another name": {rpc.Config{Endpoints: []string{s.Endpoint()}, TLS: named}, func(err error) bool {
			var verify *tls.CertificateVerificationError
			return errors.As(err, &verify)
		}},
		"no client certificate":               {rpc.Config{Endpoints: []string{s.Endpoint()}, TLS: nobody}, nil},
		"no client certificate, over TLS 1.2": {rpc.Config{Endpoints: []string{s.Endpoint()}, TLS: old}, nil},
		"a client certificate of others":      {rpc.Config{Endpoints: []string{s.Endpoint()}, TLS: stranger}, nil},
		"a server without TLS": {rpc.Config{Endpoints: []string{web}, TLS: certs.Client()}, func(err error) bool {
			var record tls.RecordHeaderError
			return errors.As(err, &record)
		}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := configured(t, tt.cfg)
			for range 20 {
				_, err := c.Range(within(t), mine)
				var e *rpc.Error
				if err == nil || errors.As(err, &e) || backendurl.RemediesOf("etcd").Fault(err) == nil || tt.check != nil && !tt.check(err) {
					t.Fatalf("got %v", err)
				}
			}
		})
	}
	for _, cfg := range []rpc.Config{{Endpoints: []string{s.Endpoint()}}, {Endpoints: []string{plain.Endpoint() + "1"}}} {
		if _, err := configured(t, cfg).Range(within(t), mine); err == nil || backendurl.RemediesOf("etcd").Fault(err) != nil {
			t.Errorf("without TLS: got %v", err)
		}
	}
}

func TestTheHostIsTheNameThatACertificateMustHave(t *testing.T) {
	t.Parallel()
	certs := servers.NewCertificates(t)
	s := servers.Etcd(t, servers.EtcdOptions{TLS: certs})
	if _, err := configured(t, rpc.Config{Endpoints: []string{s.Endpoint()}, TLS: certs.Client()}).Range(within(t), mine); err != nil {
		t.Fatal(err)
	}
	named := certs.Client()
	named.ServerName = "localhost"
	if _, err := configured(t, rpc.Config{Endpoints: []string{s.Endpoint()}, TLS: named}).Range(within(t), mine); err != nil {
		t.Fatal(err)
	}
}
